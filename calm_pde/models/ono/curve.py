"""An order of points that is their own: along Hilbert's curve, on which near ones mostly follow one another."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from calm_pde.types import Bool, Float, Int, Tensor

_BITS = 60  # of a place on the curve
_MOST = 30  # of one coordinate


class Walk(NamedTuple):
    """Which point is the n-th on the way, real ones before masked ones, and when each point is met."""

    order: Int[Tensor, "cloud point"]
    met: Int[Tensor, "cloud point"]

    def along(self, values: Float[Tensor, "row point channel"]) -> Float[Tensor, "row point channel"]:
        """What is given per point, in the order of the walk; rows of the same cloud follow one another."""
        return _taken(values, self.order)

    def back(self, values: Float[Tensor, "row point channel"]) -> Float[Tensor, "row point channel"]:
        """What is given in the order of the walk, per point."""
        return _taken(values, self.met)


@torch.no_grad()
def walk(points: Float[Tensor, "cloud point dim"], mask: Bool[Tensor, "batch point"] | None) -> Walk:
    """Along Hilbert's curve in the smallest box around the real points of each cloud; points at one place keep their order."""
    exact = points.double()
    if mask is None:
        lower, upper = exact.amin(dim=1, keepdim=True), exact.amax(dim=1, keepdim=True)
    else:
        hidden = ~mask[..., None]
        lower = exact.masked_fill(hidden, math.inf).amin(dim=1, keepdim=True)
        upper = exact.masked_fill(hidden, -math.inf).amax(dim=1, keepdim=True)
    bits = min(_MOST, _BITS // points.shape[-1])
    cells = 2**bits - 1
    extent = torch.where(upper > lower, upper - lower, 1.0)
    places = hilbert(((exact - lower) / extent * cells).clamp(0, cells).round().long(), bits)
    if mask is not None:
        places = places.masked_fill(~mask, 2**_BITS)
    order = places.argsort(dim=1, stable=True)
    return Walk(order, order.argsort(dim=1))


def hilbert(cells: Int[Tensor, "*axes dim"], bits: int) -> Int[Tensor, "*axes"]:
    """How far along Hilbert's curve a cell of a lattice with 2^bits of them along each axis is met (Skilling, 2004)."""
    x = list(cells.unbind(dim=-1))
    for bit in reversed(range(1, bits)):
        low = 2**bit - 1
        for axis in range(len(x)):
            turned = (x[axis] >> bit & 1).bool()
            swapped = (x[0] ^ x[axis]) & low
            x[0] = torch.where(turned, x[0] ^ low, x[0] ^ swapped)
            if axis:
                x[axis] = torch.where(turned, x[axis], x[axis] ^ swapped)
    for axis in range(1, len(x)):
        x[axis] = x[axis] ^ x[axis - 1]
    flips = torch.zeros_like(x[0])
    for bit in reversed(range(1, bits)):
        flips = torch.where((x[-1] >> bit & 1).bool(), flips ^ (2**bit - 1), flips)
    place = torch.zeros_like(x[0])
    for bit in reversed(range(bits)):
        for axis in x:
            place = place << 1 | (axis ^ flips) >> bit & 1
    return place


def _taken(values: Tensor, order: Tensor) -> Tensor:
    if len(order) == 1:
        return values.index_select(1, order[0])
    order = order.repeat_interleave(len(values) // len(order), dim=0)
    return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))
