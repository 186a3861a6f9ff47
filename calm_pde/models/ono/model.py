"""ONO: a stream of features learns orthonormal functions of the points, through which a second one is integrated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from pydantic import PositiveInt
from torch import nn
from torch.utils.checkpoint import checkpoint

from calm_pde.models.contract import Abilities, Mesh
from calm_pde.models.ono.curve import Walk, walk
from calm_pde.models.ono.nystrom import NystromAttention, Stretches, stretches
from calm_pde.models.ono.orthonormal import KernelIntegral, Orthonormal, Projection
from calm_pde.models.ono.practice import PRACTICE
from calm_pde.models.ono.presets import PRESETS
from calm_pde.models.point_features import PointConfig, PointModel
from calm_pde.models.practice import Practice
from calm_pde.nn.linear_transformer.network import PreNormBlock, embedding
from calm_pde.nn.pointwise import PointwiseMLP, small_linear
from calm_pde.types import Bool, Float, Tensor


class OnoConfig(PointConfig):
    """All sizes and switches of an ONO; `preset` has the published ones, `build` makes the model.

    Args:
        functions: that are made orthonormal in each block.
        landmarks: of the attention among points.
        projection: see `KernelIntegral`.
    """

    title: ClassVar[str] = "ONO"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    functions: PositiveInt = 8
    landmarks: PositiveInt = 64
    projection: Projection = "mean"

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(batch_statistics=True)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Ono:
        return Ono(self, seed)


class OnoBlock(nn.Module):
    """x ← x + Nyström(x), x ← x + MLP(LN(x)), and f ← out(LN(f + ψ diag(softplus(μ)) ψᵀ f)) with ψ of x.

    Args:
        recomputed: whether all but the covariance is computed again in the backward pass.
    """

    def __init__(self, config: OnoConfig, out: nn.Module, generator: torch.Generator, recomputed: bool) -> None:
        super().__init__()
        width, self.recomputed = config.width, recomputed
        attention = NystromAttention(width, config.heads, generator)
        self.points = PreNormBlock(width, attention, config.expansion, generator)
        self.functions = Orthonormal(width, config.functions, generator)
        self.integral = KernelIntegral(config.functions, config.projection)
        self.norm = nn.LayerNorm(width)
        self.out = out

    def forward(
        self, x: Float[Tensor, "row point channel"], f: Float[Tensor, "row point channel"], place: Stretches
    ) -> tuple[Float[Tensor, "row point channel"], Float[Tensor, "row point out"]]:
        x = self._computed(self.points, x, place)
        return x, self._computed(self._integrated, f, self.functions(x, place.mask), place.mask)

    def _integrated(self, f: Tensor, functions: Tensor, mask: Tensor | None) -> Tensor:
        return self.out(self.norm(self.integral(f, functions, mask)))

    def _computed(self, function: Callable[..., Tensor], *arguments: Tensor | Stretches | None) -> Tensor:
        if not self.recomputed:
            return function(*arguments)
        return checkpoint(function, *arguments, use_reentrant=False)  # pyright: ignore[reportReturnType]


class OnoNetwork(nn.Module):
    """(x, f) = MLP(features), then blocks; the last one answers."""

    def __init__(self, config: OnoConfig, given: int, generator: torch.Generator) -> None:
        super().__init__()
        width, self.landmarks = config.width, config.landmarks
        self.embed = embedding(given, width, 2 * width, generator)
        inner = [PointwiseMLP(width, config.expansion * width, generator, start=small_linear) for _ in range(config.blocks - 1)]
        outs = [*inner, small_linear(width, config.out_channels, generator)]
        self.blocks = nn.ModuleList(OnoBlock(config, out, generator, config.task == "rollout") for out in outs)

    def forward(
        self, features: Float[Tensor, "row point in"], mask: Bool[Tensor, "row point"] | None
    ) -> Float[Tensor, "row point out"]:
        """Of features in the order of a walk."""
        x, f = self.embed(features).chunk(2, dim=-1)
        place = stretches(features.shape[1], mask, self.landmarks, features)
        for block in self.blocks:
            x, f = block(x, f, place)
        return f


class Ono(PointModel):
    """f as a kernel integral operator whose eigenfunctions the points' features are."""

    config: OnoConfig

    def build_network(self, given: int, generator: torch.Generator) -> OnoNetwork:
        return OnoNetwork(self.config, given, generator)

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("network.embed.expand", f"network.blocks.{self.config.blocks - 1}.out")

    def place(self, points: Float[Tensor, "cloud point dim"], mask: Bool[Tensor, "batch point"] | None) -> Walk:
        return walk(points, mask)

    def answer(
        self, features: Float[Tensor, "row point in"], mask: Bool[Tensor, "row point"] | None, place: Walk
    ) -> Float[Tensor, "row point out"]:
        if mask is not None:  # on the walk the real points come first
            mask = torch.arange(mask.shape[1], device=mask.device) < mask.sum(dim=1, keepdim=True)
        return place.back(self.network(place.along(features), mask))
