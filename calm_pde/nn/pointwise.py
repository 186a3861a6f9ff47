"""Maps applied to every point alike: linear layers drawn from an explicit generator, and the two-layer MLP."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import nn

from calm_pde.engine.precision import full_precision
from calm_pde.types import Float, Tensor


def linear(in_features: int, out_features: int, generator: torch.Generator | None, bias: bool = True) -> nn.Linear:
    """A linear layer with PyTorch's default distribution U(−1/√in, 1/√in) for weight and bias."""
    layer = nn.Linear(in_features, out_features, bias=bias, device="meta").to_empty(device="cpu")
    bound = 1 / math.sqrt(in_features)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return layer


def small_linear(in_features: int, out_features: int, generator: torch.Generator | None, bias: bool = True) -> nn.Linear:
    """A linear layer with weights from a truncated normal distribution of deviation 0.02, and no bias at first."""
    layer = nn.Linear(in_features, out_features, bias=bias, device="meta").to_empty(device="cpu")
    nn.init.trunc_normal_(layer.weight, std=0.02, generator=generator)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def preserving(in_features: int, out_features: int, generator: torch.Generator | None) -> nn.Linear:
    """A linear layer that keeps the variance of independent features: weights from U(−√(3/in), √(3/in))."""
    layer = linear(in_features, out_features, generator)
    with torch.no_grad():
        layer.weight *= math.sqrt(3)
    return layer


def silent(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer that starts at zero."""
    layer = nn.Linear(in_features, out_features, device="meta").to_empty(device="cpu")
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def perceptron(widths: Sequence[int], generator: torch.Generator | None) -> nn.Sequential:
    """Linear layers from each width to the next, with GELU between them."""
    layers: list[nn.Module] = []
    for before, after in pairwise(widths):
        layers += [linear(before, after, generator), nn.GELU()]
    return nn.Sequential(*layers[:-1])


class WeightNormLinear(nn.Module):
    """W x + b with rows W_o = g_o·v_o/‖v_o‖: directions and lengths learn apart."""

    def __init__(self, in_features: int, out_features: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        plain = linear(in_features, out_features, generator)
        self.direction, self.bias = nn.Parameter(plain.weight.detach()), plain.bias
        self.length = nn.Parameter(plain.weight.detach().norm(dim=1))

    @property
    def weight(self) -> Tensor:
        return self.direction * (self.length / self.direction.norm(dim=1))[:, None]


def channels_first(layer: nn.Linear | WeightNormLinear, x: Float[Tensor, "row in *space"]) -> Float[Tensor, "row out *space"]:
    """The layer on fields whose channels stand before their places, as Fourier transforms want them."""
    # a plain product would turn every field around first; this one was 2 to 20 times faster, as a convolution is at most
    y = torch.baddbmm(layer.bias[:, None], layer.weight.expand(len(x), -1, -1), x.flatten(2))
    return y.unflatten(2, x.shape[2:])


class PointwiseMLP(nn.Module):
    """Linear, GELU, Linear, with dropout after both.

    Args:
        out: features of the answer; by default as many as of the input.
        start: what makes the two layers, with the distribution of their weights.
    """

    def __init__(
        self,
        width: int,
        hidden: int,
        generator: torch.Generator | None,
        dropout: float = 0.0,
        out: int | None = None,
        start: Callable[[int, int, torch.Generator | None], nn.Linear] = linear,
    ) -> None:
        super().__init__()
        self.expand = start(width, hidden, generator)
        self.reduce = start(hidden, width if out is None else out, generator)
        self.dropout = nn.Dropout(dropout)

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.expand.weight, self.expand.bias, self.reduce.weight, self.reduce.bias

    def forward(self, x: Float[Tensor, "*axes in"]) -> Float[Tensor, "*axes out"]:
        return self.dropout(self.reduce(self.dropout(nn.functional.gelu(self.expand(x)))))


class ResidualMLP(nn.Module):
    """W₂ r with r = GELU(W₁ x), then r ← r + GELU(W r) in each of `layers` layers."""

    def __init__(self, in_features: int, width: int, out_features: int, layers: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.first = linear(in_features, width, generator)
        self.hidden = nn.ModuleList(linear(width, width, generator) for _ in range(layers))
        self.last = linear(width, out_features, generator)

    def forward(self, x: Float[Tensor, "*axes in"]) -> Float[Tensor, "*axes out"]:
        r = nn.functional.gelu(self.first(x))
        for layer in self.hidden:
            r = r + nn.functional.gelu(layer(r))
        return self.last(r)

    @property
    def held(self) -> int:
        """Numbers that one point's pass holds for its backward."""
        return self.first.in_features + (2 + 2 * len(self.hidden)) * self.first.out_features + self.last.out_features


class QuietMLP(nn.Module):
    """W₂ GELU(W₁ x + b₁) + b₂ with W₂ = 0 and b₂ = 0 at first: it says nothing until it has learned to. W₁ and b₁ are drawn."""

    def __init__(self, in_features: int, width: int, out_features: int, generator: torch.Generator | None) -> None:
        super().__init__()
        self.expand = linear(in_features, width, generator)
        self.reduce = nn.Linear(width, out_features, device="meta").to_empty(device="cpu")
        nn.init.zeros_(self.reduce.weight)
        nn.init.zeros_(self.reduce.bias)

    def said(self, x: Float[Tensor, "*axes in"]) -> Float[Tensor, "*axes out"]:
        """In the type of the weights, under autocast too."""
        with full_precision(x):
            return self.reduce(nn.functional.gelu(self.expand(x.to(self.expand.weight.dtype))))
