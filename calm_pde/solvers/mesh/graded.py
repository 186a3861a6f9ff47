"""Triangles around an airfoil, small at it and growing to a far circle, by netgen (extra `datagen`)."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.errors import InputError
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.mesh.triangles import TriangleMesh, counterclockwise

_POINTS, _AROUND, _GROWTH = 5200, 200, 0.1  # about so many points come of this outline and this growth of edges
_FEWEST = 40  # points of an outline
_ROOM = 1.3  # edges beside the outline over those of it: at equal length netgen would divide the outline's
_STEEPEST = 0.3  # growth of edges that netgen adds by itself
_TRIES, _NEARLY = 4, 0.03
_EXACT = 1e-9


def airfoil_mesh(section: Section, points: int, radius: float) -> TriangleMesh:
    """About so many points between a section and a circle around the origin; boundaries `airfoil` and `inflow`.

    Edges grow by 0.1 per length away from the section where 200 points lie on it, and so on in proportion. The points of the
    outline come first, from the trailing edge along the lower side, then those of the circle.
    """
    fineness = float(np.sqrt(points / _POINTS))
    mesh = _graded(section, radius, fineness)
    for _ in range(_TRIES):
        if abs(len(mesh.points) / points - 1) < _NEARLY:
            break
        fineness *= float(np.sqrt(points / len(mesh.points)))
        mesh = _graded(section, radius, fineness)
    return mesh


def require_netgen() -> None:
    """Say how to get the mesh generator where it is missing."""
    if importlib.util.find_spec("netgen") is None:
        fix = "Install it with: pip install 'calm-pde[datagen]'."
        raise InputError("airfoil mesh", expected="the extra `datagen`", got="no module netgen", fix=fix)


def _graded(section: Section, radius: float, fineness: float) -> TriangleMesh:
    require_netgen()
    outline, growth = section.outline(max(2 * round(_AROUND / 2 * fineness), _FEWEST)), _GROWTH / fineness
    angle = np.linspace(0, 2 * np.pi, round(2 * np.pi / growth), endpoint=False)
    circle = np.clip(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1), -radius, radius)
    parameters = importlib.import_module("netgen.meshing").MeshingParameters(grading=_STEEPEST)
    for x, y, size in _wanted_sizes(outline, radius, growth).tolist():
        parameters.RestrictH(x, y, 0.0, size)
    found = _geometry(outline, circle).GenerateMesh(parameters)
    points = np.array(found.Coordinates(), dtype=np.float64)
    given = np.concatenate([outline, circle])
    if np.abs(points[: len(given)] - given).max() > _EXACT * radius:  # it unites points that it takes for equal
        fix = "Ask for fewer points, or a thicker section."
        raise InputError(
            "points", expected="an outline whose sides netgen can tell apart", got=f"{len(outline)} on it", fix=fix
        )
    points[: len(given)] = given
    lines, cells = found.Elements1D().NumPy(), found.Elements2D().NumPy()["nodes"][:, :3].astype(np.int64) - 1
    ends, near = lines["nodes"][:, :2].astype(np.int64) - 1, lines["index"] <= len(outline)
    return TriangleMesh(points, counterclockwise(points, cells), {"airfoil": ends[near], "inflow": ends[~near]})


def _geometry(outline: np.ndarray, circle: np.ndarray) -> Any:
    """The region left of both curves: the outline runs with the clock, the circle against it."""
    geometry = importlib.import_module("netgen.geom2d").SplineGeometry()
    for curve in (outline, circle):
        nodes = [geometry.AppendPoint(x, y) for x, y in curve.tolist()]
        for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
            geometry.Append(["line", one, other], leftdomain=1, rightdomain=0)
    return geometry


def _wanted_sizes(outline: np.ndarray, radius: float, growth: float) -> np.ndarray:
    """(place, 3) x, y and the wanted length of edges in the middles of a quadtree of squares no larger than it."""
    steps = np.linalg.norm(np.roll(outline, -1, axis=0) - outline, axis=1)
    lengths, tree = _ROOM * 0.5 * (steps + np.roll(steps, 1)), cKDTree(outline)
    middles, half, kept = np.zeros((1, 2)), radius, []
    quarters = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]])
    while len(middles):
        away, nearest = tree.query(middles)
        sizes = lengths[nearest] + growth * away
        small = 2 * half <= sizes
        kept.append(np.column_stack([middles, sizes])[small])
        half /= 2
        middles = (middles[~small, None] + half * quarters).reshape(-1, 2)
    return np.concatenate(kept)
