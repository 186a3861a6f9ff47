"""What moves the weights: one optimizer, or one for the hidden matrices and one for all else; state by parameter name."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from calm_pde.errors import FileError
from calm_pde.models import Model
from calm_pde.train.optimizers.adamw import adamw
from calm_pde.train.optimizers.muon import Muon
from calm_pde.types import Tensor

OptimizerName = Literal["adamw", "muon"]


class Optimizers:
    """One or more optimizers as one: each moves parameters of its own, at one learning rate."""

    def __init__(self, *parts: torch.optim.Optimizer) -> None:
        self.parts = parts

    def set_rate(self, rate: float) -> None:
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate

    @property
    def rate(self) -> float:
        return self.parts[0].param_groups[0]["lr"]

    def zero_grad(self) -> None:
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def step(self) -> None:
        for part in self.parts:
            part.step()

    def state(self, model: nn.Module) -> dict[str, Tensor]:
        """Every tensor of the state, under PARAMETER/ENTRY."""
        found = {}
        for name, parameter in model.named_parameters():
            for part in self.parts:
                for entry, value in part.state.get(parameter, {}).items():
                    found[f"{name}/{entry}"] = torch.as_tensor(value)
        return found

    def load_state(self, model: nn.Module, state: dict[str, Tensor]) -> None:
        """Of the parameters that learn; what was kept of others, which a stage has frozen since, is left."""
        named = dict(model.named_parameters())
        owners = {parameter: part for part in self.parts for group in part.param_groups for parameter in group["params"]}
        for key, value in state.items():
            name, _, entry = key.rpartition("/")
            parameter = named.get(name)
            if parameter is None or (entry != "step" and value.shape != parameter.shape):
                raise FileError("optimizer.safetensors", f"{key} does not belong to this model")
            if parameter.requires_grad:
                where = value if entry == "step" else value.to(parameter.device)
                owners[parameter].state[parameter][entry] = where.clone()


def optimizers_of(
    model: Model,
    name: OptimizerName,
    learning_rate: float,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    momentum: float = 0.95,
) -> Optimizers:
    """Of what is not frozen; with `muon`, what the model declares as its matrices moves by Muon and all else by AdamW."""
    settings: dict[str, Any] = {"learning_rate": learning_rate, "weight_decay": weight_decay}
    if name == "adamw":
        return Optimizers(adamw(model, **settings, betas=betas))
    named = dict(model.named_parameters())
    forms = {key: form for key, form in model.matrices().items() if named[key].requires_grad}
    found = Muon({named[key]: form for key, form in forms.items()}, **settings, momentum=momentum)
    return Optimizers(adamw(model, **settings, betas=betas, without=forms), found)
