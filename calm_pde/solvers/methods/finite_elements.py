"""Finite elements in the plane: Lagrange elements on quadrilaterals and triangles, their integrals, and linear solves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sparse
from scipy.sparse.linalg import SuperLU, splu

from calm_pde.errors import InputError
from calm_pde.geometry import tensor_grid


@dataclass(frozen=True)
class Lagrange:
    """Polynomials on a reference cell, each one at its own node and zero at the others.

    Args:
        nodes: (node, dim).
        powers: (node, dim), the monomials x^a y^b that they are made of.
    """

    nodes: np.ndarray
    powers: np.ndarray

    @cached_property
    def _coefficients(self) -> np.ndarray:
        return np.linalg.inv(_monomials(self.nodes, self.powers))

    def values(self, places: np.ndarray) -> np.ndarray:
        """(place, node)."""
        return _monomials(places, self.powers) @ self._coefficients

    def gradients(self, places: np.ndarray) -> np.ndarray:
        """(place, node, dim) in reference coordinates."""
        dim = self.powers.shape[1]
        lowered = [np.maximum(self.powers - np.eye(dim, dtype=int)[axis], 0) for axis in range(dim)]
        slopes = [self.powers[:, axis] * _monomials(places, lowered[axis]) for axis in range(dim)]
        return np.stack([slope @ self._coefficients for slope in slopes], axis=-1)


@dataclass(frozen=True)
class Element:
    """A cell type of the plane.

    Args:
        shape: of positions and unknowns alike.
        places: (place, 2) of a quadrature that integrates products of two gradients on parallelograms exactly.
        weights: (place,) of it.
        samples: the polynomials of one degree less through the points where gradients are most exact.
        edge: of a side.
    """

    shape: Lagrange
    places: np.ndarray
    weights: np.ndarray
    samples: Lagrange
    edge: Lagrange


def quadrilateral(degree: int) -> Element:
    """Products of polynomials of x and of y; nodes row by row, x in rows."""
    places, weights = _gauss(degree + 1)
    best, _ = _gauss(degree)
    nodes, powers = np.linspace(0, 1, degree + 1), np.arange(degree + 1)
    return Element(
        shape=Lagrange(tensor_grid(nodes, nodes), tensor_grid(powers, powers)),
        places=tensor_grid(places, places),
        weights=np.outer(weights, weights).ravel(),
        samples=Lagrange(tensor_grid(best, best), tensor_grid(powers[:-1], powers[:-1])),
        edge=Lagrange(nodes[:, None], powers[:, None]),
    )


def triangle() -> Element:
    """Linear polynomials on corners (0, 0), (1, 0), (0, 1); the quadrature at the middles of its edges is exact to degree 2."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return Element(
        shape=Lagrange(corners, corners.astype(int)),
        places=np.array([[0.5, 0.0], [0.5, 0.5], [0.0, 0.5]]),
        weights=np.full(3, 1 / 6),
        samples=Lagrange(np.full((1, 2), 1 / 3), np.zeros((1, 2), dtype=int)),
        edge=Lagrange(np.array([[0.0], [1.0]]), np.array([[0], [1]])),
    )


