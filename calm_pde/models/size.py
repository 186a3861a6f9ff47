"""How large a model is."""

from __future__ import annotations

from torch import nn


def num_parameters(model: nn.Module) -> int:
    """Real numbers that training changes, in whatever stage: a complex weight counts as two."""
    return sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in model.parameters())
