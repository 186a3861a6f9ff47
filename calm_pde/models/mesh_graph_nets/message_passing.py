"""Parts of MeshGraphNets: its MLP, the encoder of edges, and one step of messages along them."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.functional import linear as affine
from torch.nn.functional import relu

from calm_pde.data.statistics import Moments
from calm_pde.nn.graph import Graph
from calm_pde.nn.pointwise import linear
from calm_pde.types import Float, Tensor


class MLP(nn.Module):
    """N(W₃ ReLU(W₂ ReLU(W₁ x))) with biases and a LayerNorm N, or without it."""

    def __init__(self, inputs: int, width: int, outputs: int, generator: torch.Generator, norm: bool = True) -> None:
        super().__init__()
        self.first, self.second = linear(inputs, width, generator), linear(width, width, generator)
        self.last = linear(width, outputs, generator)
        self.norm = nn.LayerNorm(outputs) if norm else nn.Identity()

    def forward(self, x: Float[Tensor, "*axes in"]) -> Float[Tensor, "*axes out"]:
        return self.after(self.first(x))

    def after(self, h: Float[Tensor, "*axes hidden"]) -> Float[Tensor, "*axes out"]:
        """Of what the first map gives."""
        return self.norm(self.last(relu(self.second(relu(h)))))


class EdgeEncoder(nn.Module):
    """MLP(((x_i − x_j) ‖ |x_i − x_j| − μ)/σ), with mean μ and deviation σ over the edges of the training meshes."""

    mean: Tensor
    std: Tensor

    def __init__(self, dim: int, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.mlp = MLP(dim + 1, width, width, generator)
        self.register_buffer("mean", torch.zeros(dim + 1))
        self.register_buffer("std", torch.ones(dim + 1))

    def forward(self, away: Float[Tensor, "edge dim"]) -> Float[Tensor, "edge 1 channel"]:
        return self.mlp((self.features(away) - self.mean) / self.std)[:, None]

    @staticmethod
    def features(away: Float[Tensor, "edge dim"]) -> Float[Tensor, "edge feature"]:
        return torch.cat([away, torch.linalg.vector_norm(away, dim=-1, keepdim=True)], dim=-1)

    def standardize(self, moments: Moments) -> None:
        """By mean and deviation of the features; what never varies deviates by 1."""
        found = moments.statistics(("",) * len(self.mean)) if moments.count else None
        if found is not None:
            self.mean.copy_(self.mean.new_tensor(found.mean))
            self.std.copy_(self.std.new_tensor(found.std))


class MessagePassing(nn.Module):
    """e_ij ← e_ij + MLP(e_ij ‖ v_i ‖ w_j); v_i ← v_i + MLP(v_i ‖ Σ_j e_ij), for edges from w_j to v_i."""

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.edges = MLP(3 * width, width, width, generator)
        self.nodes = MLP(2 * width, width, width, generator)

    def forward(
        self,
        e: Float[Tensor, "edge #row channel"],
        v: Float[Tensor, "receiver row channel"],
        w: Float[Tensor, "sender row channel"],
        graph: Graph,
    ) -> tuple[Float[Tensor, "edge row channel"], Float[Tensor, "receiver row channel"]]:
        width, first = v.shape[-1], self.edges.first
        along, here, there = first.weight.split(width, dim=1)  # products at nodes cost a third of those at edges
        h = graph.receivers.spread(affine(v, here)) + graph.senders.spread(affine(w, there))
        e = e + self.edges.after(h + affine(e, along, first.bias))
        first = self.nodes.first
        own, sent = first.weight.split(width, dim=1)
        return e, v + self.nodes.after(affine(v, own, first.bias) + affine(graph.receivers.sum(e), sent))
