"""The multi-scale attentional graph operator: from points to the tokens near them, and from tokens to queries."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import nn
from torch.nn.functional import cosine_similarity, linear

from calm_pde.engine.precision import full_precision
from calm_pde.models.gaot.config import GaotConfig
from calm_pde.models.gaot.statistics import count_of, neighborhood_statistics, standardized
from calm_pde.nn import pointwise
from calm_pde.nn.chunked import by_chunks
from calm_pde.nn.neighborhoods import Neighborhoods, neighborhoods
from calm_pde.types import Bool, Float, Tensor


class Place(NamedTuple):
    """Points of each cloud, and which of them are real."""

    points: Float[Tensor, "cloud point dim"]
    mask: Bool[Tensor, "batch point"] | None = None


class Sight(NamedTuple):
    """What places see at one scale: who is near, with which weights α·k, what the neighborhoods look like, which are empty."""

    near: Neighborhoods
    weights: Float[Tensor, "pair channel"]
    looks: Float[Tensor, "place 1 channel"]
    inhabited: Bool[Tensor, "place 1 1"]


class PairVectors(nn.Module):
    """The two vectors of a place x and a point y near it, d = y − x across periodic axes.

    `relative`: (1) and (d/r ‖ 1), as seen from one radius r above x; then equal neighborhoods give equal weights wherever they
    are. `absolute`: x and x + d.

    The kernel reads the second of them without its 1, or both positions.
    """

    def __init__(self, config: GaotConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.relative = config.positions == "relative"
        self.kernel_features = config.dim if self.relative else 2 * config.dim
        self.of_place = self.of_point = None
        if config.attention == "projected":
            sizes = (1, config.dim + 1) if self.relative else (config.dim, config.dim)
            self.of_place, self.of_point = (
                pointwise.linear(size, config.attention_width, generator, bias=False) for size in sizes
            )

    def forward(self, x: Float[Tensor, "pair dim"], d: Float[Tensor, "pair dim"], radius: float) -> tuple[Tensor, Tensor]:
        """Logits of attention (pair,), and what the kernel reads."""
        if self.relative:
            one, seen = torch.ones_like(d[:, :1]), d / radius
            at_place, at_point = one, torch.cat([seen, one], dim=-1)
        else:
            at_place, at_point = x, x + d
            seen = torch.cat([at_place, at_point], dim=-1)
        if self.of_place is not None and self.of_point is not None:
            width = self.of_place.out_features
            return (self.of_place(at_place) * self.of_point(at_point)).sum(dim=-1) / width**0.5, seen
        if self.relative:
            at_place = torch.cat([torch.zeros_like(d), at_place], dim=-1)
        return cosine_similarity(at_place, at_point, dim=-1), seen


class ScaleOperator(nn.Module):
    """W (Σ_y α(x, y)·k(x, y) ⊙ f(y) ‖ MLP(statistics)) + b at every place x, over the points y within a radius; α a softmax.

    A place without any point is answered with zero. Kernels start near 1, so that what is said at first is a local mean.
    """

    def __init__(self, config: GaotConfig, radius: float, generator: torch.Generator | None) -> None:
        super().__init__()
        self.radius, self.budget, width, hidden = radius, config.memory_budget, config.width, config.statistics_width
        self.vectors = PairVectors(config, generator)
        layers = (self.vectors.kernel_features, *(config.kernel_width,) * config.kernel_layers, width)
        self.kernel = pointwise.perceptron(layers, generator)
        nn.init.ones_(self.kernel[-1].bias)  # pyright: ignore[reportArgumentType]
        self.look = nn.Sequential(
            pointwise.linear(count_of(config.dim), hidden, generator), nn.ReLU(), pointwise.linear(hidden, width, generator)
        )
        self.join = pointwise.preserving(2 * width, width, generator)

    def sight(self, points: Place, places: Place, periodic: tuple[bool, ...], fewest: int, compared: bool) -> Sight:
        """What depends on positions alone.

        Args:
            fewest: points that a place without any in reach takes instead.
            compared: whether statistics are standardized over the places of each cloud.
        """
        near = neighborhoods(points.points, places.points, self.radius, periodic, points.mask, fewest=fewest)
        with full_precision(points.points):
            d = near.displacements(points.points, places.points, periodic)
            x = near.places.spread(places.points.expand(near.clouds, -1, -1).flatten(0, 1))
            logits, seen = self.vectors(x, d, self.radius)
            weights = near.places.softmax(logits)[:, None] * self.kernel(seen)
            statistics = neighborhood_statistics(near.places, d.double() / self.radius)
            inhabited = near.places.sizes > 0
            if compared:
                by_cloud = statistics.unflatten(0, (near.clouds, -1)), inhabited.unflatten(0, (near.clouds, -1))
                statistics = standardized(*by_cloud).flatten(0, 1)
            looks = linear(self.look(statistics.to(d.dtype)), self.join.weight.chunk(2, dim=1)[1], self.join.bias)
        return Sight(near, weights, looks[:, None], inhabited[:, None, None])

    def forward(self, f: Float[Tensor, "batch point channel"], sight: Sight) -> Float[Tensor, "batch place channel"]:
        near = sight.near
        with full_precision(f):
            held = 2 * sight.weights.numel() * sight.weights.element_size()
            of_rows = (near.by_points(f).to(sight.weights),)
            summed = torch.cat(by_chunks(partial(_summed, sight), of_rows, max(1, held), self.budget), dim=-2)
            joined = linear(summed, self.join.weight.chunk(2, dim=1)[0]) + sight.looks
        return near.by_samples(joined * sight.inhabited)


class MultiscaleOperator(nn.Module):
    """The operators of all scales, averaged, or weighed by a softmax of an MLP of the place."""

    def __init__(self, config: GaotConfig, generator: torch.Generator | None) -> None:
        super().__init__()
        self.scales = nn.ModuleList(ScaleOperator(config, scale * config.radius, generator) for scale in config.scales)
        self.weigh = None
        if config.scale_weights == "learned":
            self.weigh = pointwise.perceptron((config.dim, config.statistics_width, len(config.scales)), generator)

    def sights(
        self, points: Place, places: Place, periodic: tuple[bool, ...], fewest: int = 0, compared: bool = False
    ) -> tuple[list[Sight], Float[Tensor, "cloud place scale"] | None]:
        """What depends on positions alone: of each scale, and how much it counts at each place."""
        found = [scale.sight(points, places, periodic, fewest, compared) for scale in self.scales]  # pyright: ignore[reportCallIssue]
        return found, None if self.weigh is None else self.weigh(places.points).softmax(dim=-1)

    def forward(
        self,
        f: Float[Tensor, "batch point channel"],
        sights: tuple[list[Sight], Float[Tensor, "cloud place scale"] | None],
    ) -> Float[Tensor, "batch place channel"]:
        seen, shares = sights
        total = 0.0
        for number, (scale, sight) in enumerate(zip(self.scales, seen, strict=True)):
            said = scale(f, sight)
            share = 1 / len(seen) if shares is None else _of_rows(shares[..., number, None], len(said))
            total = total + share * said
        return torch.as_tensor(total)


def _summed(sight: Sight, f: Float[Tensor, "_ row channel"]) -> Float[Tensor, "place row channel"]:
    """Σ_y α k ⊙ f of each place."""
    return sight.near.places.sum(sight.weights[:, None] * sight.near.points.spread(f))


def _of_rows(x: Tensor, rows: int) -> Tensor:
    return x if len(x) in (1, rows) else x.repeat_interleave(rows // len(x), dim=0)
