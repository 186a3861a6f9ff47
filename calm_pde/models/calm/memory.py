"""Peak memory before the run: the step is carried out on tensors without data, and what would be alive is counted."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from calm_pde.engine.buffers import SCRATCH
from calm_pde.engine.receptive_fields import Neighbors, neighborhood_size
from calm_pde.errors import InputError
from calm_pde.models.calm.detail import DetailPath
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.conditions import Known
from calm_pde.models.doors import frames
from calm_pde.models.live_bytes import LiveBytes, process_bytes
from calm_pde.records.inputs import Inputs
from calm_pde.types import Float, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE


def predicted_peak(
    model: CalmPDE,
    num_points: int,
    batch: int,
    num_steps: int | None,
    num_queries: int | None = None,
    own_meshes: bool = False,
    training: bool = True,
) -> int:
    """Bytes that a step takes at the most beyond what is there before it, from shapes alone.

    A training step encodes, takes `num_steps` latent steps, decodes all frames with the first, and goes backward from a
    mean squared error; with `consistency` it encodes all frames. Without training it is the forward pass. Neighbor lists are
    counted, search chunks are not.
    """
    _check_counts(num_points=num_points, batch=batch, num_queries=num_queries or num_points)
    config = model.config
    empty = copy.deepcopy(model).to("meta").train(training)
    dtype = next(model.parameters()).dtype
    lead = (batch,) if own_meshes else ()
    steps = frames(empty.checked_steps(num_steps, None), None)
    known = (1 + len(steps),) if training and config.consistency else ()
    num_queries = num_queries or num_points

    def new(*shape: int, dtype: torch.dtype = dtype) -> Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    values = new(batch, *known, num_points, config.in_channels)
    points, queries = (new(*lead, count, config.dim) for count in (num_points, num_queries))
    node_type = new(*lead, num_points, dtype=torch.int64) if config.node_types else None
    features = new(batch, num_points, config.features) if config.features else None
    parameters = new(batch, config.parameters) if config.parameters else None
    signals = new(batch, 1 + len(steps), config.signals) if config.signals else None
    told = Inputs(values, points, node_type=node_type, features=features, parameters=parameters, signals=signals)

    SCRATCH.clear()  # so that its buffers are counted, and not kept without data
    with LiveBytes() as live, torch.set_grad_enabled(training):
        encoder = _neighbors(empty.encoder, points, queries, batch)
        given = empty.read(told)
        kernels_see = empty.seen_by_kernels(told)
        encoded, p = empty.encoder.convolve(given, points, None, None, encoder, kernels_see)
        z = encoded[:, 0] if known else encoded
        zs = z[:, None] if empty.processor is None else empty.stepped(empty.processor, z, p, steps, Known.of(told))
        decoder = _neighbors(empty.decoder, p, queries, batch)
        u = empty.decoder.convolve(zs if training else zs[:, 1:], p, queries, None, decoder, kernels_see)[0]
        if empty.detail is not None:
            start = given[:, 0] if known else given
            u = _joined(empty.detail, u, start, points, queries, node_type)
        if training:
            errors = (u - new(*u.shape)).square().mean()
            (errors + (zs - encoded).square().mean() if known else errors).backward()
    SCRATCH.clear()
    return process_bytes(live)


def _neighbors(layers: Iterable[CalmLayer], cloud: Tensor, queries: Tensor, batch: int) -> tuple[Neighbors | None, ...]:
    found: list[Neighbors | None] = []
    for layer in layers:
        where = queries if layer.queries is None else layer.queries
        where = where if layer.offsets is None else where.new_empty(batch, *where.shape, device="meta")
        clouds = batch if 3 in (cloud.ndim, where.ndim) else 1
        lists = _lists(cloud, clouds, where.shape[-2], neighborhood_size(layer.receptive_field, cloud.shape[-2]))
        found.append(lists if layer.offsets is None else None)  # where queries have moved is known to the layer alone
        cloud = where
    return tuple(found)


def _lists(like: Tensor, *shape: int) -> Neighbors:
    return Neighbors(like.new_empty(shape, dtype=torch.int64), like.new_empty(shape, dtype=torch.bool))


def _joined(
    path: DetailPath, u: Tensor, start: Tensor, points: Tensor, queries: Tensor, node_type: Tensor | None
) -> Float[Tensor, "batch time query out"]:
    """The answer with what joins it at the decoder's end."""
    seen = placed = None
    if path.read is not None:
        (near,) = _neighbors([path.read], points, queries, len(u))
        seen, _ = path.read.convolve(start, points, queries, None, near)
    if path.place is not None:
        nearest = _lists(points, len(u) if points.ndim == 3 else 1, queries.shape[-2], 1)
        placed = path.place(queries, points, None, node_type, nearest)
    return path.joined(u, *(None if term is None else term[:, None] for term in (seen, placed)))


def _check_counts(**counts: object) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise InputError(name, expected="a whole number ≥ 1", got=repr(count), fix="Give the sizes of the step to come.")
