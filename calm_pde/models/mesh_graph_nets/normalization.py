"""What MeshGraphNets knows of its training before it begins: how edges vary, and differences between frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from calm_pde.data.statistics import Moments
from calm_pde.models.mesh_graph_nets.message_passing import EdgeEncoder
from calm_pde.records.inputs import Frames
from calm_pde.types import Tensor

if TYPE_CHECKING:
    from calm_pde.models.mesh_graph_nets.model import MeshGraphNets


@torch.no_grad()
def gathered(model: MeshGraphNets, training: Iterable[Frames]) -> None:
    """Mean and deviation of the features of edges over all training meshes, and the deviation of the differences of each field
    over all steps and free points, are kept with the weights."""
    encoders, periodic = model.processor.encoders, model.config.wrapped
    edges = {name: Moments(model.config.dim + 1) for name in encoders}
    steps = [Moments(1) for _ in range(model.config.out_channels)]
    for frames in training:
        if frames.points.ndim == 3 or not edges["fine"].count:  # a mesh that all share is the same again
            clouds, levels = model.levels(frames.points, frames.mask, frames.cells)
            for name, away in levels.displacements(clouds.flatten(0, 1), periodic).items():
                edges[name].add(EdgeEncoder.features(away).cpu().numpy())
        differences = frames.values.diff(dim=1)
        for channel, total in enumerate(steps):
            total.add(_free(differences[..., channel], frames, channel).cpu().numpy()[:, None])
    for name, encoder in encoders.items():
        encoder.standardize(edges[name])
    found = [total.statistics(("difference",)).std[0] for total in steps]
    model.deviation.copy_(model.deviation.new_tensor(found))


def _free(differences: Tensor, frames: Frames, channel: int) -> Tensor:
    """Those (batch, time, point) at points that are real and where the field is not prescribed."""
    free = torch.ones_like(differences, dtype=torch.bool)
    if frames.mask is not None:
        free &= frames.mask[:, None]
    if frames.prescribed is not None:
        free &= frames.prescribed[:, : free.shape[1], :, channel].isnan()
    return differences[free]
