"""What a CALM-PDE learns beside the error of its answers: part by part, and that its steps agree with its encoder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from calm_pde.metrics.relative_l2 import relative_l2_loss
from calm_pde.models.contract import Stage
from calm_pde.records.inputs import Frames
from calm_pde.types import Float, Tensor

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE

STAGES = (Stage("autoencoder", 1), Stage("dynamics", 4), Stage("whole", None))


def part_of(model: CalmPDE, stage: str) -> nn.Module:
    """Of the autoencoder all but the processor, of the dynamics the processor alone, of the whole everything."""
    if stage == "autoencoder":
        return nn.ModuleList(part for name, part in model.named_children() if name != "processor")
    return {"dynamics": model.get_submodule("processor"), "whole": model}[stage]


def losses_of(model: CalmPDE, stage: str, frames: Frames) -> Float[Tensor, "batch"]:
    """Of the autoencoder ‖d(e(u)) − u‖/‖u‖; of the dynamics the latent errors of its steps, all else at rest."""
    if stage == "autoencoder":
        z, p = model.latents(frames)
        found = model.at_points(z, p, frames.start)
        return relative_l2_loss(found, frames.values, frames.mask)
    model.encoder.eval()  # what is frozen drops nothing
    with torch.no_grad():
        latents, p = model.latents(frames)
    model.encoder.train(model.training)
    zs = model.advance(latents[:, 0], p.detach(), latents.shape[1] - 1, **frames.start.driving)
    return latent_errors(zs, latents)


def latent_errors(
    zs: Float[Tensor, "batch time token channel"], latents: Float[Tensor, "batch time token channel"]
) -> Float[Tensor, "batch"]:
    """Mean over frames t ≥ 1 of ‖z_t − e(u_t)‖/‖e(u_t)‖, norms over tokens and channels, as in the loss of fields."""
    stepped, true = (tokens[:, 1:].flatten(2)[..., None] for tokens in (zs, latents))
    return relative_l2_loss(stepped, true)
