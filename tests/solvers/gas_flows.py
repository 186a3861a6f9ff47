"""Flows with known solutions: a traveling vortex and Sod's tube on irregular triangles, and lift by a panel method."""

from __future__ import annotations

import numpy as np
from scipy.spatial import Delaunay

from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.mesh.triangles import TriangleMesh, boundary_edges, counterclockwise
from calm_pde.solvers.methods.dual_mesh import DualMesh
from calm_pde.solvers.methods.euler import Euler
from calm_pde.solvers.methods.gas import GAMMA, conserved, free_stream, primitive
from calm_pde.solvers.methods.implicit import BlockSystem, Unsteady
from tests.solvers.exact import riemann


def box_mesh(lower: tuple, upper: tuple, columns: int, rows: int, jitter: float = 0.2, seed: int = 0) -> TriangleMesh:
    """A rectangle whose inner grid points are moved at random by up to a share of their distance; one boundary, `edge`."""
    axes = [np.linspace(lower[axis], upper[axis], count + 1) for axis, count in enumerate((columns, rows))]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    steps = [axis[1] - axis[0] for axis in axes]
    points[1:-1, 1:-1] += np.random.default_rng(seed).uniform(-jitter, jitter, points[1:-1, 1:-1].shape) * steps
    points = points.reshape(-1, 2)
    cells = Delaunay(points).simplices.astype(np.int64)
    keep = np.abs(np.linalg.det(points[cells[:, 1:]] - points[cells[:, :1]])) > 1e-9 * steps[0] * steps[1]
    cells = counterclockwise(points, cells[keep])
    return TriangleMesh(points, cells, {"edge": boundary_edges(cells)})


