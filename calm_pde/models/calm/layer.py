"""The CALM layer: a continuous convolution from an input cloud to learned or given query points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from calm_pde.engine.chunks import Work
from calm_pde.engine.convolution import convolve
from calm_pde.engine.kernel_features import Displacements, Weighting
from calm_pde.engine.orders import Sizes
from calm_pde.engine.plan import DEFAULT_BUDGET, Plan, check_budget, plan
from calm_pde.engine.receptive_fields import Neighbors, Vicinity, neighborhood_size, receptive_field
from calm_pde.engine.transforms import seen_through
from calm_pde.errors import ConfigError, InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.calm.kernel import DistanceKernel, MLPKernel
from calm_pde.models.calm.offsets import QueryOffsets
from calm_pde.models.checks import (
    check_coordinates,
    check_finite,
    check_mask,
    check_neighbors,
    check_one_per_sample,
    check_values,
    check_weights,
    warn_outside_box,
)
from calm_pde.nn.pointwise import PointwiseMLP, linear
from calm_pde.nn.query_points import Spread, query_start
from calm_pde.types import Bool, Float, Int, Tensor


class CalmLayer(nn.Module):
    """l(f, 𝒜, A)_o(a_j) = σ(Σ_i Σ_{m ∈ RF(a_j)} f_i(α_m)·k_io(a_j − α_m) + b_o), between pointwise maps.

    With `num_queries` the layer owns its query points, learns them (`learnable_queries`) and modulates its kernel at each.
    With `num_queries=None` it is a decoder's last layer: the queries come with the call, and there is no modulation, no σ
    and no MLP behind the convolution. With `offsets` its own queries follow the state, see `QueryOffsets`: its answers are then
    at points of their own for each sample, (batch, query, dim).

    Args:
        receptive_field: the percentile p in (0, 1]; each query sees ⌊p·(N − 1)⌋ + 1 of N points.
        temperature: T of the distance weighting; the starting value of every filter with `kernel="distance"`.
        weighting: `softmax` over the distances, `mean` (1/M), or `none`; of the MLP kernel.
        kernel: `mlp`, or `distance` for weights by distance alone, which has no base filter and no modulation.
        displacements: as the MLP kernel sees them: `absolute` in units of the box (the paper), or `relative` to the radius of
            the receptive field, for meshes that are fine here and coarse there.
        memory_budget: bytes that the convolution may hold beside its inputs and outputs, forward and backward.
        mesh: the queries start as a sample of these points (point, dim) instead of anywhere.
        spread: `random`, the paper's, draws starts independently; `even` takes a lattice, or points of the mesh that lie far
            from one another.
    """

    queries: Tensor | None
    kernel: MLPKernel | DistanceKernel
    offsets: QueryOffsets | None

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
        displacements: Displacements = "absolute",
        dropout: float = 0.0,
        memory_budget: int = DEFAULT_BUDGET,
        mesh: Float[Tensor, "point dim"] | None = None,
        spread: Spread = "random",
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes = {} if num_queries is None else {"num_queries": num_queries}
        _check_sizes(in_channels=in_channels, out_channels=out_channels, dim=dim, kernel_width=kernel_width, **sizes)
        _check_kernel(kernel, weighting, receptive_field, temperature, fourier_width)
        self.in_channels, self.out_channels, self.dim = in_channels, out_channels, dim
        self.num_queries, self.receptive_field = num_queries, receptive_field
        self.periodic = periodic_axes(periodic, dim)
        self.memory_budget = check_budget(memory_budget)
        self._warned, self._vicinity = set[str](), Vicinity()

        self.mix = _mixing(in_channels, generator)
        self.kernel = (
            MLPKernel(
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
                relative=displacements == "relative",
            )
            if kernel == "mlp"
            else DistanceKernel(in_channels, out_channels, temperature)
        )
        self.bias = nn.Parameter(torch.zeros(out_channels))
        self.dropout, self.offsets = nn.Dropout(dropout), None
        self.mlp = None if num_queries is None else PointwiseMLP(out_channels, 4 * out_channels, generator, dropout)
        start = None if num_queries is None else query_start(num_queries, dim, mesh, generator, spread, self.periodic)
        if start is not None and learnable_queries:
            self.queries = nn.Parameter(start)
        else:
            self.register_buffer("queries", start)

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
        if not seen_through():
            self._check(x, points, queries, mask, neighbors)
        return self.convolve(x, points, queries, mask, neighbors)

    def convolve(
        self,
        x: Float[Tensor, "*batch point in"],
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None = None,
        mask: Bool[Tensor, "*sample point"] | None = None,
        neighbors: Neighbors | None = None,
        parameters: Float[Tensor, "batch parameter"] | None = None,
    ) -> tuple[Float[Tensor, "*batch query out"], Float[Tensor, "*ask query dim"]]:
        """`forward` behind the door: arguments are trusted. A kernel that sees parameters is another for each sample."""
        lead = x.shape[:-2]
        clouds = self.clouds(lead, points, queries, mask, parameters)
        if mask is not None:
            points, x = without_masked(points, x, mask)
        y, where = self.answered(rows_inside(x, clouds), lead, points, queries, mask, neighbors, parameters)
        return rows_first(y, lead).to(x.dtype), where if lead or where.ndim == 2 else where[0]

    def answered(
        self,
        x: Float[Tensor, "_ point _ in"],
        lead: tuple[int, ...],
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None = None,
        mask: Bool[Tensor, "*sample point"] | None = None,
        neighbors: Neighbors | None = None,
        parameters: Float[Tensor, "batch parameter"] | None = None,
    ) -> tuple[Float[Tensor, "_ query _ out"], Float[Tensor, "*where query dim"]]:
        """Answers to features with the rows inside, which are grouped as they need be, and where the answers are."""
        x = regrouped(x, self.clouds(lead, points, queries, mask, parameters))
        if self.offsets is None:
            return self.convolve_rows(x, points, queries, mask, neighbors, parameters=parameters), self.where(queries)
        samples = lead[0] if lead else 1
        where = self._followed(self.offsets, x, samples, points, mask)
        return self.convolve_rows(regrouped(x, samples), points, None, mask, neighbors, where, parameters), where

    def clouds(
        self, lead: tuple[int, ...], points: Tensor, queries: Tensor | None, mask: Tensor | None, parameters: Tensor | None
    ) -> int:
        """The batch where samples differ, in their kernels or in what these are asked; else 1."""
        if parameters is not None and self.kernel.modulator is not None:
            return lead[0]
        return count_clouds(lead, points, self.where(queries), mask)

    def _followed(
        self,
        offsets: QueryOffsets,
        x: Float[Tensor, "cloud point row in"],
        samples: int,
        points: Float[Tensor, "*cloud point dim"],
        mask: Bool[Tensor, "*sample point"] | None = None,
    ) -> Float[Tensor, "batch query dim"]:
        """Where the layer's own queries are for each sample; of more axes, such as time, the first entry counts."""
        rest, clouds, num_points = self.where(None), len(x), x.shape[1]
        first = x.unflatten(2, (samples // clouds, -1))[:, :, :, 0]
        pairs = all_as_one(self.neighbors(points, None, mask), points, rest, clouds, num_points)
        away = offsets(first.flatten(0, 1), *pairs, self.periodic, self.memory_budget)
        return rest + away.view(clouds, len(rest), -1, self.dim).transpose(1, 2).flatten(0, 1)

    def convolve_rows(
        self,
        x: Float[Tensor, "cloud point row in"],
        points: Float[Tensor, "*cloud point dim"],
        queries: Float[Tensor, "*ask query dim"] | None = None,
        mask: Bool[Tensor, "*sample point"] | None = None,
        neighbors: Neighbors | None = None,
        moved: Float[Tensor, "cloud query dim"] | None = None,
        parameters: Float[Tensor, "batch parameter"] | None = None,
    ) -> Float[Tensor, "cloud query row out"]:
        """`convolve` on features with the rows inside; masked points hold zeros already, and own queries may have `moved`."""
        where = self.where(queries) if moved is None else moved
        clouds, num_points, rows, _ = x.shape
        if neighbors is None:
            block = self._streamed_queries(where, num_points)
            if block < where.shape[-2] and not torch.is_grad_enabled():
                parts = [self.convolve_rows(x, points, some, mask) for some in where.split(block, dim=-2)]
                return torch.cat(parts, dim=1)
            neighbors = self.neighbors(points, queries, mask, moved)
        work, points, where = self.work(neighbors, points, where, clouds, num_points, rows)
        x = x.flatten(0, 1)
        filters, offset = self.kernel.filters, None
        if filters is not None and len(filters) * self.out_channels <= len(x) * rows:
            filters, offset = self.folded(filters)
        else:
            x = self.mix(x)
        tail = self.mlp.weights if work.tail and self.mlp is not None else ()
        y = convolve(work, x, points, where, filters, offset, self.bias, tail, self.kernel.geometry_parameters(parameters))
        y = y.view(clouds, -1, rows, self.out_channels)
        if self.mlp is not None and not work.tail:
            y = self.dropout(nn.functional.gelu(y))
            y = y + self.mlp(y)
        return y

    def work(
        self, neighbors: Neighbors, points: Tensor, where: Tensor, clouds: int, num_points: int, rows: int, baked: bool = False
    ) -> tuple[Work, Tensor, Tensor]:
        """All clouds as one, with points and queries one cloud after the other."""
        index, valid, points, where = all_as_one(neighbors, points, where, clouds, num_points)
        hidden = None if self.kernel.filters is None else len(self.kernel.filters)
        dropped = self.training and self.dropout.p > 0 and not baked
        tail = self.mlp is not None and not dropped
        sizes = Sizes(
            points=len(points),
            queries=len(where),
            neighbors=index.shape[-1],
            rows=rows,
            inputs=self.in_channels,
            outputs=self.out_channels,
            hidden=hidden,
            tail=tail,
            itemsize=where.itemsize,
            frozen=baked,
        )
        chosen = self.plan(sizes)
        work = Work(chosen, chosen.order, self.kernel.geometry, self.periodic, index, valid, len(points), tail)
        return work, points, where

    def plan(self, sizes: Sizes) -> Plan:
        """The order and the chunks of the contraction for these sizes."""
        return plan(sizes, self.memory_budget)

    def folded(self, filters: Tensor) -> tuple[Tensor, Tensor]:
        """The pointwise map before the convolution, folded into the filters; its bias becomes an offset of the features."""
        return torch.einsum("hio,ij->hjo", filters, self.mix.weight).contiguous(), torch.einsum(
            "hio,i->ho", filters, self.mix.bias
        )

    def _streamed_queries(self, where: Tensor, num_points: int) -> int:
        """How many external queries are searched and answered at a time where no gradient is asked."""
        if self.queries is not None:
            return where.shape[-2]
        width = neighborhood_size(self.receptive_field, num_points) + 8
        return max(1, self.memory_budget // 8 // (width * 64))

    def neighbors(
        self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None, moved: Tensor | None = None
    ) -> Neighbors:
        """The receptive field of every query of this layer; valid until the queries or points move.

        Queries of its own are sought around where they rest, or around where they have `moved`.
        """
        where = self.where(queries) if moved is None else moved
        shape = points.shape[-2:]
        still = not torch.is_grad_enabled() or not (points.requires_grad or where.requires_grad)
        if mask is not None:
            points = points.expand(*mask.shape[:-1], *shape) if points.ndim == 2 else points
            mask = mask.view(-1, shape[0])
        return receptive_field(
            points.reshape(-1, *shape),
            where.reshape(-1, *where.shape[-2:]),
            self.receptive_field,
            self.periodic,
            mask,
            still and moved is None,  # what follows the state does not come again
            self._vicinity if moved is None else None,
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
        check_weights(dtype, "a CalmLayer", bfloat16=True)
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
            if self.offsets is not None:
                raise InputError(
                    "neighbors",
                    expected="none, since the queries of this layer follow the state",
                    got="some",
                    fix="Leave them out.",
                )
            check_neighbors(neighbors, points.shape[-2], where.shape[-2], lead)


def count_clouds(lead: tuple[int, ...], points: Tensor, queries: Tensor, mask: Tensor | None) -> int:
    """The batch where samples differ in points, queries or mask; else 1, and all samples are rows of one cloud."""
    own = points.ndim == 3 or queries.ndim == 3 or (mask is not None and mask.ndim == 2)
    return lead[0] if own else 1


def all_as_one(
    neighbors: Neighbors, points: Tensor, where: Tensor, clouds: int, num_points: int
) -> tuple[
    Int[Tensor, "query neighbor"], Bool[Tensor, "query neighbor"], Float[Tensor, "point dim"], Float[Tensor, "query dim"]
]:
    """Indices of neighbors, which of them are real, points and queries of all clouds, one cloud after the other."""
    first = num_points * torch.arange(clouds, device=points.device)[:, None, None]
    index = (neighbors.indices + first).flatten(0, 1)
    valid = neighbors.valid.expand(clouds, -1, -1).flatten(0, 1)
    points = points.expand(clouds, *points.shape[-2:]).flatten(0, 1)
    where = where.expand(clouds, *where.shape[-2:]).flatten(0, 1)
    return index, valid, points, where


def without_masked(points: Tensor, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Masked points may hold anything, so they are overwritten before anything reads them."""
    between = (1,) * (x.ndim - mask.ndim - 1)
    x = x.masked_fill(~mask.view(*mask.shape[:-1], *between, mask.shape[-1], 1), 0.0)
    return points.masked_fill(~mask[..., None], 0.0), x


def rows_inside(x: Float[Tensor, "*batch point channel"], clouds: int) -> Float[Tensor, "cloud point row channel"]:
    return x.reshape(clouds, -1, *x.shape[-2:]).transpose(1, 2).contiguous()


def rows_first(y: Float[Tensor, "cloud query row channel"], lead: tuple[int, ...]) -> Float[Tensor, "*batch query channel"]:
    return y.transpose(1, 2).reshape(*lead, y.shape[1], y.shape[-1])


def regrouped(x: Float[Tensor, "cloud point row channel"], clouds: int) -> Tensor:
    """The samples as rows of one cloud, or as clouds of their own."""
    if clouds == len(x):
        return x
    if clouds == 1:
        return x.transpose(0, 1).flatten(1, 2)[None]
    return x[0].unflatten(1, (clouds, -1)).transpose(0, 1).contiguous()


def _mixing(channels: int, generator: torch.Generator | None) -> nn.Linear:
    """The pointwise map before the convolution."""
    mix = linear(channels, channels, generator)
    if channels == 1:  # a single factor from U(−1, 1) may start near 0 and hide the input for long: ±1 instead
        mix.weight.data = torch.ones_like(mix.weight.data).copysign(mix.weight.data)
    return mix


def _check_kernel(kernel: str, weighting: Weighting, receptive_field: float, temperature: float, fourier_width: int) -> None:
    if not 0 < receptive_field <= 1:
        raise ConfigError(f"receptive_field: expected a share of the points in (0, 1], got {receptive_field}. 0.01 sees 1 %.")
    if not (temperature > 0 and math.isfinite(temperature)):
        raise ConfigError(f"temperature: expected a finite number > 0, got {temperature}. The paper uses 0.1 to 1.")
    if fourier_width < 2 or fourier_width % 2:
        raise ConfigError(f"fourier_width: expected an even number ≥ 2 (sines and cosines), got {fourier_width}.")
    if kernel == "distance" and weighting != "softmax":
        raise ConfigError(f"weighting: the distance kernel is itself a softmax, got weighting={weighting!r}. Leave it out.")


def _check_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise ConfigError(f"{name}: expected a whole number ≥ 1, got {size!r}.")
