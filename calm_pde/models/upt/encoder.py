"""UPT's encoder: points, or supernodes that have read their neighborhoods, and the latent tokens that read those."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import gelu, linear

from calm_pde.models.upt.blocks import Block
from calm_pde.models.upt.config import SupernodesConfig, UptConfig
from calm_pde.models.upt.supernodes import supernodes
from calm_pde.nn import pointwise
from calm_pde.nn.neighborhoods import Neighborhoods, neighborhoods
from calm_pde.nn.segments import Segments
from calm_pde.nn.sinusoids import sinusoids
from calm_pde.types import Bool, Float, Int, Tensor

REACH = 200.0
"""What unit coordinates are multiplied by before sines and cosines of them are taken."""


class Graph(NamedTuple):
    """The supernodes of each cloud, and the points near each.

    Args:
        chosen: which points they are, counted over all clouds.
        seen: which of them are any; None where all are.
    """

    chosen: Segments
    near: Neighborhoods
    seen: Bool[Tensor, "cloud supernode"] | None


class Read(NamedTuple):
    """What the encoder knows of the meshes: positions, real points, the supernodes' graph."""

    points: Float[Tensor, "cloud point dim"]
    mask: Bool[Tensor, "batch point"] | None
    graph: Graph | None


def graph_of(
    points: Float[Tensor, "cloud point dim"],
    mask: Bool[Tensor, "batch point"] | None,
    config: SupernodesConfig,
    periodic: tuple[bool, ...],
) -> Graph:
    """A mask says of each sample which points are real, also where all samples share one cloud."""
    chosen, valid = supernodes(points, mask, config.count, periodic)
    return connected(points, mask, chosen, valid, config, periodic)


def connected(
    points: Float[Tensor, "#cloud point dim"],
    mask: Bool[Tensor, "batch point"] | None,
    chosen: Int[Tensor, "cloud supernode"],
    valid: Bool[Tensor, "cloud supernode"],
    config: SupernodesConfig,
    periodic: tuple[bool, ...],
) -> Graph:
    """The graph of supernodes in any order: each with its nearest points within the radius, itself among them."""
    clouds, count = len(chosen), points.shape[1]
    points = points.expand(clouds, -1, -1)
    where = points.gather(1, chosen[..., None].expand(-1, -1, points.shape[-1]))
    near = neighborhoods(points, where, config.radius, periodic, mask, most=config.most_neighbors)
    index = (chosen + count * torch.arange(clouds, device=chosen.device)[:, None]).flatten()
    return Graph(Segments.of(index, clouds * count), near, None if bool(valid.all()) else valid)


class PointReader(nn.Module):
    """MLP(sinusoids(p) + W x) at every point."""

    def __init__(self, config: UptConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.lift = pointwise.linear(config.given_channels, config.width, generator, bias=False)
        self.mlp = pointwise.perceptron((config.width, 4 * config.width, config.width), generator)

    def forward(
        self, x: Float[Tensor, "row point in"], read: Read, c: Float[Tensor, "row told"] | None
    ) -> tuple[Tensor, Tensor | None]:
        place = sinusoids(read.points, self.lift.out_features, REACH)
        tokens = self.mlp(self.lift(x) + per_row(place, len(x)))
        return tokens, None if read.mask is None else per_row(read.mask, len(x))


class SupernodeReader(nn.Module):
    """Messages m(x_j ‖ x_s) of near points j, their mean at each supernode s, and a transformer over all of these.

    x = MLP(values) + sinusoids(p), m an MLP whose first layer is applied before points meet supernodes, and whose last one
    after the mean, which changes nothing: both are linear.
    """

    def __init__(self, nodes: SupernodesConfig, given: int, told: int, generator: torch.Generator | None) -> None:
        super().__init__()
        width = nodes.feature_width
        self.lift = pointwise.perceptron((given, width, width, width), generator)
        self.meet = pointwise.linear(2 * width, 2 * width, generator)
        self.narrow = pointwise.linear(2 * width, width, generator)
        self.last = pointwise.linear(width, width, generator)
        self.widen = pointwise.linear(width, nodes.width, generator)
        self.blocks = nn.ModuleList(Block(nodes.width, nodes.heads, generator, told=told) for _ in range(nodes.blocks))

    def forward(
        self, x: Float[Tensor, "row point in"], read: Read, c: Float[Tensor, "row told"] | None
    ) -> tuple[Tensor, Tensor | None]:
        graph = read.graph
        if graph is None:
            raise ValueError("a reader of supernodes is given their graph")
        tokens = self.widen(self.last(self.messages(self.located(x, read), graph)))
        mask = None if graph.seen is None else per_row(graph.seen, len(x))
        for block in self.blocks:
            tokens = block(tokens, c, mask=mask)
        return tokens, mask

    def located(self, x: Float[Tensor, "row point in"], read: Read) -> Float[Tensor, "row point channel"]:
        return self.lift(x) + per_row(sinusoids(read.points, self.last.in_features, REACH), len(x))

    def messages(self, x: Float[Tensor, "row point channel"], graph: Graph) -> Float[Tensor, "row supernode channel"]:
        """The mean over near points, before the last layer."""
        near, (of_point, of_node) = graph.near, self.meet.weight.chunk(2, dim=1)
        at_points = near.by_points(x)
        from_points, at_nodes = linear(at_points, of_point), linear(graph.chosen.spread(at_points), of_node, self.meet.bias)
        met = near.points.spread(from_points) + near.places.spread(at_nodes)
        return near.by_samples(near.places.mean(gelu(self.narrow(gelu(met)))))


class Encoder(nn.Module):
    """z: learned tokens that have read the points or supernodes, through a linear map to their width."""

    def __init__(self, config: UptConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        nodes, width, told = config.supernodes, config.width, config.told_width
        if nodes is None:
            self.reader = PointReader(config, generator)
        else:
            self.reader = SupernodeReader(nodes, config.given_channels, told, generator)
        self.bring = pointwise.linear(width if nodes is None else nodes.width, width, generator)
        self.tokens = nn.Parameter(torch.empty(config.tokens, width))
        nn.init.trunc_normal_(self.tokens, std=0.02, generator=generator)
        self.pool = Block(width, config.heads, generator, told=told, context=width)

    def forward(
        self, x: Float[Tensor, "row point in"], read: Read, c: Float[Tensor, "row told"] | None
    ) -> Float[Tensor, "row token channel"]:
        found, mask = self.reader(x, read, c)
        return self.pool(self.tokens.expand(len(x), -1, -1), c, self.bring(found), mask)


def per_row(x: Tensor, rows: int) -> Tensor:
    """What each cloud or sample has, for each of its rows, which stand one behind the other."""
    return x if len(x) == rows else x.repeat_interleave(rows // len(x), dim=0)
