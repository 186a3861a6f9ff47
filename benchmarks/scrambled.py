"""Does a surrogate use its conditions? Its test error with those of each sample, and with those of the next one:
`python -m benchmarks.scrambled RUN --data FILE`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import tyro

import calm_pde as cp
from benchmarks.measure import report
from calm_pde.data.writing import write
from calm_pde.records.trajectory import Source, Trajectory

TAKEN = {
    "its own": (),
    "parameters of the next sample": ("parameters",),
    "signals of the next sample": ("signals", "signal_times"),
    "both": ("parameters", "signals", "signal_times"),
}


def main(run: tyro.conf.Positional[Path], data: Path) -> None:
    """
    Args:
        run: The folder of a run.
        data: The data file that it was trained on.
    """
    lines = [f"{run.name} on {data.name}: error on the test split.", "", "| conditions | relative L2 |", "|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for number, (words, names) in enumerate(TAKEN.items()):
            scrambled = write(of_next(cp.DataFile(data), names), Path(folder) / f"{number}.h5")
            found = cp.evaluate(run, scrambled).relative_l2
            lines.append(f"| {words} | {found.mean:.4f} ± {found.std:.4f} |")
    report("scrambled", lines)


def of_next(file: cp.DataFile, names: tuple[str, ...]) -> Source:
    """The test samples, with some of what stands beside the fields taken from the next one."""
    indices = file.indices("test").tolist()

    def trajectories() -> Iterator[Trajectory]:
        for here, there in zip(indices, [*indices[1:], indices[0]], strict=True):
            other = file.trajectory(there)
            yield replace(file.trajectory(here), **{name: getattr(other, name) for name in names})

    return Source(file.description, trajectories(), len(indices))


if __name__ == "__main__":
    tyro.cli(main)
