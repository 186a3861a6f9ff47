"""CALM-PDE: encode a state on any points to latent tokens, step them in time, decode at any points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from calm_pde.checks import (
    check_coordinates,
    check_finite,
    check_neighbors,
    check_one_per_sample,
    check_values,
    warn_outside_box,
)
from calm_pde.config import Config
from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.baked import BakedCalm
from calm_pde.models.base import Mesh, Model, ModelConfig
from calm_pde.models.calm_presets import PRESETS
from calm_pde.models.doors import check_mesh, check_node_type, check_state, frames, mesh_union
from calm_pde.models.point_features import NodeTypes
from calm_pde.neighbors import Neighbors
from calm_pde.nn.cost import DEFAULT_BUDGET, check_budget
from calm_pde.nn.hierarchy import Hierarchy
from calm_pde.nn.kernel import Weighting
from calm_pde.nn.layer import CalmLayer
from calm_pde.nn.processor import Processor
from calm_pde.types import Float, Tensor

Percentile = Annotated[float, Field(gt=0, le=1)]


class EncoderConfig(Config):
    """One entry per layer, from the input to the latent tokens."""

    channels: tuple[PositiveInt, ...]
    num_queries: tuple[PositiveInt, ...]
    receptive_field: tuple[Percentile, ...]
    temperature: tuple[PositiveFloat, ...]
    mesh_prior: tuple[bool, ...] = ()
    """Which layers' queries start as a random sample of the mesh; empty for none."""

    _external_layers = 0

    @model_validator(mode="after")
    def _one_entry_per_layer(self) -> EncoderConfig:
        learned = len(self.channels)
        wanted = {
            "num_queries": learned,
            "receptive_field": learned + self._external_layers,
            "temperature": learned + self._external_layers,
            "mesh_prior": learned if self.mesh_prior else 0,
        }
        for name, count in wanted.items():
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name} needs {count} entries beside {learned} channels, got {len(getattr(self, name))}")
        if learned + self._external_layers == 0:
            raise ValueError("at least one layer is needed, got no channels")
        return self


class DecoderConfig(EncoderConfig):
    """One entry per layer; the last, external layer has a receptive field and a temperature only."""

    _external_layers = 1


class ProcessorConfig(Config):
    """The transformer over latent tokens; `width` defaults to twice the latent channels."""

    width: PositiveInt | None = None
    heads: PositiveInt = 8
    blocks: PositiveInt = 2
    fourier_width: Annotated[int, Field(ge=2, multiple_of=2)] = 64
    fourier_std: PositiveFloat = 6.0


