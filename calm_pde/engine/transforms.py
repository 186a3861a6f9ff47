"""Who looks into a computation from outside, tracers and transforms; and a place where none of them does."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch._C import _functorch as functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.autograd import forward_ad

from calm_pde.errors import InputError
from calm_pde.types import Tensor


def transformed() -> bool:
    """Whether torch.func (vmap, jvp, jacrev, …) or forward-mode differentiation is at work."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def seen_through() -> bool:
    """Whether someone looks into what is computed: a tracer, or a transform. Then only plain formulas will do."""
    return torch.compiler.is_compiling() or transformed()


def asks_for_formulas(grad: Tensor) -> bool:
    """Whether a backward must be a formula: someone differentiates what it gives, or runs it over many gradients at once."""
    return torch.is_grad_enabled() or transformed() or functorch.is_legacy_batchedtensor(grad)


def untransformed() -> AbstractContextManager:
    """In here no transform of torch.func is at work: what is computed from `bare` tensors has numbers, and may be kept."""
    return temporarily_clear_interpreter_stack() if torch._C._are_functorch_transforms_active() else nullcontext()


def bare(name: str, tensor: Tensor) -> Tensor:
    """The numbers of a tensor, outside of any differentiation; only where it is `untransformed` do they stay so."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            raise InputError(
                name,
                expected=f"{name} of one cloud, or of one per sample on a batch axis",
                got=f"{name} that torch.func.vmap runs over",
                fix="Receptive fields differ from cloud to cloud: give the clouds as (batch, point, dim) instead, or pass "
                "neighbors that hold for all of them.",
            )
        tensor = functorch.get_unwrapped(tensor)
    return tensor.detach()
