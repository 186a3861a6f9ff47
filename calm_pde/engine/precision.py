"""Mixed precision: the type that autocast asks for, and a shelter from it for what must stay precise."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from calm_pde.types import Tensor


def autocast_type(tensor: Tensor) -> torch.dtype | None:
    """The type that products should run in where autocast is on."""
    device = tensor.device.type
    active = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if active else None


def full_precision(tensor: Tensor) -> AbstractContextManager:
    """Inside, autocast changes nothing."""
    if autocast_type(tensor) is None:
        return nullcontext()
    return torch.autocast(tensor.device.type, enabled=False)
