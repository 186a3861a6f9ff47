"""Taylor–Hood elements on triangles: continuous quadratic velocity, continuous linear pressure."""

from __future__ import annotations

import numpy as np
from scipy.sparse import block_array, block_diag, csr_array

from calm_pde.solvers.mesh.triangles import TriangleMesh, areas, edges

_EDGES = ((0, 1), (1, 2), (2, 0))


def _quadrature(order: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(place, 3) barycentric coordinates and weights of sum 1, exact to degree 2·order − 2: Gauss on the collapsed square."""
    nodes, weights = np.polynomial.legendre.leggauss(order)
    nodes, weights = 0.5 * (nodes + 1), 0.5 * weights
    first, second = (each.ravel() for each in np.meshgrid(nodes, nodes, indexing="ij"))
    places = np.stack([first, (1 - first) * second, (1 - first) * (1 - second)], axis=1)
    return places, 2 * (np.outer(weights, weights).ravel() * (1 - first))


def _quadratic(places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(place, 6) values λᵢ(2λᵢ − 1) and 4λᵢλⱼ of the basis, and (place, 6, 3) derivatives after λ₀, λ₁, λ₂."""
    values, slopes = np.empty((len(places), 6)), np.zeros((len(places), 6, 3))
    for corner in range(3):
        values[:, corner] = places[:, corner] * (2 * places[:, corner] - 1)
        slopes[:, corner, corner] = 4 * places[:, corner] - 1
    for edge, (one, other) in enumerate(_EDGES, start=3):
        values[:, edge] = 4 * places[:, one] * places[:, other]
        slopes[:, edge, one], slopes[:, edge, other] = 4 * places[:, other], 4 * places[:, one]
    return values, slopes


_PLACES, _WEIGHTS = _quadrature()
_VALUES, _SLOPES = _quadratic(_PLACES)
# Integrals over a triangle of area 1: i, j, k for velocity nodes, q for pressure nodes, l, m for barycentric coordinates.
_MASS = np.einsum("g,gi,gj->ij", _WEIGHTS, _VALUES, _VALUES)
_STIFFNESS = np.einsum("g,gil,gjm->lmij", _WEIGHTS, _SLOPES, _SLOPES)
_TRANSPORT = np.einsum("g,gk,gi,gjl->klij", _WEIGHTS, _VALUES, _VALUES, _SLOPES)
_GRADIENT = np.einsum("g,gq,gil->lqi", _WEIGHTS, _PLACES, _SLOPES)


class TaylorHood:
    """Nodes, operators and norms; velocity nodes are the mesh's points, then the midpoints of its edges.

    Operators on velocity components share one sparsity pattern, so that they add up as arrays of `data`:
    mass ∫φᵢφⱼ, stiffness ∫∇φᵢ·∇φⱼ, transport ∫φᵢ w·∇φⱼ. `divergence` holds ∫q ∂_x φ and ∫q ∂_y φ.
    """

    def __init__(self, mesh: TriangleMesh) -> None:
        self.mesh, count = mesh, len(mesh.points)
        self._edges, places = edges(mesh.cells)
        self.points = np.concatenate([mesh.points, mesh.points[self._edges].mean(axis=1)])
        self.cells = np.concatenate([mesh.cells, count + places], axis=1)
        self.areas = areas(mesh.points, mesh.cells)
        self.slopes = _barycentric_slopes(mesh.points, mesh.cells, self.areas)  # (cell, 3, 2)
        self._weighted = self.areas[:, None, None] * self.slopes
        self._pattern()
        products = np.einsum("cla,cma->clm", self.slopes, self.slopes) * self.areas[:, None, None]
        self.mass = self._assembled(self.areas[:, None, None] * _MASS)
        self.stiffness = self._assembled(products.reshape(-1, 9) @ _STIFFNESS.reshape(9, 36))
        pairs = np.einsum("c,cla,cmb->abclm", self.areas, self.slopes, self.slopes)
        self._grad_div = [
            [self.matrix(self._assembled(pair.reshape(-1, 9) @ _STIFFNESS.reshape(9, 36))) for pair in row] for row in pairs
        ]
        self.laplacian = _sparse(products, mesh.cells, mesh.cells, (count, count))
        gradients = np.einsum("c,cla,lqi->acqi", self.areas, self.slopes, _GRADIENT)
        shape = (count, len(self.points))
        self.divergence = [_sparse(gradient, mesh.cells, self.cells, shape) for gradient in gradients]
        self._transposed = [csr_array(block.T) for block in self.divergence]

    def nodes(self, name: str) -> np.ndarray:
        """The velocity nodes on a named boundary."""
        found = np.sort(self.mesh.boundary[name], axis=1)
        count = len(self.mesh.points)
        keys = self._edges[:, 0] * count + self._edges[:, 1]
        return np.concatenate([np.unique(found), count + np.searchsorted(keys, found[:, 0] * count + found[:, 1])])

    def matrix(self, data: np.ndarray) -> csr_array:
        """An operator on one velocity component."""
        size = len(self.points)
        return csr_array((data, self._columns, self._starts), shape=(size, size))

    def transport(self, velocity: np.ndarray) -> np.ndarray:
        """The data of ∫φᵢ w·∇φⱼ, exact for the quadratic w."""
        across, up = (velocity[:, axis][self.cells][:, :, None] * self._weighted[:, None, :, axis] for axis in (0, 1))
        carried = across + up
        return self._assembled(carried.reshape(-1, 18) @ _TRANSPORT.reshape(18, 36))

    def weak_divergence(self, velocity: np.ndarray) -> np.ndarray:
        """(point,) ∫q ∇·u."""
        return self.divergence[0] @ velocity[:, 0] + self.divergence[1] @ velocity[:, 1]

    def weak_gradient(self, pressure: np.ndarray) -> np.ndarray:
        """(node, 2) ∫p ∇·v, which is −∫∇p·v where v or p vanish on the boundary."""
        return np.stack([block @ pressure for block in self._transposed], axis=1)

    def weak_grad_div(self, velocity: np.ndarray) -> np.ndarray:
        """(node, 2) ∫∇·u ∇·v."""
        return np.stack([across @ velocity[:, 0] + up @ velocity[:, 1] for across, up in self._grad_div], axis=1)

    def mass_and_grad_div(self, nodes: np.ndarray, weight: float) -> csr_array:
        """∫u·v + weight·∫∇·u ∇·v between some nodes, x components first."""
        mass = self.matrix(self.mass)[nodes][:, nodes]
        blocks = [[weight * block[nodes][:, nodes] for block in row] for row in self._grad_div]
        return csr_array(block_array(blocks) + block_diag([mass, mass]))

    def norm(self, velocity: np.ndarray) -> float:
        """The L2 norm of a velocity field."""
        return float(np.sqrt(sum(part @ (self.matrix(self.mass) @ part) for part in velocity.T)))

    def _pattern(self) -> None:
        size = len(self.points)
        keys = (self.cells[:, :, None] * size + self.cells[:, None, :]).ravel()
        entries, self._entry = np.unique(keys, return_inverse=True)
        self._columns = (entries % size).astype(np.int32)
        self._starts = np.searchsorted(entries, np.arange(size + 1) * size).astype(np.int32)

    def _assembled(self, of_cells: np.ndarray) -> np.ndarray:
        return np.bincount(self._entry, weights=of_cells.ravel(), minlength=len(self._columns))


def _barycentric_slopes(points: np.ndarray, cells: np.ndarray, area: np.ndarray) -> np.ndarray:
    """(cell, 3, 2) ∇λ of each corner: the opposite edge turned by 90°, over twice the area."""
    corners = points[cells]
    opposite = corners[:, [2, 0, 1]] - corners[:, [1, 2, 0]]
    return np.stack([-opposite[:, :, 1], opposite[:, :, 0]], axis=2) / (2 * area)[:, None, None]


def _sparse(of_cells: np.ndarray, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> csr_array:
    row = np.broadcast_to(rows[:, :, None], of_cells.shape).ravel()
    column = np.broadcast_to(columns[:, None, :], of_cells.shape).ravel()
    return csr_array((of_cells.ravel(), (row, column)), shape=shape)
