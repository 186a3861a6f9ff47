"""A CALM-PDE on one mesh for good: what depends on the geometry alone is computed once, for fast inference."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Unpack

import torch

from calm_pde.engine.transforms import seen_through
from calm_pde.errors import InputError
from calm_pde.models.calm.baked_layer import BakedLayer
from calm_pde.models.calm.hierarchy import Hierarchy
from calm_pde.models.calm.layer import count_clouds, rows_first, rows_inside
from calm_pde.models.conditions import Known, check_conditions, check_prescribed
from calm_pde.models.doors import check_state, frames
from calm_pde.records.inputs import Conditions, Inputs
from calm_pde.types import Float, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE


class BakedCalm:
    """`baked(values, num_steps)` or `baked(values, times=…)`: the plain model's answer on the mesh it was baked for.

    It is a snapshot with copies of its own of weights and mesh: whatever happens to the model or to the tensors it was baked
    from, its answers stay. One mesh serves batches of any size; one mesh per sample serves batches of just those samples.
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
        with torch.inference_mode(False), torch.no_grad():
            self.model = model = copy.deepcopy(model).requires_grad_(False).eval()  # nothing is dropped
            points, queries, mask = points.clone(), _copy(queries), _copy(mask)
            self.node_type = _copy(node_type)
            self.points = points if mask is None else points.masked_fill(~mask[..., None], 0.0)
            self.mask, self.own_queries = mask, queries is not None
            where = self.points if queries is None else queries
            self.encoder = _baked(model.encoder, self.points, None, mask, lead)
            positions = self.encoder[-1].where
            self.decoder = _baked(model.decoder, positions, where, None, (len(where),) if where.ndim == 3 else ())
            self.detail, self.placed, path = None, None, model.detail
            if path is not None and path.read is not None:
                clouds = count_clouds(lead, self.points, where, mask)
                self.detail = BakedLayer(path.read, self.points, where, mask, clouds)
            if path is not None and path.place is not None:
                self.placed = path.place(where, self.points, mask, self.node_type)[:, None]
            self.dynamics = None if model.processor is None else model.processor.at(positions)

    def __repr__(self) -> str:
        return f"BakedCalm(points {tuple(self.points.shape)}, tokens {tuple(self.encoder[-1].where.shape)})"

    @torch.no_grad()
    def __call__(
        self,
        values: Tensor,
        num_steps: int | None = None,
        times: Sequence[float] | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """Frames 1 … num_steps, or those at `times`: (batch, time, query, channel); conditions as in a call of the model."""
        model, config = self.model, self.model.config
        told = Inputs(values, self.points, mask=self.mask, **conditions)
        _refuse_derivatives(told)
        check_state(values, self.points, self.mask, config.dim, config.in_channels, self.points.dtype)
        num_steps = model.checked_steps(num_steps, times)
        visited = frames(num_steps, times)
        check_conditions(told, config, self.points.dtype, last=max(visited, default=0.0))
        check_prescribed(told, config)
        x = values if self.mask is None else values.masked_fill(~self.mask[..., None], 0.0)
        features = told.features
        if features is not None and self.mask is not None:
            features = features.masked_fill(~self.mask[..., None], 0.0)
        given = model.read(replace(told, values=x, node_type=self.node_type, features=features))
        seen_by_kernels = model.seen_by_kernels(told)
        z = _run(self.encoder, given, seen_by_kernels)
        if self.dynamics is None:
            zs = z[:, None]
        else:
            dynamics = self.dynamics.under(Known.of(told)) if config.told_channels else self.dynamics
            zs = dynamics.trajectory(z, visited, config.integrator, config.substeps)[:, 1:]
        u = _run(self.decoder, zs, seen_by_kernels)
        if model.detail is not None:
            seen = None if self.detail is None else _run([self.detail], given)[:, None]
            u = model.detail.joined(u, seen, self.placed)
        if model.own_scale is not None:
            u = model.own_scale.put_on(u, x[:, None], self.mask)
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


def _run(
    layers: list[BakedLayer], x: Float[Tensor, "*batch point in"], parameters: Float[Tensor, "batch parameter"] | None = None
) -> Float[Tensor, "*batch query out"]:
    rows = rows_inside(x, layers[0].clouds)
    for layer in layers:
        rows = layer.answered(rows, parameters)
    return rows_first(rows, x.shape[:-2]).to(x.dtype)


def _copy(value: Tensor | None) -> Tensor | None:
    return None if value is None else value.clone()


def _refuse_derivatives(given: Inputs) -> None:
    for name, value in {"values": given.values, **given.told}.items():
        if seen_through() or value.requires_grad:
            raise InputError(
                name,
                expected="plain numbers, since a baked model knows no derivatives",
                got="a call that is traced or transformed" if seen_through() else f"{name} that require a gradient",
                fix=f"Call the model itself, or pass {name}.detach().",
            )
