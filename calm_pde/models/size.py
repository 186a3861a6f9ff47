"""How large a model is."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from calm_pde.models.contract import ModelConfig


def num_parameters(model: nn.Module) -> int:
    """Real numbers that training changes, in whatever stage: a complex weight counts as two."""
    return sum(parameter.numel() * (2 if parameter.is_complex() else 1) for parameter in model.parameters())


def planned_parameters(config: ModelConfig) -> int:
    """`num_parameters` of the model that a config builds, without memory for a single one."""
    with torch.device("meta"), _WithoutData():
        return num_parameters(config.build())


class _WithoutData(TorchFunctionMode):
    """Every tensor is made on the meta device, also where another is asked for, and nothing is drawn."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        options = {name: "meta" if name == "device" else value for name, value in (kwargs or {}).items() if name != "generator"}
        return func(*args, **options)
