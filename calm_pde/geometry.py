"""Space: the box that maps physical to unit coordinates, and displacements that know periodic axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch

from calm_pde.errors import InputError
from calm_pde.types import Float, Int, Tensor

Array = TypeVar("Array", np.ndarray, Tensor)

_RIM = 1e-6  # of an extent: what rounding may put outside the box


def periodic_axes(periodic: bool | Sequence[bool], dim: int) -> tuple[bool, ...]:
    """One flag per axis, from one flag for all or one for each."""
    axes = (periodic,) * dim if isinstance(periodic, bool | np.bool_) else tuple(periodic)
    if len(axes) != dim or not all(isinstance(axis, bool | np.bool_) for axis in axes):
        raise InputError(
            "periodic",
            expected=f"True, False or {dim} of them, one per axis",
            got=repr(periodic),
            fix="Give one flag per axis, or one for all.",
        )
    return tuple(bool(axis) for axis in axes)


def wrap(displacement: Float[Tensor, "*axes dim"], periodic: tuple[bool, ...]) -> Float[Tensor, "*axes dim"]:
    """The displacement in unit coordinates, periodic axes wrapped to [−½, ½)."""
    if not any(periodic):
        return displacement
    turns = torch.floor(displacement.detach() + 0.5)
    if not all(periodic):
        turns = turns * torch.tensor(periodic, dtype=turns.dtype, device=turns.device)
    return displacement - turns


def squared_distances(displacement: Float[Tensor, "*axes dim"]) -> Float[Tensor, "*axes"]:
    first, *others = displacement.unbind(dim=-1)  # a sum over so short an axis takes longer than all else
    total = first.square()
    for other in others:
        total = total + other.square()
    return total


def cell_centers(count: int) -> np.ndarray:
    """(i + ½)/n."""
    return (np.arange(count) + 0.5) / count


def tensor_grid(*axes: np.ndarray) -> np.ndarray:
    """(point, dim) of the product of the axes, the last axis fastest."""
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))


@dataclass(frozen=True)
class Box:
    """An axis-aligned domain with its periodic axes; physical ⇄ unit coordinates, per axis: ω ↦ (ω − lower)/(upper − lower)."""

    lower: Sequence[float | int]
    upper: Sequence[float | int]
    periodic: bool | Sequence[bool] = False

    def __post_init__(self) -> None:
        for name in ("lower", "upper"):
            corner = tuple(float(value) for value in getattr(self, name))
            if not corner or not all(math.isfinite(value) for value in corner):
                raise InputError(
                    f"Box.{name}",
                    expected="one finite number per axis",
                    got=repr(getattr(self, name)),
                    fix="Give the corner of the domain in physical coordinates.",
                )
            object.__setattr__(self, name, corner)
        if len(self.lower) != len(self.upper) or any(low >= high for low, high in zip(self.lower, self.upper, strict=True)):
            raise InputError(
                "Box",
                expected="lower < upper on every axis",
                got=f"lower {self.lower}, upper {self.upper}",
                fix="Check the order of the corners and their number of axes.",
            )
        object.__setattr__(self, "periodic", periodic_axes(self.periodic, len(self.lower)))

    @property
    def dim(self) -> int:
        return len(self.lower)

    def to_unit(self, points: Array) -> Array:
        """Unit coordinates of physical ones; points outside the box land outside [0, 1]."""
        lower, extent = self._corners(points)
        return (points - lower) / extent

    def to_unit_inside(self, points: Array) -> Array:
        """`to_unit`, with points beyond a periodic axis brought back into the box in float64, however many periods away.

        Tensors are given back in float64, and differentiable.
        """
        if isinstance(points, Tensor):
            exact = self.to_unit(points.double())
            axes = torch.tensor(self.periodic, device=points.device)
            beyond = ((exact < -_RIM) | (exact > 1 + _RIM)) & axes
            return exact - torch.where(beyond, exact.detach().floor(), 0.0)
        unit = self.to_unit(points)
        far = ((unit < -_RIM) | (unit > 1 + _RIM)) & np.array(self.periodic)
        if not far.any():
            return unit
        exact = self.to_unit(points.astype(np.float64))
        return np.where(far, exact - np.floor(exact), unit)

    def to_physical(self, points: Array) -> Array:
        """Physical coordinates of unit ones."""
        lower, extent = self._corners(points)
        return points * extent + lower

    def _corners(self, points: Array) -> tuple[Array, Array]:
        if points.shape[-1:] != (self.dim,):
            raise InputError(
                "points",
                expected=f"a last axis of {self.dim} coordinates, the dimension of the box",
                got=f"shape {tuple(points.shape)}",
                fix="Pass points as (point, dim) or (batch, point, dim).",
            )
        if isinstance(points, Tensor):
            lower = torch.tensor(self.lower, dtype=points.dtype, device=points.device)
            upper = torch.tensor(self.upper, dtype=points.dtype, device=points.device)
            return lower, upper - lower
        dtype = points.dtype if np.issubdtype(points.dtype, np.floating) else np.float64
        lower = np.asarray(self.lower, dtype=dtype)
        return lower, np.asarray(self.upper, dtype=dtype) - lower


def inside(positions: Float[Tensor, "*axes dim"], periodic: tuple[bool, ...]) -> Float[Tensor, "*axes dim"]:
    """The images in [0, 1) along periodic axes, in unit coordinates."""
    return wrap(positions - 0.5, periodic) + 0.5


def spread_out(positions: Float[Tensor, "point dim"], count: int, periodic: tuple[bool, ...]) -> Int[Tensor, "chosen"]:
    """Indices of up to `count` positions far from one another: the one nearest to the middle, then always the farthest."""
    positions = positions.detach().double().cpu()
    nearest = squared_distances(inside(positions, periodic) - 0.5)
    chosen = [int(nearest.argmin())]
    nearest = torch.full_like(nearest, torch.inf)
    while len(chosen) < min(count, len(positions)):
        away = squared_distances(wrap(positions - positions[chosen[-1]], periodic))
        nearest = torch.minimum(nearest, away)
        nearest[chosen] = -1.0  # never twice, even where positions coincide
        chosen.append(int(nearest.argmax()))
    return torch.tensor(chosen)