@dataclass(frozen=True)
class Mesh:
    """Cells of one type, bent as their nodes say.

    Args:
        points: (node, 2).
        cells: (cell, node of a cell).
    """

    element: Element
    points: np.ndarray
    cells: np.ndarray

    def gradients(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(cell, place, node, 2) of the shape functions, and (cell, place) areas per reference area."""
        reference = self.element.shape.gradients(places)
        jacobian = np.einsum("cnx,pnr->cpxr", self.points[self.cells], reference, optimize=True)
        (a, b), (c, d) = np.moveaxis(jacobian, (2, 3), (0, 1))
        area = a * d - b * c
        if not (area > 0).all():
            bad = np.flatnonzero(~(area > 0).all(axis=1))
            raise InputError("cells", expected="no cell inverted", got=f"{len(bad)}, the first {bad[0]}", fix="Mend the mesh.")
        inverse = np.moveaxis(np.array([[d, -b], [-c, a]]) / area, (0, 1), (2, 3))
        return np.matmul(reference, inverse), area

    def gradient_products(self) -> np.ndarray:
        """(cell, node, 2, node, 2): ∫ ∂_i N_a ∂_j N_b dx."""
        gradients, area = self.gradients(self.element.places)
        flat = gradients.reshape(*gradients.shape[:2], -1)
        found = np.matmul((flat * (area * self.element.weights)[:, :, None]).transpose(0, 2, 1), flat)
        nodes = gradients.shape[2]
        return found.reshape(-1, nodes, 2, nodes, 2)

    def matrix(self, blocks: np.ndarray) -> sparse.csc_matrix:
        """The sum of blocks (cell, node, component, node, component), for unknowns (node, component) in row-major order."""
        components = blocks.shape[2]
        unknowns = (components * self.cells[:, :, None] + np.arange(components)).reshape(len(self.cells), -1)
        count = unknowns.shape[1]
        rows, columns = np.repeat(unknowns, count, axis=1).ravel(), np.tile(unknowns, (1, count)).ravel()
        return sparse.csc_matrix((blocks.ravel(), (rows, columns)), shape=(components * len(self.points),) * 2)

    def loads(self) -> tuple[np.ndarray, sparse.csr_matrix]:
        """(place, 2) where a source q is read, and the matrix (node, place) that makes the integrals ∫ q N dx of it."""
        values = self.element.shape.values(self.element.places)
        _, area = self.gradients(self.element.places)
        shares = (area * self.element.weights)[:, :, None] * values
        places = np.einsum("pn,cnx->cpx", values, self.points[self.cells]).reshape(-1, 2)
        rows = np.broadcast_to(self.cells[:, None, :], shares.shape)
        columns = np.broadcast_to(np.arange(len(places)).reshape(*shares.shape[:2], 1), shares.shape)
        entries = (shares.ravel(), (rows.ravel(), columns.ravel()))
        return places, sparse.csr_matrix(entries, shape=(len(self.points), len(places)))

    def edge_load(self, edges: np.ndarray, traction: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
        """(node, 2): ∫ t·N ds over (edge, node) edges with the body to their left; t of positions and outward unit normals."""
        shape = self.element.edge
        places, weights = _gauss(len(shape.nodes) + 1)
        values, slopes = shape.values(places[:, None]), shape.gradients(places[:, None])[..., 0]
        corners = self.points[edges]
        tangent = np.einsum("pn,enx->epx", slopes, corners)
        length = np.hypot(*np.moveaxis(tangent, 2, 0))
        normal = np.stack([tangent[..., 1], -tangent[..., 0]], axis=-1) / length[..., None]
        found = traction(np.einsum("pn,enx->epx", values, corners), normal)
        shares = np.einsum("pn,ep,epx->enx", values, length * weights, found, optimize=True)
        return _gathered(edges, shares, len(self.points))

    def nodal_gradients(self, field: np.ndarray) -> np.ndarray:
        """(node, 2, 2): ∂_j u_i of (node, 2), extended from the points where it is most exact, averaged over a node's cells."""
        samples = self.element.samples
        gradients, _ = self.gradients(samples.nodes)
        at_samples = np.einsum("cni,cpnj->cpij", field[self.cells], gradients, optimize=True)
        at_nodes = np.einsum("np,cpij->cnij", samples.values(self.element.shape.nodes), at_samples, optimize=True)
        flat = _gathered(self.cells, at_nodes.reshape(*self.cells.shape, 4), len(self.points))
        return (flat / np.bincount(self.cells.ravel(), minlength=len(self.points))[:, None]).reshape(-1, 2, 2)


def solve_symmetric(matrix: sparse.csc_matrix, load: np.ndarray, fixed: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The unknowns (node, component) of a symmetric positive definite system, some of them given.

    Args:
        fixed: (node, component), True where the unknown is given.
        values: (node, component), read where it is.
    """
    held = np.where(fixed, values, 0.0).ravel()
    free = np.flatnonzero(~fixed.ravel())
    right = (load.ravel() - matrix @ held)[free]
    held[free] = factors(matrix[free][:, free]).solve(right)
    return held.reshape(load.shape)


def factors(matrix: sparse.spmatrix) -> SuperLU:
    """Of a symmetric positive definite matrix."""
    return splu(sparse.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})


def _monomials(places: np.ndarray, powers: np.ndarray) -> np.ndarray:
    """(place, monomial)."""
    return np.prod(places[:, None, :] ** powers, axis=-1)


def _gauss(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss–Legendre on [0, 1]."""
    places, weights = np.polynomial.legendre.leggauss(count)
    return (places + 1) / 2, weights / 2


def _gathered(nodes: np.ndarray, shares: np.ndarray, count: int) -> np.ndarray:
    """Sums over (cell, node) of shares (cell, node, component), by node."""
    columns = [np.bincount(nodes.ravel(), weights=shares[..., i].ravel(), minlength=count) for i in range(shares.shape[-1])]
    return np.stack(columns, axis=-1)
