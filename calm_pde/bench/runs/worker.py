"""One run of a campaign in a process of its own: `python -m calm_pde.bench.runs.worker TRIAL.json OUT`.

The campaign holds the other end of its input. When that is gone, the run saves and leaves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from calm_pde.bench.runs.campaign import Campaign
from calm_pde.bench.runs.trials import Trial
from calm_pde.train.loop import Interrupted


def leave_with_the_campaign() -> None:
    """End as SIGTERM ends once the campaign is gone, by a kill too."""

    def watch() -> None:
        with suppress(OSError):
            while os.read(sys.stdin.fileno(), 1024):
                pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, daemon=True).start()


def main(arguments: list[str]) -> int:
    leave_with_the_campaign()
    trial, out = Trial.model_validate_json(Path(arguments[0]).read_bytes()), Path(arguments[1])
    console = Console(width=10_000)
    try:
        Campaign([trial], out, console, lambda: None).run([trial])
    except Interrupted as error:
        console.print(str(error), highlight=False, markup=False)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
