"""Which parameters are hidden matrices, and how they are read as such by optimizers that move a matrix as one thing."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import nn

from calm_pde.types import Tensor

_THINNEST = 4  # a matrix with a shorter side is nearly a vector


class Matrices(NamedTuple):
    """A parameter (…, column) as `parts` matrices of all its rows, one above the other.

    Args:
        modes: instead, the last axis holds real and imaginary part, and each (in, out) before it is a complex matrix.
    """

    parts: int = 1
    modes: bool = False

    def upright(self, parameter: Tensor) -> Tensor:
        """(matrix, row, column) with at least as many rows as columns."""
        found = self._seen(parameter)
        return found.mT if found.shape[-2] < found.shape[-1] else found

    def restored(self, upright: Tensor, parameter: Tensor) -> Tensor:
        """What stands in `upright`, in the shape of the parameter."""
        seen = self._seen(parameter)
        found = upright.mT if seen.shape[-2] < seen.shape[-1] else upright
        return (torch.view_as_real(found.resolve_conj()) if self.modes else found).reshape(parameter.shape)

    def _seen(self, parameter: Tensor) -> Tensor:
        if self.modes:
            return torch.view_as_complex(parameter).flatten(0, -3)
        return parameter.reshape(self.parts, -1, parameter.shape[-1])


def hidden_matrices(model: nn.Module, outermost: Collection[str]) -> dict[str, Matrices]:
    """The weights of linear layers, and what modules declare as their `matrices`: {name of a parameter: Matrices}.

    Those named `outermost`, or in modules of these names, are none, and neither is a matrix with a side below 4.
    """
    forms = {f"{prefix}.weight": Matrices() for prefix, module in model.named_modules() if isinstance(module, nn.Linear)}
    for prefix, module in model.named_modules():
        declared: dict[str, Matrices] = getattr(module, "declared_matrices", {})
        forms |= {f"{prefix}.{name}".removeprefix("."): form for name, form in declared.items()}
    named = dict(model.named_parameters())
    return {
        name: form
        for name, form in forms.items()
        if form.upright(named[name].detach()).shape[-1] >= _THINNEST
        and not any(f"{name}.".startswith(f"{outer}.") for outer in outermost)
    }
