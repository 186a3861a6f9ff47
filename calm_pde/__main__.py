"""`python -m calm_pde` is the `calm` command."""

from calm_pde.cli import main

main()
