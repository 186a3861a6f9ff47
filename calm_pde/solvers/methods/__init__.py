"""Numerical methods, which know no PDE's data."""
