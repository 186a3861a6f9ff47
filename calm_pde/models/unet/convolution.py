"""Convolutions over three cells per axis, in any dimension, whose borders go around or repeat the last cell."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import nn
from torch.nn.functional import conv1d, conv2d, conv3d, gelu

from calm_pde.nn.matrices import Matrices
from calm_pde.types import Float, Tensor

GROUPS = 8
_CONVOLUTIONS = {1: conv1d, 2: conv2d, 3: conv3d}


def bordered(
    h: Float[Tensor, "row channel *space"], before: int, sizes: tuple[int, ...], periodic: tuple[bool, ...]
) -> Float[Tensor, "row channel *larger"]:
    """With so many cells before the first one of each axis, and behind the last up to its size: those of the other end where
    the axis is periodic, else the cell at the border again."""
    for axis, (size, wraps) in enumerate(zip(sizes, periodic, strict=True), start=2):
        count = h.shape[axis]
        behind = size - before - count
        if wraps:
            around = -(-before // count)
            turns = torch.cat([h] * (around + 1 + -(-behind // count)), dim=axis)
            h = turns.narrow(axis, around * count - before, size)
            continue
        first, last = h.narrow(axis, 0, 1), h.narrow(axis, count - 1, 1)
        h = torch.cat([_repeated(first, axis, before), h, _repeated(last, axis, behind)], dim=axis)
    return h


def _repeated(border: Tensor, axis: int, count: int) -> Tensor:
    return border.expand(*(count if place == axis else -1 for place in range(border.ndim)))


class Convolution(nn.Module):
    """W ∗ h + b over 3 cells along each axis, at every cell or at every second one; W is one matrix (out, cells · in)."""

    declared_matrices: ClassVar[dict[str, Matrices]] = {"weight": Matrices()}

    def __init__(
        self, inputs: int, outputs: int, periodic: tuple[bool, ...], generator: torch.Generator, stride: int = 1
    ) -> None:
        super().__init__()
        self.periodic, self.stride = periodic, stride
        dim = len(periodic)
        bound = 1 / math.sqrt(inputs * 3**dim)
        self.weight = nn.Parameter(torch.empty(outputs, 3**dim * inputs).uniform_(-bound, bound, generator=generator))
        self.bias = nn.Parameter(torch.empty(outputs).uniform_(-bound, bound, generator=generator))

    def forward(self, h: Float[Tensor, "row in *space"]) -> Float[Tensor, "row out *smaller"]:
        around, dim = bordered(h, 1, tuple(size + 2 for size in h.shape[2:]), self.periodic), len(self.periodic)
        weight = self.weight.unflatten(1, (*(3,) * dim, h.shape[1])).movedim(-1, 1)
        return _CONVOLUTIONS[dim](around, weight, self.bias, stride=self.stride)


class Block(nn.Module):
    """Twice GELU(N(W ∗ h)), with a GroupNorm N of 8 groups."""

    def __init__(self, inputs: int, outputs: int, periodic: tuple[bool, ...], generator: torch.Generator) -> None:
        super().__init__()
        self.first = Convolution(inputs, outputs, periodic, generator)
        self.second = Convolution(outputs, outputs, periodic, generator)
        self.norms = nn.ModuleList(nn.GroupNorm(GROUPS, outputs) for _ in range(2))

    def forward(self, h: Float[Tensor, "row in *space"]) -> Float[Tensor, "row out *space"]:
        for convolution, norm in zip((self.first, self.second), self.norms, strict=True):
            h = gelu(norm(convolution(h)))
        return h


def twice(h: Float[Tensor, "row channel *space"]) -> Float[Tensor, "row channel *larger"]:
    """Every cell two times along each axis."""
    for axis in range(2, h.ndim):
        h = h.unsqueeze(axis + 1).expand(*h.shape[: axis + 1], 2, *h.shape[axis + 1 :]).flatten(axis, axis + 1)
    return h
