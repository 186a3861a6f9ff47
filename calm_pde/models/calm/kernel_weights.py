"""Kernel weights as the layers use them: the modulated MLP times the distance weight, at the real neighbors of a query."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from calm_pde.engine.receptive_fields import receptive_field
from calm_pde.errors import InputError
from calm_pde.geometry import Box, inside, spread_out, wrap
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.checks import check_coordinates
from calm_pde.models.inside import LayerKernels, QueryKernel
from calm_pde.types import Float, Int, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE


def named_layers(model: CalmPDE) -> Iterator[tuple[str, CalmLayer]]:
    """`encoder 1` … `decoder n`, from the input to the output, and the detail path's where there is one."""
    for part, layers in (("encoder", model.encoder), ("decoder", model.decoder)):
        for depth, layer in enumerate(layers, start=1):
            yield f"{part} {depth}", layer
    if model.detail is not None and model.detail.read is not None:
        yield "detail", model.detail.read


@torch.no_grad()
def kernel_weights(
    model: CalmPDE, points: Tensor, box: Box, *, num_queries: int = 8, max_filters: int = 64
) -> list[LayerKernels]:
    """k_1o(a − α_m) of every layer at spread queries a and their neighbors α_m (paper, visualization of kernel weights).

    The input channel is the kernel's first, which stands behind the layer's pointwise map. Queries that follow the state are
    taken where they rest, and kernels that see parameters as they are without.

    Args:
        points: (point, dim), the mesh of one sample in unit coordinates; the decoder's last layer is asked there too.
        max_filters: the first so many output channels.
    """
    check_coordinates("points", points, model.config.dim, model.checked_dtype())
    if points.ndim != 2:
        raise InputError(
            "points", expected="one mesh, (point, dim)", got=f"shape {tuple(points.shape)}", fix="Take one sample's."
        )
    found, cloud = [], points
    for name, layer in named_layers(model):
        where = points if layer.queries is None else layer.queries
        cloud = points if name == "detail" else cloud
        chosen = spread_out(where, num_queries, layer.periodic).to(where.device)
        kernels = tuple(_kernel(layer, cloud, where[one], one, max_filters, box) for one in chosen)
        found.append(LayerKernels(name, min(max_filters, layer.out_channels), kernels))
        cloud = where
    return found


def _kernel(
    layer: CalmLayer,
    points: Float[Tensor, "point dim"],
    query: Float[Tensor, "dim"],
    which: Int[Tensor, ""],
    max_filters: int,
    box: Box,
) -> QueryKernel:
    neighbors, _ = receptive_field(points[None], query[None, None], layer.receptive_field, layer.periodic)
    away = wrap(query - points[neighbors[0]], layer.periodic)
    valid = torch.ones_like(neighbors[0], dtype=torch.bool)
    left = layer.kernel.geometry(away, valid, which[None], *layer.kernel.geometry_parameters())[0]
    filters = layer.kernel.filters
    weights = left[:, 0] if filters is None else left @ filters[:, 0]
    at = inside(query.double().cpu(), layer.periodic)
    return QueryKernel(
        box.to_physical(at).numpy(),
        box.to_physical(at - away[0].double().cpu()).numpy(),
        weights[:, :max_filters].cpu().numpy(),
    )
