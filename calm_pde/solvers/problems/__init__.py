"""One file per PDE."""
