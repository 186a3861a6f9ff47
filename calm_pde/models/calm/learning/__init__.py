"""How a CALM-PDE starts to learn, and what it learns beside the error of its answers."""
