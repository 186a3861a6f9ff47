"""The plain formula of a convolution, for whoever needs to see through it: tracers, transforms, derivatives of derivatives.

It holds every kernel matrix at once, so it takes more time and memory than the orders with a backward by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch._C import _functorch as functorch  # pyright: ignore[reportAttributeAccessIssue]
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import gelu, linear

from calm_pde.engine.chunks import Work, shift_of
from calm_pde.errors import InputError
from calm_pde.types import Tensor


def transformed() -> bool:
    """Whether torch.func (vmap, jvp, jacrev, …) or forward-mode differentiation is at work."""
    return torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0


def seen_through() -> bool:
    """Whether someone looks into what is computed: a tracer, or a transform. Then only plain formulas will do."""
    return torch.compiler.is_compiling() or transformed()


def plain_attention() -> AbstractContextManager:
    """In here attention is a formula that can be differentiated in any way; the fused one has a first derivative alone."""
    return nullcontext() if torch.compiler.is_compiling() else sdpa_kernel(SDPBackend.MATH)


def bare(name: str, tensor: Tensor) -> Tensor:
    """The numbers of a tensor, outside of any differentiation; a search looks at them."""
    tensor = tensor.detach()
    while functorch.is_functorch_wrapped_tensor(tensor):
        if functorch.is_batchedtensor(tensor):
            raise InputError(
                name,
                expected="one cloud, or one per sample on a batch axis",
                got="clouds that torch.func.vmap runs over",
                fix="Receptive fields differ from cloud to cloud: give the clouds as (batch, point, dim) instead.",
            )
        tensor = functorch.get_unwrapped(tensor)
    return tensor


def convolution(
    work: Work,
    features: Tensor | None,
    x: Tensor,
    points: Tensor,
    queries: Tensor,
    filters: Tensor | None,
    offset: Tensor | None,
    bias: Tensor,
    tail: tuple[Tensor, ...],
    parameters: tuple[Tensor, ...],
) -> Tensor:
    """Σ features·filters·x + Σ features·offset + bias and the tail, in one piece."""
    features = work.all_features(points, queries, parameters) if features is None else features
    matrices = features if filters is None else torch.einsum("qnh,hio->qnio", features, filters)
    before = torch.einsum("qnri,qnio->qro", x[work.index], matrices) + shift_of(features, offset, bias)
    if not work.tail:
        return before
    expand, expand_bias, reduce, reduce_bias = tail
    y = gelu(before)
    return y + linear(gelu(linear(y, expand, expand_bias)), reduce, reduce_bias)


def differentiable_gradients(
    formula: Callable[[], Tensor], inputs: Sequence[Tensor | None], grad: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, for a backward under `create_graph=True`."""
    wanted = [value for value in inputs if value is not None and value.requires_grad]
    with torch.enable_grad():
        found = iter(torch.autograd.grad(formula(), wanted, grad, create_graph=True, allow_unused=True))
    return tuple(next(found) if value is not None and value.requires_grad else None for value in inputs)
