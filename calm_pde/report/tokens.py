"""The information content of latent tokens: how noise on one token changes the decoded field."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch

from calm_pde.errors import InputError
from calm_pde.geometry import Box, inside
from calm_pde.records.inputs import Conditions, Inputs
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.types import Float, Tensor

_VALUES = 2**21  # decoded together


class TokenInfluence(NamedTuple):
    """|change| of the fields, physical, for noise on each token alone."""

    positions: np.ndarray
    """(token, dim), physical."""
    at_once: np.ndarray
    """(token, query, channel), of the field decoded at once."""
    last: np.ndarray | None
    """(token, query, channel), of the field decoded after the last frame; None where there is no time."""


@torch.no_grad()
def token_influence(
    surrogate: Surrogate,
    values: Tensor,
    points: Tensor,
    last_frame: float | None = None,
    *,
    queries: Tensor | None = None,
    node_type: Tensor | None = None,
    conditions: Conditions | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> TokenInfluence:
    """|d(z + ε_k) − d(z)| for ε_k ~ N(0, σ(z⁰)²) on token k of z⁰ alone (paper, information content of query points).

    σ(z⁰) is the standard deviation over all tokens and channels of the sample. A steady model has one answer, so its
    z⁰ is changed and its answer, behind the one step, compared: that is `at_once`.

    Args:
        values: (point, channel), what the model is given of one sample, as `Translator.inputs` has it.
        points: (point, dim), unit coordinates.
        last_frame: in frames from the initial state; by default the last of a training trajectory.
        queries: (query, dim), unit coordinates, where the change is looked at; by default the points.
        conditions: of the one sample, as `Translator.inputs` has them.
    """
    model, data, translator = surrogate.model, surrogate.description, surrogate.translator
    if values.ndim != 2 or points.ndim != 2:
        raise InputError(
            "values, points",
            expected="one sample, (point, channel) and (point, dim)",
            got=f"shapes {tuple(values.shape)} and {tuple(points.shape)}",
            fix="Take one sample of the batch, without the points that pad it.",
        )
    start = Inputs(values[None], points, node_type=translator.kinds(node_type), **(conditions or {}))
    z, positions = model.tokens(start)
    if last_frame is None:
        last_frame = float(len(data.times) - 1)
    times = {"rollout": (last_frame,), "steady": (1.0,), "autoencoder": ()}[surrogate.task]
    asked = points if queries is None else queries

    def fields(tokens: Float[Tensor, "batch token channel"]) -> Float[Tensor, "batch time query out"]:
        return model.fields_of_tokens(tokens, positions, times, asked, start)

    noise = z.std() * _noise(z.shape[1:], seed).to(z)
    plain, found = fields(z), []
    together = max(1, _VALUES // max(1, plain.numel()))
    for some in torch.arange(len(noise), device=z.device).split(together):
        noisy = z.repeat(len(some), 1, 1)
        noisy[torch.arange(len(some), device=z.device), some] += noise[some]
        found.append(translator.physical_change((fields(noisy) - plain).abs()).cpu())
        if progress is not None:
            progress(int(some[-1]) + 1, len(noise))
    change = torch.cat(found).numpy()
    positions = positions if positions.ndim == 2 else positions[0]  # of this sample, where they follow the state
    return TokenInfluence(physical(positions, data.box), change[:, 0], change[:, 1] if surrogate.task == "rollout" else None)


def physical(positions: Float[Tensor, "*axes dim"], box: Box) -> np.ndarray:
    """Physical coordinates of unit ones, those on periodic axes inside the box, wherever training took them."""
    positions = positions.detach().double().cpu()
    return box.to_physical(inside(positions, tuple(box.periodic))).numpy()  # pyright: ignore[reportArgumentType]


def _noise(shape: torch.Size, seed: int) -> Float[Tensor, "token channel"]:
    """One draw for all tokens, so that no token's noise depends on which are decoded together."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))
