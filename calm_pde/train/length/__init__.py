"""How long a training is: what a step of it takes, and how many there are in a wanted time."""
