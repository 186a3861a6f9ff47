"""What MeshGraphNets knows of its training before it begins: how edges vary, and differences between frames."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

from calm_pde.data.differences import Differences
from calm_pde.data.statistics import Moments
from calm_pde.models.mesh_graph_nets.message_passing import EdgeEncoder
from calm_pde.records.inputs import Frames

if TYPE_CHECKING:
    from calm_pde.models.mesh_graph_nets.model import MeshGraphNets


@torch.no_grad()
def gathered(model: MeshGraphNets, training: Iterable[Frames]) -> None:
    """Mean and deviation of the features of edges over all training meshes, and the deviation of the differences of each field
    over all steps and free points, are kept with the weights."""
    encoders, periodic = model.processor.encoders, model.config.wrapped
    edges = {name: Moments(model.config.dim + 1) for name in encoders}
    steps = Differences(model.config.out_channels)
    for frames in training:
        if frames.points.ndim == 3 or not edges["fine"].count:  # a mesh that all share is the same again
            clouds, levels = model.levels(frames.points, frames.mask, frames.cells)
            for name, away in levels.displacements(clouds.flatten(0, 1), periodic).items():
                edges[name].add(EdgeEncoder.features(away).cpu().numpy())
        steps.add(frames)
    for name, encoder in encoders.items():
        encoder.standardize(edges[name])
    model.deviation.copy_(steps.deviation())
