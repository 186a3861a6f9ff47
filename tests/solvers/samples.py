"""`python -m tests.solvers.samples [SET …]` draws three samples of every set on meshes, or of those named, for the docs."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from calm_pde.data.picture import draw_plane, field_label, limits
from calm_pde.solvers import Airfoil, Cylinder, Elasticity, Heat, Problem, SteadyAirfoil

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SAMPLES = 3
NEAR_AIRFOIL = ((-0.75, 1.75), (-0.9, 0.9))

Window = tuple[tuple[float, float], tuple[float, float]]


def picture(problem: Problem, field: str, frames: tuple[int, ...], window: Window | None = None, edges: bool = False) -> Figure:
    """A row of frames per sample (steady ones side by side), in a window of the plane; `edges` draws the mesh on the first."""
    description = problem.description()
    channel = [entry.name for entry in description.fields].index(field)
    steady = description.steady
    shape = (1, SAMPLES) if steady else (SAMPLES, len(frames))
    figure = Figure(
        figsize=(3.4 * shape[1] + 0.8, (2.8 if steady else 1.25 if window is None else 2.4) * shape[0]), layout="constrained"
    )
    places = figure.subplots(*shape, squeeze=False).reshape(SAMPLES, len(frames))
    draws = [np.random.default_rng([0, index]) for index in range(SAMPLES)]
    for number, (row, trajectory) in enumerate(zip(places, problem.solve(draws), strict=True)):
        points = description.points if trajectory.points is None else trajectory.points
        cells = description.cells if trajectory.points is None else trajectory.cells
        values = trajectory.fields[list(frames), :, channel]
        for axes, frame, shown in zip(row, frames, values, strict=True):
            drawn = draw_plane(axes, points, cells, shown, description, limits(values))
            if edges and cells is not None and axes is row[0]:
                axes.triplot(points[:, 0], points[:, 1], cells[:, :3], color="black", linewidth=0.15, alpha=0.6)
            title = f"t = {description.times[frame]:.3g}" if number == 0 and not steady else ""
            axes.set(title=title, xticks=[], yticks=[], aspect="equal")
            (left, right), (bottom, top) = window or zip(description.box.lower, description.box.upper, strict=True)
            axes.set(xlim=(left, right), ylim=(bottom, top))
        bar = figure.colorbar(drawn, ax=row.tolist(), shrink=0.9)
        bar.set_label(field_label(description.fields[channel]), fontsize=7)
    return figure


def main() -> None:
    wanted = {
        "cylinder": (Cylinder(), "velocity_x", (0, 5, 14), None, True),
        "airfoil": (Airfoil(), "velocity_x", (0, 5, 15), NEAR_AIRFOIL, True),
        "steady_airfoil": (SteadyAirfoil(), "mach", (0,), NEAR_AIRFOIL, False),
        "heat": (Heat(), "temperature", (1, 4, 10), None, True),
        "elasticity": (Elasticity(), "stress", (0,), None, False),
    }
    for name in sys.argv[1:] or wanted:
        picture(*wanted[name]).savefig(FOLDER / f"{name}.png", dpi=100)
        print(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
