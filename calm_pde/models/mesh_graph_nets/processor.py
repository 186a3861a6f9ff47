"""The steps of MeshGraphNets on one level or on two."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from calm_pde.engine.transforms import seen_through
from calm_pde.models.mesh_graph_nets.levels import CoarseLevel, Levels
from calm_pde.models.mesh_graph_nets.message_passing import EdgeEncoder, MessagePassing
from calm_pde.nn.graph import Graph
from calm_pde.types import Float, Tensor

_DOWN, _WITHIN, _UP = 2, 4, 2
_WAYS = ("within", "down", "up")
_ALIVE = 4  # arrays of an edge, and of a point, that a step keeps for the backward pass


class Encoded(NamedTuple):
    """The edges (edge, 1, channel) of all graphs as they are before the first step, by name."""

    levels: Levels
    edges: dict[str, Tensor]


class Steps(nn.ModuleList):
    """Some steps of messages along the same edges."""

    def __init__(self, count: int, width: int, generator: torch.Generator) -> None:
        super().__init__(MessagePassing(width, generator) for _ in range(count))


def walked(
    steps: Iterable[nn.Module], e: Tensor, v: Tensor, w: Tensor | None, graph: Graph, again: bool
) -> tuple[Tensor, Tensor]:
    """Edges and receivers after the steps, with messages from w, or from the receivers v themselves.

    Args:
        again: whether every step is computed once more in the backward pass, instead of keeping its inside.
    """
    for step in steps:
        given = (e, v, v if w is None else w, graph)
        e, v = checkpoint(step, *given, use_reentrant=False) if again else step(*given)  # pyright: ignore[reportGeneralTypeIssues]
    return e, v


class Coarser(nn.Module):
    """2 steps from the points to a quarter of them, 4 among these, 2 back."""

    def __init__(self, dim: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.edges = nn.ModuleList(EdgeEncoder(dim, width, generator) for _ in _WAYS)
        self.down, self.within, self.up = (Steps(count, width, generator) for count in (_DOWN, _WITHIN, _UP))

    @property
    def encoders(self) -> dict[str, EdgeEncoder]:
        """Of the edges of each of its graphs, by name."""
        return {name: one for name, one in zip(_WAYS, self.edges, strict=True) if isinstance(one, EdgeEncoder)}

    def forward(
        self, v: Float[Tensor, "node row channel"], level: CoarseLevel, edges: dict[str, Tensor], again: bool
    ) -> Float[Tensor, "node row channel"]:
        _, c = walked(self.down, edges["down"], level.chosen.spread(v), v, level.down, again)
        _, c = walked(self.within, edges["within"], c, None, level.within, again)
        return walked(self.up, edges["up"], v, c, level.up, again)[1]


class Processor(nn.Module):
    """Steps of messages between neighbors, with those of the coarse level in their middle where there is one.

    Args:
        memory_budget: bytes of activations, beyond which every step is computed again in the backward pass.
    """

    def __init__(
        self, dim: int, width: int, steps: int, multi_scale: bool, memory_budget: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.memory_budget = memory_budget
        self.encoder = EdgeEncoder(dim, width, generator)
        self.steps = Steps(steps, width, generator)
        self.coarser = Coarser(dim, width, generator) if multi_scale else None

    @property
    def encoders(self) -> dict[str, EdgeEncoder]:
        """Of the edges of each graph, by name."""
        return {"fine": self.encoder} | ({} if self.coarser is None else self.coarser.encoders)

    def encoded(self, levels: Levels, points: Float[Tensor, "node dim"], periodic: tuple[bool, ...]) -> Encoded:
        away = levels.displacements(points, periodic)
        return Encoded(levels, {name: encoder(away[name]) for name, encoder in self.encoders.items()})

    def forward(self, v: Float[Tensor, "node row channel"], encoded: Encoded) -> Float[Tensor, "node row channel"]:
        steps, (levels, edges) = list(self.steps), encoded
        row = v.shape[1] * v.shape[2] * v.element_size()
        alive = _ALIVE * len(steps) * (levels.fine.size + len(v)) * row
        again = torch.is_grad_enabled() and not seen_through() and alive > self.memory_budget
        before = len(steps) if self.coarser is None else len(steps) - len(steps) // 2
        e, v = walked(steps[:before], edges["fine"], v, None, levels.fine, again)
        if self.coarser is not None and levels.coarse is not None:
            v = self.coarser(v, levels.coarse, edges, again)
        return walked(steps[before:], e, v, None, levels.fine, again)[1]
