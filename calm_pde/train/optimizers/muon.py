"""Muon: hidden matrices move by their orthogonalized momentum, all other parameters by AdamW."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from calm_pde.nn.matrices import Matrices
from calm_pde.types import Complex, Float, Tensor

Matrix = Float[Tensor, "matrix row column"] | Complex[Tensor, "matrix row column"]
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_TALL = 2  # times as many rows as columns, from where iterating on the Gram matrix takes fewer operations


class Muon(torch.optim.Optimizer):
    """M ← μM + (1 − μ)G; W ← (1 − ηλ)W − η·0.2·√max(rows, columns)·orthogonal((1 − μ)G + μM).

    The factor makes an update as large as one of AdamW, so that its learning rates carry over.

    Args:
        matrices: each parameter with the matrices that stand in it.
    """

    def __init__(
        self, matrices: Mapping[nn.Parameter, Matrices], learning_rate: float, weight_decay: float, momentum: float = 0.95
    ) -> None:
        shapes: dict[tuple[bool, tuple[int, ...]], list[nn.Parameter]] = defaultdict(list)
        for parameter, form in matrices.items():
            shapes[form.modes, form.upright(parameter).shape[1:]].append(parameter)
        self.forms = dict(matrices)
        groups: list[dict[str, Any]] = [{"params": alike} for alike in shapes.values()]
        super().__init__(groups, {"lr": learning_rate, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """All parameters of a group have matrices of one shape, real or complex, which are orthogonalized together."""
        for group in self.param_groups:
            learning = [parameter for parameter in group["params"] if parameter.grad is not None]
            if learning:
                self._move(learning, group["lr"], group["weight_decay"], group["momentum"])

    def _move(self, parameters: list[nn.Parameter], rate: float, decay: float, momentum: float) -> None:
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        kept = [self._momentum(parameter) for parameter in parameters]
        torch._foreach_lerp_(kept, gradients, 1 - momentum)
        ahead = torch._foreach_lerp(gradients, kept, momentum)
        uprights = [self.forms[parameter].upright(wanted) for parameter, wanted in zip(parameters, ahead, strict=True)]
        moves = orthogonal(torch.cat(uprights))
        size = rate * 0.2 * math.sqrt(moves.shape[-2])
        if rate * decay:
            torch._foreach_mul_(list[Tensor](parameters), 1 - rate * decay)
        parts = moves.split([len(upright) for upright in uprights])
        for parameter, move in zip(parameters, parts, strict=True):
            parameter.sub_(self.forms[parameter].restored(move, parameter), alpha=size)

    def _momentum(self, parameter: nn.Parameter) -> Tensor:
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        return state["momentum"]


def orthogonal(x: Matrix) -> Matrix:
    """Nearly U Vᴴ of each X = U Σ Vᴴ with at least as many rows as columns: five Newton–Schulz steps
    X ← aX + bX(XᴴX) + cX(XᴴX)², which leave singular values between about 0.7 and 1.2."""
    a, b, c = _QUINTIC
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    if x.shape[-2] < _TALL * x.shape[-1]:
        for _ in range(_ITERATIONS):
            gram = x.mH @ x
            x = torch.baddbmm(x, x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), beta=a)
        return x
    gram = x.mH @ x
    unit = torch.eye(gram.shape[-1], dtype=x.dtype, device=x.device)
    factor = unit.expand_as(gram)
    for _ in range(_ITERATIONS):  # X ← Xp with p = a + bA + cA², so A = XᴴX ← pAp, and all of these commute
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c) + a * unit
        factor, gram = factor @ polynomial, polynomial @ gram @ polynomial
    return x @ factor
