"""Training: recipes, the curriculum, the optimizer, checkpoints, and the one loop."""
