"""What conditions do to the processor: gains, scales and shifts of its sub-blocks from parameters and signals."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from calm_pde.engine.plain import Modulation
from calm_pde.engine.precision import full_precision
from calm_pde.models.conditions import Known
from calm_pde.nn.pointwise import linear

PARTS = 2
"""Sub-blocks of a block: attention, then the MLP."""
CHANGES = 3
"""Of a sub-block: gain, scale, shift."""
_OTHER_DRAWS = 0x5EED  # beside a seed, so that the draws are none of those that the seed gives the rest


class Modulator(nn.Module):
    """(g, s, b)(t) = W₂ GELU(W₁ c(t) + b₁) + b₂ of every block and sub-block f: x + f(x) becomes x + (1 + g) f((1 + s) x + b).

    c(t) is parameters ‖ signals at t ‖ signals at t + 1: a step of a frame is so told how the signals go on, and not only where
    they are. The paper's blocks have no norm in front of f, so x itself is scaled and shifted. W₂ and b₂ start at zero, so that
    conditions change nothing at first, and W₁ is drawn by a generator of its own: all other weights are those of a model
    without conditions.
    """

    def __init__(self, conditions: int, blocks: int, width: int, seed: int) -> None:
        super().__init__()
        self.shape = (blocks, PARTS, CHANGES, width)
        self.expand = linear(conditions, width, torch.Generator().manual_seed(seed ^ _OTHER_DRAWS))
        self.reduce = nn.Linear(width, blocks * PARTS * CHANGES * width, device="meta").to_empty(device="cpu")
        nn.init.zeros_(self.reduce.weight)
        nn.init.zeros_(self.reduce.bias)

    def forward(self, known: Known, moments: Sequence[float]) -> Modulation:
        """At each of the moments; at one for all where nothing known changes in time."""
        distinct = sorted(set(moments)) if known.course is not None else [0.0]
        conditions = known.at(distinct).transpose(0, 1)
        with full_precision(conditions):
            table = self.reduce(nn.functional.gelu(self.expand(conditions.to(self.expand.weight.dtype))))
        places = {moment: place for place, moment in enumerate(distinct)} if known.course is not None else None
        return Modulation(table.unflatten(-1, self.shape), places)
