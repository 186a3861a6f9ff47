"""Errors of predicted fields, and the numbers of an evaluation."""
