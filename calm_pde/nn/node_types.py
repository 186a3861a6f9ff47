"""What kind of point a point is (interior, wall, inlet …), as a learned vector."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.types import Float, Int, Tensor


class NodeTypes(nn.Embedding):
    """One learned vector ~ N(0, 1) per code; unknown codes, which only masked points hold, get any of them."""

    def __init__(self, codes: tuple[int, ...], width: int, generator: torch.Generator | None) -> None:
        super().__init__(len(codes), width, _weight=torch.randn(len(codes), width, generator=generator))
        self.codes = codes

    def forward(self, input: Int[Tensor, "*axes"]) -> Float[Tensor, "*axes channel"]:
        codes = torch.tensor(self.codes, device=input.device)
        return super().forward((input[..., None] == codes).to(torch.int64).argmax(dim=-1))
