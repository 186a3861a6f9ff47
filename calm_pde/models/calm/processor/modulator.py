"""What conditions do to the processor: gains, scales and shifts of its sub-blocks from parameters and signals."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from calm_pde.engine.plain import Modulation
from calm_pde.models.conditions import Known
from calm_pde.nn.pointwise import QuietMLP

PARTS = 2
"""Sub-blocks of a block: attention, then the MLP."""
CHANGES = 3
"""Of a sub-block: gain, scale, shift."""
OTHER_DRAWS = 0x5EED
"""Beside a seed, so that the draws are none of those that the seed gives the rest."""


class Modulator(QuietMLP):
    """(g, s, b)(t) = W₂ GELU(W₁ c(t) + b₁) + b₂ of every block and sub-block f: x + f(x) becomes x + (1 + g) f((1 + s) x + b).

    c(t) is parameters ‖ signals at t ‖ signals at t + 1: a step of a frame is so told how the signals go on, and not only where
    they are. The paper's blocks have no norm in front of f, so x itself is scaled and shifted. W₂ and b₂ start at zero, so that
    conditions change nothing at first, and W₁ is drawn by a generator of its own: all other weights are those of a model
    without conditions.
    """

    def __init__(self, conditions: int, blocks: int, width: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed ^ OTHER_DRAWS)
        super().__init__(conditions, width, blocks * PARTS * CHANGES * width, generator)
        self.shape = (blocks, PARTS, CHANGES, width)

    def forward(self, known: Known, moments: Sequence[float]) -> Modulation:
        """At each of the moments; at one for all where nothing known changes in time."""
        distinct = sorted(set(moments)) if known.course is not None else [0.0]
        table = self.said(known.at(distinct).transpose(0, 1))
        places = {moment: place for place, moment in enumerate(distinct)} if known.course is not None else None
        return Modulation(table.unflatten(-1, self.shape), places)
