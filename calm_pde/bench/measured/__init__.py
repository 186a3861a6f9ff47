"""How time, memory and errors are measured."""
