"""The geometry of kernels k(a − α): the features of displacements, and the distance weighting inside a receptive field.

It is a plain function of displacements and parameters, so that a backward can evaluate it again.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch import nn

from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.fourier import fourier_features
from calm_pde.engine.plain import formula_gradients
from calm_pde.engine.precision import full_precision
from calm_pde.engine.tail import gelu_backward_out, gelu_out
from calm_pde.engine.transforms import asks_for_formulas, seen_through
from calm_pde.geometry import squared_distances
from calm_pde.types import Bool, Float, Int, Tensor

Weighting = Literal["softmax", "mean", "none"]
Displacements = Literal["absolute", "relative"]

_SMALLEST_RADIUS = 1e-12  # of a receptive field whose points all lie at the query


def relative_distances(displacement: Float[Tensor, "query neighbor dim"]) -> Float[Tensor, "query neighbor"]:
    """(‖a − α‖² − min)/(max − min + 1e-8) over each receptive field; padding repeats a neighbor, so it changes neither."""
    squared = squared_distances(displacement)
    shifted = squared - squared.amin(dim=-1, keepdim=True)
    return shifted / (shifted.amax(dim=-1, keepdim=True) + 1e-8)


def in_radii(displacement: Float[Tensor, "query neighbor dim"]) -> Float[Tensor, "query neighbor dim"]:
    """(a − α)/max ‖a − α‖ over each receptive field: a kernel then looks alike where a mesh is fine and where it is coarse."""
    farthest = squared_distances(displacement).amax(dim=-1, keepdim=True)
    return displacement / farthest.clamp(min=_SMALLEST_RADIUS**2).sqrt()[..., None]


def neighbor_weights(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    weighting: Weighting,
    temperature: float,
) -> Float[Tensor, "query neighbor"]:
    """The distance weighting: softmax(−relative distance/T), or 1/M, or 1; zero at padding."""
    if weighting == "softmax":
        return (relative_distances(displacement) / -temperature).masked_fill(~valid, -math.inf).softmax(dim=-1)
    ones = valid.to(displacement.dtype)
    return ones / ones.sum(dim=-1, keepdim=True) if weighting == "mean" else ones


def mlp_features(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    ids: Int[Tensor, "query"],
    frequencies: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    weighting: Weighting,
    temperature: float,
    relative: bool = False,
) -> Float[Tensor, "query neighbor hidden"]:
    """The last hidden layer followed by 1, times the distance weight: the kernel is these features @ filters.

    Args:
        relative: the kernel sees displacements in units of the receptive field's radius instead of the box.
    """
    share = neighbor_weights(displacement, valid, weighting, temperature)
    if relative:
        displacement = in_radii(displacement)
    if scale is not None and shift is not None:
        ids = ids % len(scale)  # clouds of their own follow one another, each with the same queries
        scale, shift = scale[ids], shift[ids]
    if seen_through():
        return _plain_features(displacement, share, frequencies, weight, bias, scale, shift)
    with full_precision(displacement):
        return _Features.apply(displacement, share, frequencies, weight, bias, scale, shift)  # pyright: ignore[reportReturnType]


def _plain_features(
    displacement: Tensor,
    share: Tensor,
    frequencies: Tensor,
    weight: Tensor,
    bias: Tensor,
    scale: Tensor | None,
    shift: Tensor | None,
) -> Float[Tensor, "query neighbor hidden"]:
    hidden = nn.functional.linear(fourier_features(displacement, frequencies), weight, bias)
    if scale is not None and shift is not None:
        hidden = torch.addcmul(shift[:, None], hidden, scale[:, None])
    return torch.cat([nn.functional.gelu(hidden) * share[..., None], share[..., None]], dim=-1)


class _Features(torch.autograd.Function):
    """[σ((W₁ RFF(d) + b₁) ⊙ γ + β), 1] · share with a backward by hand; waves stand as (feature, pair), two whole halves."""

    @staticmethod
    def forward(ctx: Any, displacement, share, frequencies, weight, bias, scale, shift) -> Tensor:
        queries, neighbors, dim = displacement.shape
        turns = 2 * math.pi * frequencies
        phase = SCRATCH.new("phase", displacement, turns.shape[1], queries * neighbors)
        torch.mm(turns.T, displacement.reshape(-1, dim).T, out=phase)
        waves = POOL.new(phase, 2 * len(phase), phase.shape[1])
        torch.sin(phase, out=waves[: len(phase)])
        torch.cos(phase, out=waves[len(phase) :])
        hidden = POOL.new(phase, queries, neighbors, len(weight))
        torch.addmm(bias, waves.T, weight.T, out=hidden.flatten(0, 1))
        inside = hidden
        if scale is not None:
            inside = torch.addcmul(shift[:, None], hidden, scale[:, None], out=POOL.new(hidden, *hidden.shape))
        features = POOL.new(hidden, queries, neighbors, len(weight) + 1)
        active = gelu_out(inside, out=SCRATCH.new("features", inside, *inside.shape))
        torch.mul(active, share[..., None], out=features[..., :-1])
        features[..., -1] = share
        inputs = (displacement, share, frequencies, weight, bias, scale, shift)
        ctx.save_for_backward(*inputs, turns, waves, hidden, inside)
        return features

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if asks_for_formulas(grads[0]):
            return formula_gradients(lambda inputs: _plain_features(*inputs), ctx.saved_tensors[:7], grads[0])
        with full_precision(grads[0]):
            return _Features.gradients(ctx, grads[0])

    @staticmethod
    def gradients(ctx: Any, all_grads: Tensor) -> tuple[Tensor | None, ...]:
        _, share, _, weight, _, scale, _, turns, waves, hidden, inside = ctx.saved_tensors
        grad, (half, width) = all_grads[..., :-1], (len(waves) // 2, hidden.shape[-1])
        spare = SCRATCH.new("features", inside, *inside.shape)
        grad_share = torch.linalg.vecdot(grad, gelu_out(inside, out=spare)) + all_grads[..., -1]
        grad_inside = torch.mul(grad, share[..., None], out=spare)
        gelu_backward_out(grad_inside, inside, grad_input=grad_inside)
        grad_scale = grad_shift = None
        if scale is not None:
            grad_shift = grad_inside.sum(dim=1)
            grad_scale = torch.linalg.vecdot(grad_inside, hidden, dim=1)
            grad_inside.mul_(scale[:, None])
        flat = grad_inside.reshape(-1, width)
        grad_weight, grad_bias = torch.mm(flat.T, waves.T), flat.sum(dim=0)
        grad_displacement = None
        if ctx.needs_input_grad[0]:
            grad_waves = torch.mm(weight.T, flat.T, out=SCRATCH.new("grad waves", waves, *waves.shape))
            grad_phase = grad_waves[:half].mul_(waves[half:]).addcmul_(grad_waves[half:], waves[:half], value=-1)
            grad_displacement = torch.mm(turns, grad_phase).view(-1, *share.shape).permute(1, 2, 0)
        return grad_displacement, grad_share, None, grad_weight, grad_bias, grad_scale, grad_shift


def distance_matrices(
    displacement: Float[Tensor, "query neighbor dim"],
    valid: Bool[Tensor, "query neighbor"],
    ids: Int[Tensor, "query"],
    log_temperature: Float[Tensor, "in out"],
) -> Float[Tensor, "query neighbor in out"]:
    logits = relative_distances(displacement)[..., None, None] / -log_temperature.exp()
    return logits.masked_fill(~valid[..., None, None], -math.inf).softmax(dim=1)
