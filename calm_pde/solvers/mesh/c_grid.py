"""The published C-grid around a section: along its wake, around it and back, on straight rays to the far field."""

from __future__ import annotations

import numpy as np

from calm_pde.solvers.mesh.section import Section

WAKE, SIDE, OUTWARD = 50, 60, 50
"""Cells along the wake, along each side of the section, and outward."""
LOWER, UPPER = (-39.0, -40.0), (40.0, 40.0)
"""Corners of the box around it."""

_FIRST = 1 / 60  # the first cell of the wake and of the shortest ray: as long as those of the section along x
_RADIUS = 40.0  # of the front, around the trailing edge of the unbent section
_END = 40.0  # of the wake


def c_grid(section: Section) -> np.ndarray:
    """(2·(wake + side) + 1, outward + 1, 2): from the end of the wake below the cut around the nose to its end above.

    Both sides of the cut behind the section are there: their points coincide.
    """
    along = 1 + _growing(_FIRST, _END - 1, WAKE)
    chord = np.linspace(0.0, 1.0, SIDE + 1)
    lower, upper = section.side(chord[::-1], -1), section.side(chord, 1)
    behind = np.stack([along[1:], np.full(WAKE, lower[0, 1])], axis=1)
    wall = np.concatenate([behind[::-1], lower, upper[1:-1], lower[:1], behind])
    angle = -0.5 * np.pi - np.linspace(0, np.pi, 2 * SIDE + 1)
    front = np.stack([1 + _RADIUS * np.cos(angle), _RADIUS * np.sin(angle)], axis=1)
    below, above = (np.stack([along[1:], np.full(WAKE, sign * _RADIUS)], axis=1) for sign in (-1, 1))
    far = np.concatenate([below[::-1], front, above])
    far = np.clip(far, LOWER, UPPER)  # rounding must not leave the box
    share = _growing(_FIRST, _RADIUS, OUTWARD) / _RADIUS
    return wall[:, None] + share[:, None] * (far - wall)[:, None]


def _growing(first: float, total: float, cells: int) -> np.ndarray:
    """(cells + 1,) positions from 0 to the total; each cell is longer than the one before by the same factor."""
    low, high = 1 + 1e-9, 2.0
    for _ in range(60):
        factor = 0.5 * (low + high)
        low, high = (low, factor) if first * (factor**cells - 1) / (factor - 1) > total else (factor, high)
    positions = np.concatenate([[0.0], np.cumsum(high ** np.arange(cells))])
    return positions * (total / positions[-1])
