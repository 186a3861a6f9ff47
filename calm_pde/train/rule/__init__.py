"""A recipe for data of one's own, by a rule: what the data are, how large a model, how it is trained, and for how long."""
