"""Airfoil sections: NACA 0012, and NACA 0012 bent by the displacements of eight nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_NODES = np.array([-0.25, 0.25, 0.75, 1.25])  # along the chord
_HEIGHT = 0.1  # of the nodes above and below the chord
_AT_NOSE = 0.3  # share of the part of an outline's spacing that is dense at the nose alone


def half_thickness(x: np.ndarray) -> np.ndarray:
    """0.6(0.2969√x − 0.1260x − 0.3516x² + 0.2843x³ − 0.1036x⁴): NACA 0012 with a sharp trailing edge, chord 1."""
    found = 0.6 * (0.2969 * np.sqrt(x) + x * (-0.1260 + x * (-0.3516 + x * (0.2843 - 0.1036 * x))))
    return np.where(x == 1, 0.0, found)


@dataclass(frozen=True)
class Section:
    """NACA 0012 with y moved by Σ θ_i B_i(x, y), B_i cubic in x, linear in y, one at its own node and zero at the others.

    Args:
        displacements: θ of the lower nodes from left to right, then of the upper ones from right to left.
    """

    displacements: tuple[float, ...] = (0.0,) * 8

    def side(self, x: np.ndarray, sign: int) -> np.ndarray:
        """(n, 2) points of the lower (sign −1) or upper (+1) side over chord positions in [0, 1]."""
        y = sign * half_thickness(x)
        lower, upper = np.array(self.displacements[:4]), np.array(self.displacements[:3:-1])
        cubics = np.stack([_cubic(node, x) for node in range(4)])
        moved = ((_HEIGHT - y) * (lower @ cubics) + (_HEIGHT + y) * (upper @ cubics)) / (2 * _HEIGHT)
        return np.stack([x, y + moved], axis=1)

    def outline(self, count: int) -> np.ndarray:
        """(count, 2) around the section from the trailing edge along the lower side, dense at the nose and less so at the tail.

        x = 0.35(1 − cos πs) + 0.3(1 − cos ½πs) for equidistant s in [0, 1].
        """
        place = np.linspace(0.0, np.pi, count // 2 + 1)
        x = (1 - _AT_NOSE) * 0.5 * (1 - np.cos(place)) + _AT_NOSE * (1 - np.cos(0.5 * place))
        x[-1] = 1.0
        return np.concatenate([self.side(x[::-1], -1), self.side(x[1:-1], 1)])


def _cubic(node: int, x: np.ndarray) -> np.ndarray:
    """Lagrange's polynomial of one of the four nodes."""
    others = np.delete(_NODES, node)
    return np.prod([(x - other) / (_NODES[node] - other) for other in others], axis=0)
