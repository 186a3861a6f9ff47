"""Points that are the nodes of a grid, straight or bent, and convolutions over it."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn
from torch.nn.functional import conv1d, conv2d, conv3d, pad

from calm_pde.errors import InputError
from calm_pde.models.grid_recognition import RecognizedGrid, recognized_grid
from calm_pde.types import Float, Tensor

Layout = Literal["points", "grid"]

_CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}
_INSTEAD = "Use layout: points, which takes any."


def grid_of(points: Float[Tensor, "cloud point dim"], mask: Tensor | None, shape: tuple[int, ...], kind: str) -> RecognizedGrid:
    """The grid of so many nodes along each axis whose nodes are listed with the last axis fastest, wherever they are.

    Without a shape the points themselves have to tell that they are a straight one, and stand in any order.
    """
    if not shape:
        return recognized_grid(points, mask, None, (1,) * points.shape[-1], f"{kind} with layout: grid")[0]
    named = " × ".join(map(str, shape))
    if mask is not None and not bool(mask.all()):
        hidden = int((~mask).sum())
        raise InputError("mask", expected=f"none, since {kind} has layout: grid", got=f"{hidden} masked points", fix=_INSTEAD)
    if math.prod(shape) != points.shape[-2]:
        raise InputError(
            "points",
            expected=f"the {math.prod(shape)} nodes of a grid of {named}, listed with the last axis fastest",
            got=f"{points.shape[-2]} points",
            fix=f"Set shape to that of the data's grid. {_INSTEAD}",
        )
    return RecognizedGrid(shape, None, None)


class GridConvolution(nn.Module):
    """Σ over the 3ᵈ nodes around each of W_o x + b; beyond the ends stand zeros, or the other end on periodic axes."""

    def __init__(self, width: int, periodic: tuple[bool, ...], generator: torch.Generator | None) -> None:
        super().__init__()
        self.periodic, dim = periodic, len(periodic)
        bound = 1 / math.sqrt(width * 3**dim)
        self.weight = nn.Parameter(torch.empty(width, width, *(3,) * dim).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(width).uniform_(-bound, bound, generator=generator))

    def forward(self, x: Float[Tensor, "row point channel"], shape: tuple[int, ...]) -> Float[Tensor, "row point channel"]:
        x = x.mT.unflatten(-1, shape)
        for axis, wraps in enumerate(self.periodic):
            ends = [0, 0] * (len(shape) - axis - 1) + [1, 1]
            if wraps:
                last = x.shape[axis + 2] - 1
                x = torch.cat([x.narrow(axis + 2, last, 1), x, x.narrow(axis + 2, 0, 1)], dim=axis + 2)
            else:
                x = pad(x, ends)
        return _CONVOLUTIONS[len(shape)](x, self.weight, self.bias).flatten(2).mT