class CalmConfig(ModelConfig):
    """All sizes and switches of a CALM-PDE; `preset` has the paper's, `build` makes the model.

    Args:
        task: `rollout` in time; `steady` maps input features to one field by one residual step; `autoencoder` has no
            processor and reconstructs its input.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input channels.
        learnable_queries: False keeps the query points where they start.
        kernel, weighting, modulation: the paper's ablations, see `CalmLayer`.
        memory_budget: bytes that each layer's convolution may hold beside its inputs and outputs.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS

    encoder: EncoderConfig
    decoder: DecoderConfig
    processor: ProcessorConfig = ProcessorConfig()
    task: Literal["rollout", "steady", "autoencoder"] = "rollout"
    node_type_width: PositiveInt = 4
    integrator: Literal["euler", "heun", "rk4"] = "euler"
    substeps: PositiveInt = 1
    learnable_queries: bool = True
    modulation: bool = True
    weighting: Weighting = "softmax"
    kernel: Literal["mlp", "distance"] = "mlp"
    kernel_width: PositiveInt = 32
    fourier_width: Annotated[int, Field(ge=2, multiple_of=2)] = 32
    fourier_std: PositiveFloat = 6.0
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    memory_budget: Annotated[int, Field(ge=2**20)] = DEFAULT_BUDGET

    @property
    def latent_channels(self) -> int:
        return self.encoder.channels[-1]

    @property
    def processor_width(self) -> int:
        return self.processor.width or 2 * self.latent_channels

    @model_validator(mode="after")
    def _parts_fit(self) -> CalmConfig:
        periodic_axes(self.periodic, self.dim)
        if self.processor_width % self.processor.heads:
            raise ValueError(
                f"processor.heads must divide the processor's width {self.processor_width}, got {self.processor.heads}"
            )
        if self.kernel == "distance" and self.weighting != "softmax":
            raise ValueError(f"the distance kernel is itself a softmax; leave weighting out, got {self.weighting!r}")
        if len(set(self.node_types)) != len(self.node_types):
            raise ValueError(f"node_types must differ from one another, got {self.node_types}")
        return self

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> CalmPDE:
        return CalmPDE(self, mesh=mesh, seed=seed)


class CalmNeighbors(NamedTuple):
    """The receptive fields of all layers for one geometry, as `CalmPDE.neighbors` finds them."""

    encoder: tuple[Neighbors, ...]
    decoder: tuple[Neighbors, ...]


class CalmPDE(Model):
    """u(t) = d(z(t), P, queries), dz/dt = ψ(z, P), (z(0), P) = e(u(0), points) (paper, encoder, processor, decoder)."""

    reconstructs = True

    def __init__(self, config: CalmConfig, mesh: Mesh | None = None, seed: int = 0) -> None:
        super().__init__()
        self.config: CalmConfig = config
        self.periodic = periodic_axes(config.periodic, config.dim)
        self._warned: set[str] = set()
        generator = torch.Generator().manual_seed(seed)
        prior = None if mesh is None else mesh_union(mesh, config.dim)

        self.node_types = None
        channels = config.in_channels
        if config.node_types:
            self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
            channels += config.node_type_width

        self.encoder = Hierarchy()
        for depth, out_channels in enumerate(config.encoder.channels):
            self.encoder.append(self._layer(config.encoder, depth, channels, out_channels, prior, generator))
            channels = out_channels
        self.processor = None
        if config.task != "autoencoder":
            self.processor = Processor(
                channels,
                config.dim,
                self.periodic,
                width=config.processor_width,
                heads=config.processor.heads,
                blocks=config.processor.blocks,
                fourier_width=config.processor.fourier_width,
                fourier_std=config.processor.fourier_std,
                generator=generator,
            )
        self.decoder = Hierarchy()
        for depth, out_channels in enumerate((*config.decoder.channels, config.out_channels)):
            self.decoder.append(self._layer(config.decoder, depth, channels, out_channels, prior, generator))
            channels = out_channels

    def _layer(
        self,
        stack: EncoderConfig,
        depth: int,
        in_channels: int,
        out_channels: int,
        prior: Tensor | None,
        generator: torch.Generator,
    ) -> CalmLayer:
        config, learned = self.config, depth < len(stack.channels)
        return CalmLayer(
            in_channels,
            out_channels,
            config.dim,
            num_queries=stack.num_queries[depth] if learned else None,
            receptive_field=stack.receptive_field[depth],
            temperature=stack.temperature[depth],
            periodic=self.periodic,
            weighting=config.weighting,
            kernel=config.kernel,
            modulation=config.modulation,
            learnable_queries=config.learnable_queries,
            kernel_width=config.kernel_width,
            fourier_width=config.fourier_width,
            fourier_std=config.fourier_std,
            dropout=config.dropout,
            memory_budget=config.memory_budget,
            mesh=prior if learned and stack.mesh_prior and stack.mesh_prior[depth] else None,
            generator=generator,
        )

    def encode(
        self,
        values: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        neighbors: CalmNeighbors | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Latent tokens z (batch, token, channel) of the values (batch, point, channel), and their positions p (token, dim).

        Args:
            points: (point, dim), or (batch, point, dim) for one mesh per sample; unit coordinates.
            mask: (batch, point), True where a point is real; the others are never read.
            node_type: (point) or (batch, point), codes of `config.node_types`.
        """
        if not torch.compiler.is_compiling():
            self._check_state(values, points, mask, node_type)
            _check_hierarchy(self.encoder, neighbors and neighbors.encoder, values, points)
        return self.encoder.convolve(self.features(values, node_type), points, None, mask, neighbors and neighbors.encoder)

    def advance(
        self,
        z: Float[Tensor, "batch token channel"],
        p: Float[Tensor, "token dim"],
        num_steps: int | None = None,
        times: Sequence[float] | None = None,
    ) -> Float[Tensor, "batch time token channel"]:
        """z itself, then the tokens after each of `num_steps` frames, or at each of the increasing `times` in frames."""
        times = frames(num_steps, times)
        if self.processor is None:
            if times:
                raise InputError(
                    "num_steps",
                    expected="0",
                    got=str(len(times)),
                    fix="An autoencoder has no processor; it answers for frame 0.",
                )
            return z[:, None]
        return self.processor.at(p).trajectory(z, times, self.config.integrator, self.config.substeps)

    def decode(self, zs: Tensor, p: Tensor, queries: Tensor, neighbors: CalmNeighbors | None = None) -> Tensor:
        """Fields (batch, time, query, channel) of the tokens zs (batch, time, token, channel), all frames at once.

        Args:
            queries: (query, dim), or (batch, query, dim) for each sample's own; anywhere in the domain.
        """
        if not torch.compiler.is_compiling():
            self._check_latent(zs, p, queries)
            _check_hierarchy(self.decoder, neighbors and neighbors.decoder, zs, p, queries)
        return self.decoder.convolve(zs, p, queries, None, neighbors and neighbors.decoder)[0]

    def neighbors(self, points: Tensor, queries: Tensor | None = None, mask: Tensor | None = None) -> CalmNeighbors:
        """The receptive fields of all layers for these points and queries (default: the points), to pass to encode and decode.

        They hold until the query points move: find them anew after every optimizer step.
        """
        check_mesh(points, queries, mask, self.config.dim, self._dtype)
        real = _unmasked(points, mask)
        encoder = self.encoder.neighbors(real, None, mask)
        *_, last = self.encoder
        return CalmNeighbors(encoder, self.decoder.neighbors(last.where(None), real if queries is None else queries))

    def bake(
        self,
        points: Tensor,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> BakedCalm:
        """This model on one mesh for good, for fast inference; arguments as in `forward`."""
        lead = check_mesh(points, queries, mask, self.config.dim, self._dtype)
        check_node_type(node_type, self.config.node_types, points.expand(*(lead or (1,)), *points.shape[-2:]), mask)
        return BakedCalm(self, points, queries, mask, node_type)

    @property
    def memory_budget(self) -> int:
        """Bytes that each layer's convolution may hold beside its inputs and outputs."""
        return self.decoder[-1].memory_budget  # pyright: ignore[reportReturnType]

    @memory_budget.setter
    def memory_budget(self, budget: int) -> None:
        for layer in (*self.encoder, *self.decoder):
            layer.memory_budget = check_budget(budget)

    def forward(
        self,
        values: Tensor,
        points: Tensor,
        num_steps: int | None = None,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        *,
        times: Sequence[float] | None = None,
        neighbors: CalmNeighbors | None = None,
    ) -> Tensor:
        """Frames 1 … num_steps, or those at `times`, at the queries: (batch, time, query, channel).

        A steady model gives its one field without num_steps, an autoencoder the reconstructed input. Where queries
        default to the points, masked ones are answered with 0.
        """
        num_steps = self.checked_steps(num_steps, times)
        z, p = self.encode(values, points, mask, node_type, neighbors)
        zs = self.advance(z, p, num_steps, times)
        if self.config.task != "autoencoder":
            zs = zs[:, 1:]
        if queries is not None:
            return self.decode(zs, p, queries, neighbors)
        u = self.decode(zs, p, _unmasked(points, mask), neighbors)
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)

    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> Tensor:
        """The reconstructed state, then the frames at `times`: all decoded at once."""
        z, p = self.encode(values, points, mask, node_type)
        u = self.decode(self.advance(z, p, times=times), p, _unmasked(points, mask))
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    def features(self, values: Tensor, node_type: Tensor | None) -> Tensor:
        if self.node_types is None or node_type is None:
            return values
        return torch.cat([values, self.node_types(node_type).expand(*values.shape[:-1], -1)], dim=-1)

    def checked_steps(self, num_steps: int | None, times: Sequence[float] | None) -> int | None:
        only = {"steady": 1, "autoencoder": 0}.get(self.config.task)
        if only is None:
            if num_steps == 0:
                raise InputError(
                    "num_steps", expected="at least 1", got="0", fix="Use encode and decode to reconstruct the initial state."
                )
            return num_steps
        if times is not None or num_steps not in (None, only):
            raise InputError(
                "num_steps",
                expected=f"{only} (or nothing) of a model with task={self.config.task!r}",
                got=f"times={times}" if times is not None else str(num_steps),
                fix="Such a model has one answer, without time.",
            )
        return only

    def _check_state(self, values: Tensor, points: Tensor, mask: Tensor | None, node_type: Tensor | None) -> None:
        check_state(values, points, mask, self.config.dim, self.config.in_channels, self._dtype)
        check_node_type(node_type, self.config.node_types, values, mask)
        warn_outside_box(self._warned, "points", points, self.periodic, mask)

    def _check_latent(self, zs: Tensor, p: Tensor, queries: Tensor) -> None:
        dtype = self._dtype
        check_coordinates("p", p, self.config.dim, dtype)
        check_values("zs", zs, self.config.latent_channels, p.shape[-2], dtype)
        if zs.ndim != 4:
            raise InputError(
                "zs",
                expected="shape (batch, time, token, channel), as `advance` gives it",
                got=f"shape {tuple(zs.shape)}",
                fix="Add the time axis with z[:, None] to decode one frame.",
            )
        check_coordinates("queries", queries, self.config.dim, dtype)
        check_one_per_sample("queries", queries, tuple(zs.shape[:1]), "zs")
        check_finite("queries", queries)
        warn_outside_box(self._warned, "queries", queries, self.periodic)


def _check_hierarchy(
    layers: Hierarchy, neighbors: tuple[Neighbors, ...] | None, x: Tensor, points: Tensor, queries: Tensor | None = None
) -> None:
    for layer, found in zip(layers, neighbors or (), strict=False):
        where = layer.where(queries if layer.queries is None else None)
        check_neighbors(found, points.shape[-2], where.shape[-2], tuple(x.shape[:1]))
        points = where


def _unmasked(points: Tensor, mask: Tensor | None) -> Tensor:
    """The points, with something harmless where they are masked."""
    return points if mask is None else points.masked_fill(~mask[..., None], 0.0)
