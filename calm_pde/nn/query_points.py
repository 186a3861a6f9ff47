"""Query points that a model owns: where they start, and which of its weights they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch

from calm_pde.geometry import spread_out
from calm_pde.types import Float, Tensor

Spread = Literal["random", "even"]


def query_start(
    num_queries: int,
    dim: int,
    mesh: Tensor | None,
    generator: torch.Generator | None,
    spread: Spread = "random",
    periodic: tuple[bool, ...] = (),
) -> Float[Tensor, "query dim"]:
    """`random`: U(0, 1) per axis, or a random sample of the mesh. `even`: points of `even_points`, or points of the mesh
    far from one another. Without repetition as long as the mesh has enough points."""
    if mesh is None:
        return torch.rand(num_queries, dim, generator=generator) if spread == "random" else even_points(num_queries, dim)
    rounds = math.ceil(num_queries / len(mesh))
    if spread == "random":
        order = torch.cat([torch.randperm(len(mesh), generator=generator) for _ in range(rounds)])
    else:
        order = spread_out(mesh, num_queries, periodic).repeat(rounds)
    return mesh[order[:num_queries]].to(torch.get_default_dtype()).clone()


def even_points(count: int, dim: int) -> Float[Tensor, "query dim"]:
    """The cell centers of a regular lattice where the count is a power mᵈ; else ½ + n·α mod 1 with α_j = φ⁻ʲ and
    φᵈ⁺¹ = φ + 1, which leaves gaps of nearly one size for any count."""
    side = round(count ** (1 / dim))
    if side**dim == count:
        axis = (torch.arange(side) + 0.5) / side
        return torch.cartesian_prod(*[axis] * dim).reshape(count, dim)
    ratio = float(np.roots([1.0, *[0.0] * (dim - 1), -1.0, -1.0]).real.max())
    steps = np.arange(count)[:, None] * ratio ** -np.arange(1.0, dim + 1)
    return torch.from_numpy((0.5 + steps) % 1).to(torch.get_default_dtype())


def own_queries(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The query points among a model's weights, by the name of their layer in the model."""
    return {name.removesuffix(".queries"): value for name, value in weights.items() if name.endswith(".queries")}
