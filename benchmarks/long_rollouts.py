"""What happens beyond the horizon: `python -m benchmarks.long_rollouts RUN …`, ten times as long as the trained frames.

Every test trajectory of a run's own data is solved to the end and has to stay finite; errors are those of new trajectories of
the same problem, which its solver follows as far.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np

import calm_pde as cp
from benchmarks.measure import RESULTS, report
from calm_pde.data.generate import problem_of
from calm_pde.errors import TrainingRangeWarning
from calm_pde.metrics.scores import Evaluation
from calm_pde.records.trajectory import SPLITS
from calm_pde.surrogate.evaluate import data_of

TIMES_LONGER = 10
SAMPLES = 40  # a tenth of them is the test split
PICTURE = RESULTS.parent.parent / "docs" / "pictures" / "long_rollouts.png"


class Found(NamedTuple):
    """One run's answers far beyond its horizon."""

    name: str
    finite: int
    tried: int
    largest: float
    """Of the answers' magnitudes, in units of the largest value of the initial states."""
    horizon: int
    evaluation: Evaluation


def main() -> None:
    found = [beyond(Path(name)) for name in sys.argv[1:]]
    draw(found)
    report("long_rollouts", list(table(found)))


def beyond(run: Path) -> Found:
    """A run solved on its own test split, and measured on a longer twin of its data."""
    surrogate = cp.Surrogate.load(run)
    file, stride = data_of(surrogate, run)
    horizon = (len(file.description.times) - 1) // stride
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingRangeWarning)
        finite, tried, largest = followed(surrogate, file, TIMES_LONGER * horizon)
        evaluation = cp.evaluate(surrogate, longer(surrogate, file))
    return Found(run.name, finite, tried, largest, horizon, evaluation)


def followed(surrogate: cp.Surrogate, file: cp.DataFile, frames: int) -> tuple[int, int, float]:
    """How many test trajectories stay finite over so many frames, of how many, and how large the largest becomes."""
    times = surrogate.translator.spacing * np.arange(1, frames + 1)
    finite, sizes, chosen = 0, [0.0], [int(sample) for sample in np.flatnonzero(file.splits == SPLITS.index("test"))]
    for sample in chosen:
        trajectory = file.trajectory(sample)
        answer = surrogate.solve(
            trajectory.fields[0],
            file.description.points if trajectory.points is None else trajectory.points,
            times,
            node_type=trajectory.node_type if surrogate.translator.takes_node_types else None,
            allow_nonfinite=True,
        )
        finite += bool(np.isfinite(answer).all())
        sizes.append(float(np.abs(answer).max() / np.abs(trajectory.fields[0]).max()))
    return finite, len(chosen), max(sizes)


def longer(surrogate: cp.Surrogate, file: cp.DataFile) -> Path:
    """Trajectories of the same problem with other initial states, beside the data file; made where they are missing."""
    path = file.path.with_name(f"{file.path.stem}_{TIMES_LONGER}_times.h5")
    if not path.exists():
        made: dict[str, Any] = surrogate.description.provenance["recipe"]["data"]["generate"]
        settings = made["problem"] | {"frames": TIMES_LONGER * (len(file.description.times) - 1) + 1}
        duration = getattr(problem_of(made["kind"], made["problem"]), "duration", None)
        if duration is not None:  # frames divide it; other problems tell the time between frames
            settings["duration"] = TIMES_LONGER * duration
        cp.generate(made["kind"], path, samples=SAMPLES, seed=made["seed"] + 1, **settings)
    return path


def curve(one: Found) -> np.ndarray:
    """The mean error of each frame over fields."""
    return np.mean([[spread.mean for spread in field.frames] for field in one.evaluation.fields], axis=0)


def table(found: list[Found]) -> list[str]:
    lines = [
        f"Finite: of all test trajectories, up to {TIMES_LONGER} horizons. Largest: of their answers, as a multiple of the "
        "largest initial value. Then the relative L2 after 1, 2, 5 and 10 horizons, of new trajectories.",
        "",
        "| run | finite | largest | 1 | 2 | 5 | 10 |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found:
        errors = curve(one)
        shown = " | ".join(f"{errors[times * one.horizon - 1]:.3f}" for times in (1, 2, 5, 10))
        lines.append(f"| {one.name} | {one.finite} of {one.tried} | {one.largest:.2g} | {shown} |")
    return lines


def draw(found: list[Found]) -> None:
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for one in found:
        errors = curve(one)
        axes.plot(np.arange(1, len(errors) + 1) / one.horizon, errors, label=one.name)
    axes.axvline(1, color="0.6", linewidth=1)
    axes.set(xlabel="time in horizons of the training", ylabel="relative L2", yscale="log")
    axes.legend(frameon=False)
    figure.savefig(PICTURE, dpi=150)
    plt.close(figure)


if __name__ == "__main__":
    main()
