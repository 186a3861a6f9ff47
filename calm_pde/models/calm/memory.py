"""Peak memory before the run: the step is carried out on tensors without data, and what would be alive is counted."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from calm_pde.engine.buffers import SCRATCH
from calm_pde.engine.receptive_fields import Neighbors, neighborhood_size
from calm_pde.errors import InputError
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.doors import frames
from calm_pde.models.live_bytes import LiveBytes, process_bytes
from calm_pde.types import Tensor

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

    def neighbors(layers: Iterable[CalmLayer], cloud: Tensor) -> tuple[Neighbors | None, ...]:
        found: list[Neighbors | None] = []
        for layer in layers:
            where = queries if layer.queries is None else layer.queries
            where = where if layer.offsets is None else new(batch, *where.shape)
            clouds = batch if 3 in (cloud.ndim, where.ndim) else 1
            shape = (clouds, where.shape[-2], neighborhood_size(layer.receptive_field, cloud.shape[-2]))
            lists = Neighbors(new(*shape, dtype=torch.int64), new(*shape, dtype=torch.bool))
            found.append(lists if layer.offsets is None else None)  # where queries have moved is known to the layer alone
            cloud = where
        return tuple(found)

    SCRATCH.clear()  # so that its buffers are counted, and not kept without data
    with LiveBytes() as live, torch.set_grad_enabled(training):
        encoder = neighbors(empty.encoder, points)
        given = empty.features(values, node_type)
        z, p = empty.encoder.convolve(given, points, None, None, encoder)
        zs = empty.advance(z[:, 0] if known else z, p, len(steps))
        decoder = neighbors(empty.decoder, p)
        u = empty.decoder.convolve(zs if training else zs[:, 1:], p, queries, None, decoder)[0]
        if empty.detail is not None:
            (seen,) = neighbors([empty.detail.read], points)
            start = given[:, 0] if known else given
            u = empty.detail.joined(u, empty.detail.read.convolve(start, points, queries, None, seen)[0])
        if training:
            errors = (u - new(*u.shape)).square().mean()
            (errors + (zs - z).square().mean() if known else errors).backward()
    SCRATCH.clear()
    return process_bytes(live)


def _check_counts(**counts: object) -> None:
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise InputError(name, expected="a whole number ≥ 1", got=repr(count), fix="Give the sizes of the step to come.")
