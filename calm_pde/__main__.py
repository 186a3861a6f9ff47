"""The `calm` command, also as `python -m calm_pde`."""

from __future__ import annotations

import os


def main() -> None:
    """Threads that wait must sleep, not spin: beside another process on the same cores spinning ones take ten times as long.

    They look around for a few microseconds first, since most waits are no longer (docs/training.md). OpenMP reads its settings
    when torch loads, so this comes first. Who has set a policy keeps it.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")
    from calm_pde.cli import main as command

    command()


if __name__ == "__main__":
    main()
