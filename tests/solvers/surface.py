"""Pressure along an airfoil, the place of a shock in it, and the picture of it in docs/solvers.md."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.methods.gas import GAMMA, primitive
from calm_pde.solvers.problems.steady_airfoil import Found, steady_flow

PICTURE = Path(__file__).parent.parent.parent / "docs" / "pictures" / "airfoil_pressure.png"


def surface_pressure(found: Found) -> tuple[np.ndarray, np.ndarray]:
    """(point, 2) chord position and pressure coefficient of the upper and of the lower side, by position."""
    mesh, outside = found.euler.dual.mesh, found.euler.outside
    nodes = np.unique(mesh.boundary["airfoil"])
    x, y = mesh.points[nodes].T
    speed2 = np.square(outside[1:3]).sum()
    coefficient = (primitive(found.state)[3, nodes] - 1 / GAMMA) / (0.5 * speed2)
    order = np.argsort(x)
    return tuple(np.stack([x[order], coefficient[order]], axis=1)[(side * y >= 0)[order]] for side in (1, -1))


def shock(side: np.ndarray) -> float:
    """Where pressure rises fastest along a side, away from the edges."""
    inner = side[(side[:, 0] > 0.15) & (side[:, 0] < 0.95)]
    steepest = np.argmax(np.diff(inner[:, 1]) / np.diff(inner[:, 0]))
    return float(inner[steepest : steepest + 2, 0].mean())


def draw(path: Path = PICTURE) -> None:
    """NACA 0012 at Mach 0.8 and 1.25° on three meshes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.subplots()
    for points, color in ((850, "#bbbbbb"), (2300, "#5b8db8"), (5200, "#222222")):
        found = steady_flow(Section(), points, 0.8, 1.25)
        lift, drag = found.euler.coefficients(found.state)
        upper, lower = surface_pressure(found)
        label = f"{len(found.state[0]):,} points: lift {lift:.3f}, drag {drag:.4f}"
        axes.plot(*upper.T, color=color, label=label)
        axes.plot(*lower.T, color=color, linestyle="--")
    critical = 2 / (GAMMA * 0.64) * (((2 + 0.4 * 0.64) / 2.4) ** 3.5 - 1)
    axes.axhline(critical, color="#c44", linewidth=0.8)
    axes.annotate("speed of sound", (0.99, critical), ha="right", va="bottom", color="#c44", fontsize=8)
    axes.invert_yaxis()
    axes.set(xlabel="x / chord", ylabel="pressure coefficient", title="NACA 0012, Mach 0.8, 1.25° (solid: upper side)")
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw()
