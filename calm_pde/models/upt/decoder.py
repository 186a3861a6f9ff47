"""UPT's decoder: any place reads the latent tokens, through a transformer over these."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from calm_pde.models.upt.blocks import HELD, Block
from calm_pde.models.upt.config import UptConfig
from calm_pde.models.upt.encoder import REACH, per_row
from calm_pde.nn.chunked import by_chunks, within
from calm_pde.nn.pointwise import linear, perceptron
from calm_pde.nn.sinusoids import sinusoids
from calm_pde.types import Float, Tensor


class Decoder(nn.Module):
    """W·LN(Perceiver(MLP(sinusoids(q)); blocks(z))) at every query q."""

    def __init__(self, config: UptConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        width, told = config.width, config.told_width
        hidden = config.query_expansion * width
        self.budget = config.memory_budget
        self.blocks = nn.ModuleList(Block(width, config.heads, generator, told=told) for _ in range(config.decoder_blocks))
        self.query = perceptron((width, hidden, hidden, width), generator)
        self.read = Block(width, config.heads, generator, told=told, context=width)
        self.norm = nn.LayerNorm(width)
        self.last = linear(width, config.out_channels, generator)

    def forward(
        self,
        z: Float[Tensor, "row token channel"],
        where: Float[Tensor, "cloud query dim"],
        c: Float[Tensor, "row told"] | None,
    ) -> Float[Tensor, "row query out"]:
        held = HELD * z.numel() * z.element_size() * len(self.blocks)
        for block in self.blocks:
            z = within(block, z, c, held=held, budget=self.budget)
        place = self.query(sinusoids(where, z.shape[-1], REACH).to(where.dtype))
        held = HELD * len(z) * z.shape[-1] * z.element_size()
        return torch.cat(by_chunks(partial(self._answer, z, c), (place,), held, self.budget), dim=-2)

    def _answer(self, z: Tensor, c: Tensor | None, place: Float[Tensor, "cloud query channel"]) -> Tensor:
        return self.last(self.norm(self.read(per_row(place, len(z)), c, z)))
