"""The Galerkin Transformer: a transformer over points whose attention has no softmax over them."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

from calm_pde.models.contract import Abilities, Mesh
from calm_pde.models.galerkin.attention import GalerkinAttention
from calm_pde.models.galerkin.practice import PRACTICE
from calm_pde.models.galerkin.presets import PRESETS
from calm_pde.models.point_features import PointConfig, PointModel
from calm_pde.models.practice import Practice
from calm_pde.nn.linear_transformer.network import PointTransformer, PreNormBlock


class GalerkinConfig(PointConfig):
    """All sizes of a Galerkin Transformer in the benchmarks' form; `preset` has theirs, `build` makes the model."""

    title: ClassVar[str] = "Galerkin Transformer"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(bfloat16_weights=True)

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Galerkin:
        return Galerkin(self, seed)


class Galerkin(PointModel):
    """f = W LN(blocks(MLP(features))) + b, each block x ← x + Attn(x), x ← x + MLP(LN(x))."""

    config: GalerkinConfig

    def build_network(self, given: int, generator: torch.Generator) -> PointTransformer:
        config, width = self.config, self.config.width
        blocks = [
            PreNormBlock(width, GalerkinAttention(width, config.heads, generator), config.expansion, generator)
            for _ in range(config.blocks)
        ]
        return PointTransformer(given, width, config.out_channels, blocks, generator, recomputed=config.task == "rollout")
