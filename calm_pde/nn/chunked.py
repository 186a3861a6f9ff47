"""What is computed in parts, or again in the backward pass, so that what is held at once stays within a budget."""

from __future__ import annotations

from collections.abc import Callable

from torch.utils.checkpoint import checkpoint

from calm_pde.types import Tensor


def by_chunks(
    function: Callable[..., Tensor], points_axis: tuple[Tensor, ...], bytes_per_point: int, budget: int
) -> list[Tensor]:
    """The function of each chunk of points (axis −2 of all tensors); of several, each is computed again in backward."""
    size = max(1, budget // bytes_per_point)
    if size >= points_axis[0].shape[-2]:
        return [function(*points_axis)]
    chunks = zip(*(tensor.split(size, dim=-2) for tensor in points_axis), strict=True)
    return [checkpoint(function, *chunk, use_reentrant=False) for chunk in chunks]


def within(function: Callable[..., Tensor], *arguments: Tensor | None, held: int, budget: int) -> Tensor:
    """The function; where it and its like hold more bytes than the budget, it keeps nothing, and backward computes it again."""
    if held <= budget:
        return function(*arguments)
    return checkpoint(function, *arguments, use_reentrant=False)  # pyright: ignore[reportReturnType]
