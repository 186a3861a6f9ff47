"""AdamW with the paper's weight-decay groups."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import nn

from calm_pde.models import Model

_NORMS = (nn.LayerNorm, nn.GroupNorm, nn.modules.batchnorm._BatchNorm, nn.RMSNorm)


def decays(model: nn.Module) -> dict[str, bool]:
    """Whether each trainable parameter decays: all but biases, norms and what the model names."""
    still = ("bias", *(model.undecayed if isinstance(model, Model) else ()))
    of_norms = {id(parameter) for module in model.modules() if isinstance(module, _NORMS) for parameter in module.parameters()}
    return {
        name: id(parameter) not in of_norms and name.rsplit(".", 1)[-1] not in still
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def adamw(
    model: nn.Module,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    without: Container[str] = (),
) -> torch.optim.AdamW:
    """Of what is not frozen. Fused: a hundred small operations would take a twentieth of a small model's step.

    Args:
        without: names of parameters that another optimizer moves.
    """
    named = dict(model.named_parameters())
    decaying = {name: decay for name, decay in decays(model).items() if name not in without}
    groups: list[dict[str, Any]] = [
        {"params": [named[name] for name, decay in decaying.items() if decay == wanted], "weight_decay": strength}
        for wanted, strength in ((True, weight_decay), (False, 0.0))
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)
