"""Query points that a model owns: where they start, and which of its weights they are."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from calm_pde.types import Float, Tensor


def query_start(
    num_queries: int, dim: int, mesh: Tensor | None, generator: torch.Generator | None
) -> Float[Tensor, "query dim"]:
    """U(0, 1) per axis, or a random sample of the mesh (without repetition as long as it has enough points)."""
    if mesh is None:
        return torch.rand(num_queries, dim, generator=generator)
    rounds = [torch.randperm(len(mesh), generator=generator) for _ in range(math.ceil(num_queries / len(mesh)))]
    return mesh[torch.cat(rounds)[:num_queries]].to(torch.get_default_dtype()).clone()


def own_queries(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The query points among a model's weights, by the name of their layer in the model."""
    return {name.removesuffix(".queries"): value for name, value in weights.items() if name.endswith(".queries")}
