"""A CALM-PDE on one mesh for good: what depends on the geometry alone is computed once, for fast inference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from calm_pde.errors import CalmError
from calm_pde.models.calm.baked_layer import BakedLayer
from calm_pde.models.calm.hierarchy import Hierarchy, regrouped
from calm_pde.models.calm.layer import count_clouds, rows_first, rows_inside
from calm_pde.models.doors import check_state, frames
from calm_pde.types import Float, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE


class BakedCalm:
    """`baked(values, num_steps)` or `baked(values, times=…)`: the plain model's answer on the mesh it was baked for.

    One mesh serves batches of any size; one mesh per sample serves batches of just those samples. Training or loading
    weights afterwards makes it refuse to run.
    """

    def __init__(
        self,
        model: CalmPDE,
        points: Tensor,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> None:
        lead = (len(points),) if points.ndim == 3 else () if mask is None else (len(mask),)
        self.model, self.node_type = model, node_type
        self.points = points if mask is None else points.masked_fill(~mask[..., None], 0.0)
        self.mask, self.own_queries = mask, queries is not None
        where = self.points if queries is None else queries
        with torch.no_grad():
            self.encoder = _baked(model.encoder, self.points, None, mask, lead)
            positions = self.encoder[-1].where
            self.decoder = _baked(model.decoder, positions, where, None, (len(where),) if where.ndim == 3 else ())
            self.dynamics = None if model.processor is None else model.processor.at(positions)
        self._weights = _state(model)

    @torch.no_grad()
    def __call__(self, values: Tensor, num_steps: int | None = None, times: Sequence[float] | None = None) -> Tensor:
        """Frames 1 … num_steps, or those at `times`: (batch, time, query, channel)."""
        model = self.model
        if _state(model) != self._weights:
            raise CalmError("baked: the model's weights have changed since it was baked. Call model.bake(…) again.")
        config = model.config
        check_state(values, self.points, self.mask, config.dim, config.in_channels, self.points.dtype)
        num_steps = model.checked_steps(num_steps, times)
        x = values if self.mask is None else values.masked_fill(~self.mask[..., None], 0.0)
        z = _run(self.encoder, model.features(x, self.node_type))
        if self.dynamics is None:
            zs = z[:, None]
        else:
            visited = frames(num_steps, times)
            zs = self.dynamics.trajectory(z, visited, config.integrator, config.substeps)[:, 1:]
        u = _run(self.decoder, zs)
        hidden = self.mask is not None and not self.own_queries
        return u.masked_fill(~self.mask[:, None, :, None], 0.0) if hidden and self.mask is not None else u


def _baked(
    layers: Hierarchy, points: Tensor, queries: Tensor | None, mask: Tensor | None, lead: tuple[int, ...]
) -> list[BakedLayer]:
    result = []
    for layer in layers:
        outside = queries if layer.queries is None else None
        clouds = count_clouds(lead, points, layer.where(outside), mask)
        result.append(BakedLayer(layer, points, outside, mask, clouds))
        points, mask = result[-1].where, None
    return result


def _run(layers: list[BakedLayer], x: Float[Tensor, "*batch point in"]) -> Float[Tensor, "*batch query out"]:
    rows = rows_inside(x, layers[0].clouds)
    for layer in layers:
        rows = layer.convolve_rows(regrouped(rows, layer.clouds))
    return rows_first(rows, x.shape[:-2]).to(x.dtype)


def _state(model: torch.nn.Module) -> list[tuple[int, int]]:
    """What changes whenever a weight does."""
    return [(value.data_ptr(), value._version) for value in (*model.parameters(), *model.buffers())]
