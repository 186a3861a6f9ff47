"""What transformers over points are made of, whose cost is linear in the number of points."""
