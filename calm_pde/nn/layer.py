"""The CALM layer: a continuous convolution from an input cloud to learned or given query points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from calm_pde.checks import (
    check_coordinates,
    check_finite,
    check_mask,
    check_neighbors,
    check_one_per_sample,
    check_values,
    warn_outside_box,
)
from calm_pde.errors import ConfigError, InputError
from calm_pde.geometry import periodic_axes, wrap
from calm_pde.neighbors import Neighbors, receptive_field
from calm_pde.nn.convolution import gather
from calm_pde.nn.kernel import DistanceKernel, MLPKernel, Weighting
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.types import Bool, Float, Tensor


class CalmLayer(nn.Module):
    """l(f, 𝒜, A)_o(a_j) = σ(Σ_i Σ_{m ∈ RF(a_j)} f_i(α_m)·k_io(a_j − α_m) + b_o), between pointwise maps.

    With `num_queries` the layer owns its query points, learns them (`learnable_queries`) and modulates its kernel at each.
    With `num_queries=None` it is a decoder's last layer: the queries come with the call, and there is no modulation, no σ
    and no MLP behind the convolution.

    Args:
        receptive_field: the percentile p in (0, 1]; each query sees ⌊p·(N − 1)⌋ + 1 of N points.
        temperature: T of the distance weighting; the starting value of every filter with `kernel="distance"`.
        weighting: `softmax` over the distances, `mean` (1/M), or `none`; of the MLP kernel.
        kernel: `mlp`, or `distance` for weights by distance alone, which has no base filter and no modulation.
        mesh: the queries start as a random sample of these points (point, dim) instead of uniformly.
    """

    queries: Tensor | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        dim: int,
        *,
        num_queries: int | None,
        receptive_field: float,
        temperature: float = 1.0,
        periodic: bool | Sequence[bool] = False,
        weighting: Weighting = "softmax",
        kernel: Literal["mlp", "distance"] = "mlp",
        modulation: bool = True,
        learnable_queries: bool = True,
        kernel_width: int = 32,
        fourier_width: int = 32,
        fourier_std: float = 6.0,
        dropout: float = 0.0,
        mesh: Float[Tensor, "point dim"] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(in_channels=in_channels, out_channels=out_channels, dim=dim, kernel_width=kernel_width)
        if num_queries is not None:
            _check_sizes(num_queries=num_queries)
        if not 0 < receptive_field <= 1:
            raise ConfigError(
                f"receptive_field: expected a share of the points in (0, 1], got {receptive_field}. 0.01 sees 1 %."
            )
        if not (temperature > 0 and math.isfinite(temperature)):
            raise ConfigError(f"temperature: expected a finite number > 0, got {temperature}. The paper uses 0.1 to 1.")
        if fourier_width < 2 or fourier_width % 2:
            raise ConfigError(f"fourier_width: expected an even number ≥ 2 (sines and cosines), got {fourier_width}.")
        if kernel == "distance" and weighting != "softmax":
            raise ConfigError(f"weighting: the distance kernel is itself a softmax, got weighting={weighting!r}. Leave it out.")
        self.in_channels, self.out_channels, self.dim = in_channels, out_channels, dim
        self.num_queries = num_queries
        self.receptive_field = receptive_field
        self.periodic = periodic_axes(periodic, dim)
        self._warned: set[str] = set()

        self.mix = linear(in_channels, in_channels, generator)
        if kernel == "mlp":
            self.kernel = MLPKernel(
                in_channels,
                out_channels,
                dim,
                weighting=weighting,
                temperature=temperature,
                num_modulated=num_queries if modulation else None,
                width=kernel_width,
                fourier_width=fourier_width,
                fourier_std=fourier_std,
                generator=generator,
            )
        else:
            self.kernel = DistanceKernel(in_channels, out_channels, temperature)
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.dropout = nn.Dropout(dropout)
        self.mlp = None if num_queries is None else PointwiseMLP(out_channels, 4 * out_channels, generator, dropout)
        if num_queries is None:
            self.queries = None
        elif learnable_queries:
            self.queries = nn.Parameter(_query_start(num_queries, dim, mesh, generator))
        else:
            self.register_buffer("queries", _query_start(num_queries, dim, mesh, generator))

    def forward(
        self,
        x: Tensor,
        points: Tensor,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        neighbors: Neighbors | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Features at the queries, (*batch, query, out), and the queries.

        Args:
            x: (*batch, point, in), with any number of batch axes.
            points: (point, dim), or (batch, point, dim) for one cloud per entry of x's first axis; unit coordinates.
            queries: (query, dim) or (batch, query, dim), only for a layer without queries of its own.
            mask: (batch, point), True where a point is real; the others are never read.
            neighbors: what `self.neighbors` found for the same points and queries.
        """
        if not torch.compiler.is_compiling():
            self._check(x, points, queries, mask, neighbors)
        return self.convolve(x, points, queries, mask, neighbors)

    def convolve(
        self,
        x: Float[Tensor, "*batch point in"],
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None = None,
        mask: Bool[Tensor, "*sample point"] | None = None,
        neighbors: Neighbors | None = None,
    ) -> tuple[Float[Tensor, "*batch query out"], Float[Tensor, "*ask query dim"]]:
        """`forward` behind the door: arguments are trusted."""
        where = self.where(queries)
        lead = x.shape[:-2]
        clouds = lead[0] if lead and 3 in (points.ndim, where.ndim, 0 if mask is None else mask.ndim + 1) else 1
        if mask is not None:  # masked points may hold anything, so they are overwritten before anything reads them
            points = points.masked_fill(~mask[..., None], 0.0)
            x = x.masked_fill(~mask.view(*mask.shape[:-1], *(1,) * (x.ndim - mask.ndim - 1), -1, 1), 0.0)
        neighbors = neighbors or self.neighbors(points, queries, mask)
        gathered = gather(points.view(-1, *points.shape[-2:]), neighbors.indices)
        displacement = wrap(where.view(-1, where.shape[-2], 1, self.dim) - gathered, self.periodic)
        rows = self.mix(x).reshape(clouds, -1, *x.shape[-2:])
        y = self.kernel(rows, displacement, neighbors).reshape(*lead, -1, self.out_channels) + self.bias
        if self.mlp is not None:
            y = self.dropout(nn.functional.gelu(y))
            y = y + self.mlp(y)
        return y, where

    def neighbors(self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None) -> Neighbors:
        """The receptive field of every query of this layer; valid until the queries or points move."""
        where = self.where(queries)
        shape = points.shape[-2:]
        if mask is not None:
            points = points.expand(*mask.shape[:-1], *shape) if points.ndim == 2 else points
            mask = mask.view(-1, shape[0])
        return receptive_field(
            points.detach().reshape(-1, *shape),
            where.detach().reshape(-1, *where.shape[-2:]),
            self.receptive_field,
            self.periodic,
            mask,
        )

    def where(self, queries: Tensor | None) -> Tensor:
        """Where the layer answers: at its own queries, or at those from outside."""
        where = self.queries if queries is None else queries
        if where is None or (queries is not None and self.queries is not None):
            raise InputError(
                "queries",
                expected="the points to answer at" if self.queries is None else "none, since the layer owns its queries",
                got="none" if queries is None else "some",
                fix="Build the layer with num_queries=None to bring queries from outside, and only then.",
            )
        return where

    def _check(
        self, x: Tensor, points: Tensor, queries: Tensor | None, mask: Tensor | None, neighbors: Neighbors | None
    ) -> None:
        dtype = self.bias.dtype
        where = self.where(queries)
        check_coordinates("points", points, self.dim, dtype)
        check_coordinates("queries", where, self.dim, dtype)
        check_values("x", x, self.in_channels, points.shape[-2], dtype)
        lead = tuple(x.shape[:-2])
        check_one_per_sample("points", points, lead, "x")
        check_one_per_sample("queries", where, lead, "x")
        if mask is not None:
            check_mask(mask, lead, points.shape[-2])
        check_finite("points", points, mask)
        check_finite("queries", where)
        check_finite("x", x, mask)
        warn_outside_box(self._warned, "points", points, self.periodic, mask)
        if queries is not None:
            warn_outside_box(self._warned, "queries", queries, self.periodic)
        if neighbors is not None:
            check_neighbors(neighbors, points.shape[-2], where.shape[-2], lead)


def _query_start(
    num_queries: int, dim: int, mesh: Tensor | None, generator: torch.Generator | None
) -> Float[Tensor, "query dim"]:
    """U(0, 1) per axis, or a random sample of the mesh (without repetition as long as it has enough points)."""
    if mesh is None:
        return torch.rand(num_queries, dim, generator=generator)
    rounds = [torch.randperm(len(mesh), generator=generator) for _ in range(math.ceil(num_queries / len(mesh)))]
    return mesh[torch.cat(rounds)[:num_queries]].to(torch.get_default_dtype()).clone()


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ConfigError(f"{name}: expected a whole number ≥ 1, got {size!r}.")
