"""AdamW with the paper's weight-decay groups, the learning rate of a step, and the optimizer's state by parameter name."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import nn

from calm_pde.errors import FileError
from calm_pde.models import Model
from calm_pde.types import Tensor

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
    model: nn.Module, learning_rate: float, weight_decay: float, betas: tuple[float, float] = (0.9, 0.999)
) -> torch.optim.AdamW:
    """Of what is not frozen. Fused: a hundred small operations would take a twentieth of a small model's step."""
    named, decaying = dict(model.named_parameters()), decays(model)
    groups = [
        {"params": [named[name] for name, decay in decaying.items() if decay == wanted], "weight_decay": strength}
        for wanted, strength in ((True, weight_decay), (False, 0.0))
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=True)


def learning_rate(
    step: int,
    num_steps: int,
    highest: float,
    schedule: Literal["cosine", "one_cycle", "constant"],
    *,
    lowest: float = 0.0,
    rise: float = 0.3,
    rise_from: float = 25.0,
) -> float:
    """At a step 0 … num_steps − 1.

    Args:
        lowest: where cosine ends.
        rise: the share of steps in which one_cycle rises, from `highest/rise_from`; it ends at a 10⁴-th of that.
    """
    if schedule == "constant":
        return highest
    if schedule == "cosine":
        return lowest + (highest - lowest) * 0.5 * (1 + math.cos(math.pi * step / num_steps))
    rising = rise * num_steps
    if step < rising:
        return _between(highest / rise_from, highest, step / rising)
    return _between(highest, highest / (1e4 * rise_from), (step - rising) / (num_steps - rising))


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Every tensor of the state, under PARAMETER/ENTRY."""
    found = {}
    for name, parameter in model.named_parameters():
        for entry, value in optimizer.state.get(parameter, {}).items():
            found[f"{name}/{entry}"] = torch.as_tensor(value)
    return found


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Tensor]) -> None:
    """Of the parameters that learn; what was kept of others, which a stage has frozen since, is left."""
    named = dict(model.named_parameters())
    for key, value in state.items():
        name, _, entry = key.rpartition("/")
        parameter = named.get(name)
        if parameter is None or (entry != "step" and value.shape != parameter.shape):
            raise FileError("optimizer.safetensors", f"{key} does not belong to this model")
        if not parameter.requires_grad:
            continue
        where = value if entry == "step" else value.to(parameter.device)
        optimizer.state[parameter][entry] = where.clone()


def _between(start: float, end: float, share: float) -> float:
    return end + (start - end) * 0.5 * (1 + math.cos(math.pi * share))
