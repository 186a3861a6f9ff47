"""The `calm` command: a module per verb, each nothing but arguments and what is said."""

from calm_pde.cli.command import main

__all__ = ["main"]
