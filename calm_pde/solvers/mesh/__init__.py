"""Meshes for the solvers: one way of making them per file."""
