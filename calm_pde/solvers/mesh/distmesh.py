"""Triangulating a region with edges of prescribed size: points on springs, after Persson and Strang's DistMesh (2004)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.spatial import Delaunay  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.triangles import boundary_edges, counterclockwise, edges, qualities

OfPoints = Callable[[np.ndarray], np.ndarray]
"""(point, 2) ↦ (point,): a signed distance, negative inside the region, or the wanted edge length."""

_PRESSURE = 1.2  # springs are this much too long for the room they have, so that points spread evenly
_PACE = 0.2
_RETRIANGULATE = 0.1  # in edge lengths: how far points move before neighbors are found anew
_SETTLED = 0.005  # in edge lengths: the last movements
_STRIP = np.sqrt(3) / 4  # in edge lengths: a strip this wide along the boundary belongs to the points on it
_NEAREST = 0.35  # in edge lengths: how near an inner point may come to the boundary
LONGEST = 300
"""Rounds of pushing, after which points are where they are."""


def rectangle(lower: tuple[float, float], upper: tuple[float, float]) -> OfPoints:
    """Signed distance of a rectangle (a lower bound of it outside, near corners)."""
    low, high = np.array(lower), np.array(upper)
    return lambda points: np.maximum(low - points, points - high).max(axis=1)


def circle(center: tuple[float, float], radius: float) -> OfPoints:
    """Signed distance of a disk."""
    middle = np.array(center)
    return lambda points: np.linalg.norm(points - middle, axis=1) - radius


def without(region: OfPoints, hole: OfPoints) -> OfPoints:
    """max(d_region, −d_hole)."""
    return lambda points: np.maximum(region(points), -hole(points))


def spaced(curve: OfPoints, size: OfPoints, fewest: int = 1) -> np.ndarray:
    """Points along a curve, both ends among them, with the same ∫ds/h between any two; h is the wanted length.

    Args:
        curve: from parameters in [0, 1] to points.
    """
    parameter = np.linspace(0.0, 1.0, 4001)
    places = curve(parameter)
    lengths = np.linalg.norm(np.diff(places, axis=0), axis=1)
    gone = np.concatenate([[0.0], np.cumsum(lengths / size(0.5 * (places[1:] + places[:-1])))])
    count = max(round(gone[-1]), fewest)
    return curve(np.interp(np.linspace(0.0, gone[-1], count + 1), gone, parameter))


def triangulate(
    fixed: np.ndarray, distance: OfPoints, size: OfPoints, draw: np.random.Generator, longest: int = LONGEST
) -> tuple[np.ndarray, np.ndarray]:
    """Points and counterclockwise triangles; `fixed` come first among the points and are the whole boundary, in their order.

    Bars between neighbors push with force max(L₀ − L, 0), L₀ ∝ h(middle) and a little longer than there is room for. A random
    lattice, thinned to density 2/(√3 h²), starts it.
    """
    points = np.concatenate([fixed, _scattered(fixed, distance, size, draw)])
    free = slice(len(fixed), None)
    placed = np.full_like(points, np.inf)
    cells, bars = np.zeros((0, 3), dtype=int), np.zeros((0, 2), dtype=int)
    for _ in range(longest):
        wanted = size(points)
        if (np.linalg.norm(points - placed, axis=1) > _RETRIANGULATE * wanted).any():
            placed = points.copy()
            cells = _triangles(points, distance)
            bars, _ = edges(cells)
        move = _PACE * _pushes(points, bars, size)
        points[free] += move[free]
        _keep_inside(points[free], distance, size)
        if np.linalg.norm(move[free], axis=1).max(initial=0.0) < _SETTLED * wanted.min():
            break
    return points, _checked(points, counterclockwise(points, _triangles(points, distance)), len(fixed))


def _scattered(fixed: np.ndarray, distance: OfPoints, size: OfPoints, draw: np.random.Generator) -> np.ndarray:
    """A triangular lattice at the smallest size, thinned to the wanted density, clear of the boundary's strip."""
    lower, upper = fixed.min(axis=0), fixed.max(axis=0)
    smallest = size(fixed).min()
    x = np.arange(lower[0], upper[0], smallest)
    y = np.arange(lower[1], upper[1], smallest * np.sqrt(3) / 2)
    lattice = np.stack(np.meshgrid(x, y), axis=-1)
    lattice[1::2, :, 0] += smallest / 2
    points = lattice.reshape(-1, 2) + smallest * draw.uniform(-0.5, 0.5, size=2)
    wanted = size(points)
    inside = distance(points) < -_STRIP * wanted
    points, density = points[inside], (smallest / wanted[inside]) ** 2
    if not len(points):
        return points
    chosen = draw.choice(len(points), size=round(density.sum()), replace=False, p=density / density.sum())
    return points[np.sort(chosen)]


def _triangles(points: np.ndarray, distance: OfPoints) -> np.ndarray:
    cells = Delaunay(points).simplices
    return cells[distance(points[cells].mean(axis=1)) < 0]


def _pushes(points: np.ndarray, bars: np.ndarray, size: OfPoints) -> np.ndarray:
    along = points[bars[:, 0]] - points[bars[:, 1]]
    lengths = np.linalg.norm(along, axis=1)
    wanted = size(points[bars].mean(axis=1))
    wanted *= _PRESSURE * np.sqrt(np.square(lengths).sum() / np.square(wanted).sum())
    forces = (np.maximum(wanted - lengths, 0.0) / lengths)[:, None] * along
    ends, signed = bars.T.ravel(), np.concatenate([forces, -forces])
    return np.stack([np.bincount(ends, weights=signed[:, axis], minlength=len(points)) for axis in (0, 1)], axis=1)


def _keep_inside(points: np.ndarray, distance: OfPoints, size: OfPoints) -> None:
    """Points too near the boundary or beyond it go back along the gradient of the distance, in place."""
    excess = distance(points) + _NEAREST * size(points)
    strayed = np.flatnonzero(excess > 0)
    if len(strayed):
        step = 1e-6 * np.ptp(points, axis=0).max()
        ahead = [distance(points[strayed] + shift) - distance(points[strayed] - shift) for shift in step * np.eye(2)]
        gradient = np.stack(ahead, axis=1) / (2 * step)
        points[strayed] -= excess[strayed, None] * gradient / np.square(gradient).sum(axis=1, keepdims=True)


def _checked(points: np.ndarray, cells: np.ndarray, fixed: int) -> np.ndarray:
    corners = np.unique(boundary_edges(cells))
    if len(corners) != fixed or corners[-1] != fixed - 1 or qualities(points, cells).min() <= 0:
        raise InputError(
            "size",
            expected="edges short enough to resolve the boundary",
            got=f"a triangulation with {len(corners)} points on the boundary instead of {fixed}",
            fix="Ask for smaller edges, or move the body away from the walls.",
        )
    return cells
