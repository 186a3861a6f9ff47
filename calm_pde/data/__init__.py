"""Data: the file format, its checker, data sets and batches, readers of published files, generation."""
