"""The size of a sample's own state, which is taken off before it is encoded and put on again behind the decoder."""

from __future__ import annotations

import torch
from torch import nn

from calm_pde.types import Bool, Float, Tensor

_SMALLEST = 1e-3  # of what the data are on average: smaller states are not made larger than that


class OwnScale(nn.Module):
    """s_c = √(⟨x²⟩ + 10⁻⁶), ⟨·⟩ over the real points and the channels of the group that c is in; 1 for a channel in none.

    The encoder is given x/s, and log s of each group as a channel that is the same everywhere; what the decoder says is
    multiplied by s. States of one shape are then alike, however fast, dense or hot they are; so 0 has to mean 0 (`zero_stays`).
    """

    groups: Tensor

    def __init__(self, groups: tuple[tuple[int, ...], ...], channels: int) -> None:
        super().__init__()
        member = torch.zeros(len(groups), channels)
        for row, group in zip(member, groups, strict=True):
            row[list(group)] = 1.0
        self.register_buffer("groups", member, persistent=False)

    def logarithms(
        self, values: Float[Tensor, "*axes point channel"], mask: Bool[Tensor, "batch point"] | None
    ) -> Float[Tensor, "*axes 1 group"]:
        """log s of each state; what masked points hold is never read."""
        squares = values.to(torch.promote_types(values.dtype, torch.float32)).square()
        if mask is None:
            means = squares.mean(dim=-2, keepdim=True)
        else:
            real = mask.view(len(mask), *(1,) * (values.ndim - 3), -1, 1)
            means = squares.masked_fill(~real, 0.0).sum(dim=-2, keepdim=True) / real.sum(dim=-2, keepdim=True)
        groups = self.groups.to(means.dtype)
        return (nn.functional.linear(means, groups / groups.sum(dim=1, keepdim=True)) + _SMALLEST**2).log() / 2

    def scales(self, logarithms: Float[Tensor, "*axes 1 group"]) -> Float[Tensor, "*axes 1 channel"]:
        """s of each channel."""
        return (logarithms @ self.groups.to(logarithms.dtype)).exp()

    def taken_off(
        self, values: Float[Tensor, "*axes point channel"], mask: Bool[Tensor, "batch point"] | None
    ) -> Float[Tensor, "*axes point given"]:
        """x/s ‖ log s."""
        logarithms = self.logarithms(values, mask)
        told = logarithms.expand(*values.shape[:-1], -1)
        return torch.cat([values / self.scales(logarithms), told], dim=-1).to(values.dtype)

    def put_on(
        self,
        answers: Float[Tensor, "batch time query channel"],
        values: Float[Tensor, "batch #time point channel"],
        mask: Bool[Tensor, "batch point"] | None,
    ) -> Float[Tensor, "batch time query channel"]:
        """The answers times s of the state that they are about: one for all frames, or one for each."""
        return (answers * self.scales(self.logarithms(values, mask))).to(answers.dtype)
