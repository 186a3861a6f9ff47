"""Where a CALM-PDE looks: the layers by name, their query points, a few of them spread over the domain, the latent size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch

from calm_pde.geometry import Box, squared_distances, wrap
from calm_pde.models import CalmPDE
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.types import Float, Int, Tensor


class LayerQueries(NamedTuple):
    """The query points of one layer, physical."""

    name: str
    positions: np.ndarray
    """(query, dim), periodic axes inside the box."""
    learned: bool


class LatentSize(NamedTuple):
    """What one time step is in latent space (paper, size of latent space): tokens × channels."""

    tokens: int
    channels: int


def named_layers(model: CalmPDE) -> Iterator[tuple[str, CalmLayer]]:
    """`encoder 1` … `decoder n`, from the input to the output."""
    for part, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for depth, layer in enumerate(layers, start=1):
            yield f"{part} {depth}", layer


def query_points(model: CalmPDE, box: Box) -> list[LayerQueries]:
    """Of every layer that has queries of its own, which is all but the decoder's last."""
    return [
        LayerQueries(name, physical(layer.queries, box), isinstance(layer.queries, torch.nn.Parameter))
        for name, layer in named_layers(model)
        if layer.queries is not None
    ]


def latent_size(model: CalmPDE) -> LatentSize:
    return LatentSize(model.config.encoder.num_queries[-1], model.config.latent_channels)


def physical(positions: Float[Tensor, "*axes dim"], box: Box) -> np.ndarray:
    """Physical coordinates of unit ones, those on periodic axes inside the box, wherever training took them."""
    positions = positions.detach().double().cpu()
    return box.to_physical(inside(positions, tuple(box.periodic))).numpy()  # pyright: ignore[reportArgumentType]


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