def symmetric_mesh(around: int, outward: int) -> TriangleMesh:
    """Triangles between NACA 0012 and a circle of radius 20 that are their own mirror image in the chord."""
    angle = np.linspace(0, -2 * np.pi, around, endpoint=False)
    circle = 20 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    share = np.expm1(np.linspace(0, 7, outward + 1)) / np.expm1(7)
    points = Section().outline(around) * (1 - share)[:, None, None] + circle * share[:, None, None]
    upper = np.arange(around // 2 + 1, around)
    points[:, upper] = points[:, around - upper] * [1, -1]
    points[:, [0, around // 2], 1] = 0.0
    number = np.arange(points.shape[0] * around).reshape(-1, around)
    ahead = np.roll(number, -1, axis=1)
    a, b, c, d = (part.ravel() for part in (number[:-1], ahead[:-1], ahead[1:], number[1:]))
    below = np.tile(np.arange(around) < around // 2, outward)[:, None]
    one = np.where(below, np.stack([a, b, c], axis=1), np.stack([a, b, d], axis=1))
    other = np.where(below, np.stack([a, c, d], axis=1), np.stack([b, c, d], axis=1))
    cells = counterclockwise(points.reshape(-1, 2), np.concatenate([one, other]))
    rings = {"airfoil": np.stack([number[0], ahead[0]], axis=1), "inflow": np.stack([number[-1], ahead[-1]], axis=1)}
    return TriangleMesh(points.reshape(-1, 2), cells, rings)


class Vortex:
    """An isentropic vortex that the free stream carries along: u = u∞ + s e^{(1 − r²)/2} (−y, x)/R, r in radii R."""

    outside = free_stream(0.5, 20.0)
    strength, radius = 0.3, 0.6

    def __call__(self, points: np.ndarray, time: float) -> np.ndarray:
        x, y = (points - self.outside[1:3] * time).T / self.radius
        bell = self.strength * np.exp(0.5 * (1 - x**2 - y**2))
        temperature = 1 - 0.5 * (GAMMA - 1) * bell**2  # in units of the free stream's
        density = temperature ** (1 / (GAMMA - 1))
        return np.stack([density, self.outside[1] - bell * y, self.outside[2] + bell * x, density * temperature / GAMMA])

    def error(self, cells: int, end: float = 1.0) -> float:
        """Mean error of density and velocity at the end, with steps in proportion to the edges, each solved to 1e-6."""
        dual = DualMesh(box_mesh((-3.0, -3.0), (3.5, 3.5), cells, cells))
        euler = Euler(dual, self.outside, far=["edge"])
        flow = Unsteady(euler, BlockSystem(dual), tolerance=1e-6, most=40)
        flow.start(conserved(self(dual.mesh.points, 0.0)))
        steps = cells // 2
        for _ in range(steps):
            flow.step(end / steps)
        wrong = np.abs(primitive(flow.state) - self(dual.mesh.points, end))[:3].sum(axis=0)
        return float((wrong * dual.volumes).sum() / dual.volumes.sum())


def sod(cells: int, end: float = 0.2) -> float:
    """Relative L1 error of density in a tube of this many cells' length, closed by slip walls."""
    dual = DualMesh(box_mesh((0.0, 0.0), (1.0, 4.0 / cells), cells, 4))
    left, right = (1.0, 1.0, 0.0), (0.125, 0.1, 0.0)  # density, pressure, velocity
    x = dual.mesh.points[:, 0]
    start = np.where(x < 0.5, *([[density], [velocity], [0.0], [pressure]] for density, pressure, velocity in (left, right)))
    euler = Euler(dual, free_stream(0.0), walls=["edge"])
    flow = Unsteady(euler, BlockSystem(dual), tolerance=1e-3, most=20)
    flow.start(conserved(start))
    steps = round(1.5 * cells * end)
    for _ in range(steps):
        flow.step(end / steps)
    exact = riemann(left, right, GAMMA, (x - 0.5) / end)[0]
    return float((np.abs(flow.state[0] - exact) * dual.volumes).sum() / (exact * dual.volumes).sum())


def panel_lift(outline: np.ndarray, degrees: float) -> float:
    """Lift coefficient of incompressible flow around a closed outline: linear vortex panels, no flow through their middles.

    Args:
        outline: (n, 2) from the trailing edge along the lower side around, without its first point again.
    """
    nodes = np.concatenate([outline, outline[:1]])
    along = np.diff(nodes, axis=0)
    lengths = np.linalg.norm(along, axis=1)
    tangents = along / lengths[:, None]
    normals = np.stack([-tangents[:, 1], tangents[:, 0]], axis=1)
    middles = 0.5 * (nodes[1:] + nodes[:-1])
    away = middles[:, None] - nodes[None, :-1]
    x, y = (away * tangents).sum(axis=2), (away * normals).sum(axis=2)
    far = np.log(((x - lengths) ** 2 + y**2) / (x**2 + y**2)) / (4 * np.pi)
    angle = np.arctan2(y * lengths, y**2 + x * (x - lengths)) / (2 * np.pi)
    np.fill_diagonal(angle, 0.5)
    # velocity of a panel with vorticity 1 at its first or second end and 0 at the other, in its own axes
    second = (x * angle + y * far) / lengths, (x * far + lengths / (2 * np.pi) - y * angle) / lengths
    first = angle - second[0], far - second[1]
    count = len(lengths)
    matrix, right = np.zeros((count + 1, count + 1)), np.zeros(count + 1)
    for shift, (u, v) in enumerate((first, second)):
        velocity = u[..., None] * tangents + v[..., None] * normals
        matrix[:count, shift : count + shift] += (velocity * normals[:, None]).sum(axis=2)
    matrix[count, 0] = matrix[count, count] = 1.0  # Kutta: no vorticity at the trailing edge
    stream = np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])
    right[:count] = -normals @ stream
    strength, *_ = np.linalg.lstsq(matrix, right, rcond=None)
    circulation = (0.5 * (strength[1:] + strength[:-1]) * lengths).sum()
    return float(2 * circulation)
