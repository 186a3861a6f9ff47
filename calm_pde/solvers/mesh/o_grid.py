"""A tensor grid between a closed curve and the square around it, bent into an O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from calm_pde.errors import InputError


@dataclass(frozen=True)
class OGrid:
    """Points on rays from the curve outward to the square; ray i goes round against the clock, from the lower right corner on.

    Args:
        points: (around·outward, 2), ray after ray, each from the curve outward.
        around: number of rays, a multiple of 4: a quarter per side (right, top, left, bottom), with a ray in every corner.
        outward: points per ray.
    """

    points: np.ndarray
    around: int
    outward: int

    def cells(self, degree: int = 1) -> np.ndarray:
        """(cell, (degree + 1)²), the nodes of a cell row by row: outward in rows, around in columns."""
        step = np.arange(degree + 1)
        rays = self._rays(np.arange(0, self.around, degree), step)  # (cell around, node around)
        rungs = np.arange(0, self.outward - 1, degree)[:, None] + step
        nodes = rays[:, None, None, :] * self.outward + rungs[None, :, :, None]
        return nodes.reshape(-1, (degree + 1) ** 2)

    def quadrilaterals(self) -> np.ndarray:
        """(cell, 4) corners against the clock."""
        return self.cells()[:, [0, 2, 3, 1]]

    def curve(self, degree: int = 1) -> np.ndarray:
        """(edge, degree + 1) nodes on the curve, with the body to the left."""
        return self._rays(np.arange(0, self.around, degree), np.arange(degree + 1))[:, ::-1] * self.outward

    def side(self, number: int, degree: int = 1) -> np.ndarray:
        """(edge, degree + 1) nodes of the right (0), top (1), left (2) or bottom (3) side, with the body to the left."""
        first = number * self.around // 4
        rays = self._rays(np.arange(first, first + self.around // 4, degree), np.arange(degree + 1))
        return rays * self.outward + self.outward - 1

    def _rays(self, first: np.ndarray, step: np.ndarray) -> np.ndarray:
        return (first[:, None] + step) % self.around


def o_grid(
    radius: Callable[[np.ndarray], np.ndarray],
    around: int,
    outward: int,
    *,
    center: tuple[float, float] = (0.5, 0.5),
    half_width: float = 0.5,
    grading: float = 1.0,
) -> OGrid:
    """x = center + ((1 − s) r(φ) + s R(φ)) (cos φ, sin φ), where R leads to points at equal distances on the square.

    All cells are convex: neighboring rays never meet, and along each the distance from the center grows. A grid with a multiple
    of the rays and of the intervals holds the points of the coarser one.

    Args:
        radius: r of angles φ, between 0 and `half_width`.
        grading: the last interval of a fine ray over its first; s = (q^t − 1)/(q − 1) for equidistant t.
    """
    if around < 4 or around % 4:
        raise InputError("around", expected="a positive multiple of 4", got=str(around), fix="Every corner needs its ray.")
    if outward < 2:
        raise InputError("outward", expected="at least 2", got=str(outward), fix="A ray has two ends.")
    along = np.linspace(-half_width, half_width, around // 4, endpoint=False)
    fixed = np.full(around // 4, half_width)
    square = np.concatenate(
        [np.stack(side, axis=1) for side in ((fixed, along), (-along, fixed), (-fixed, -along), (along, -fixed))]
    )
    far = np.hypot(*square.T)
    near = np.asarray(radius(np.arctan2(square[:, 1], square[:, 0])), dtype=np.float64)
    if not ((near > 0) & (near < half_width)).all():
        got = f"{near.min():.6g} to {near.max():.6g}"
        raise InputError("radius", expected=f"between 0 and {half_width:g}", got=got, fix="The curve lies inside the square.")
    place = np.linspace(0.0, 1.0, outward)
    share = place if grading == 1.0 else np.expm1(np.log(grading) * place) / (grading - 1.0)
    scale = (1.0 - share) * (near / far)[:, None] + share
    points = np.asarray(center) + scale[:, :, None] * square[:, None, :]
    return OGrid(points.reshape(-1, 2), around, outward)
