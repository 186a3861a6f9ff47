"""What flows: the description of a data set, its trajectories, batches of them."""
