"""CALM-PDE: encode a state on any points to latent tokens, step them in time, decode at any points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Unpack

import torch

from calm_pde.engine.plan import check_budget
from calm_pde.engine.receptive_fields import Neighbors
from calm_pde.engine.transforms import seen_through
from calm_pde.errors import InputError
from calm_pde.geometry import Box, periodic_axes
from calm_pde.models.calm.baked import BakedCalm
from calm_pde.models.calm.config import CalmConfig, DetailConfig, EncoderConfig
from calm_pde.models.calm.detail import DetailPath
from calm_pde.models.calm.hierarchy import Hierarchy
from calm_pde.models.calm.kernel import KernelModulator, MLPKernel
from calm_pde.models.calm.kernel_weights import kernel_weights, named_layers
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.calm.learning.beside import latent_errors, losses_of, part_of
from calm_pde.models.calm.learning.start import start_at_unit_variance
from calm_pde.models.calm.memory import predicted_peak
from calm_pde.models.calm.offsets import QueryOffsets
from calm_pde.models.calm.own_scale import OwnScale
from calm_pde.models.calm.place import Place
from calm_pde.models.calm.processor.modulator import OTHER_DRAWS, Modulator
from calm_pde.models.calm.processor.processor import Processor
from calm_pde.models.checks import (
    check_coordinates,
    check_finite,
    check_neighbors,
    check_one_per_sample,
    check_values,
    warn_outside_box,
)
from calm_pde.models.conditions import Known, check_conditions, check_prescribed, expanded
from calm_pde.models.contract import STEP, Answer, Mesh, Model, Reading
from calm_pde.models.doors import check_mesh, check_node_type, check_state, check_timeless, frames, mesh_union
from calm_pde.models.draws import Draws
from calm_pde.models.inside import LatentShape, LayerKernels, OwnQueries
from calm_pde.models.point_features import NodeTypes
from calm_pde.records.inputs import Conditions, Driving, Frames, Inputs, OnPoints
from calm_pde.types import Float, Tensor


class CalmNeighbors(NamedTuple):
    """The receptive fields of all layers for one geometry, as `CalmPDE.neighbors` finds them."""

    encoder: tuple[Neighbors, ...]
    decoder: tuple[Neighbors, ...]
    detail: Neighbors | None = None
    place: Neighbors | None = None


class CalmPDE(Model):
    """u(t) = d(z(t), P, queries), dz/dt = ψ(z, P, c(t)), (z(0), P) = e(u(0), points) (paper, encoder, processor, decoder).

    The paper has no conditions c(t): parameters, signals at t, and signals a frame later.
    """

    undecayed = ("queries", "raw_rates")  # a rate that decays to a = 0 would be 0.4 per frame

    def __init__(self, config: CalmConfig, mesh: Mesh | None = None, seed: int = 0) -> None:
        super().__init__()
        self.config: CalmConfig = config
        self.periodic = periodic_axes(config.periodic, config.dim)
        self._warned: set[str] = set()
        generator = torch.Generator().manual_seed(seed)
        prior = None if mesh is None else mesh_union(mesh, config.dim)

        self.node_types = None
        self.own_scale = OwnScale(config.own_scale, config.in_channels) if config.own_scale else None
        if config.node_types:
            self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)

        self.encoder = Hierarchy()
        channels = config.given_channels
        for depth, out_channels in enumerate(config.encoder.channels):
            self.encoder.append(self._layer(config.encoder, depth, channels, out_channels, prior, generator))
            channels = out_channels
        self.processor = None
        if config.task != "autoencoder":
            told = (config.told_channels, config.processor.blocks, config.processor_width)
            self.processor = Processor(
                channels,
                config.dim,
                self.periodic,
                width=config.processor_width,
                heads=config.processor.heads,
                blocks=config.processor.blocks,
                fourier_width=config.processor.fourier_width,
                fourier_std=config.processor.fourier_std,
                positions=config.processor.positions,
                damping=config.processor.damping,
                modulator=Modulator(*told, seed) if config.told_channels else None,
                generator=generator,
            )
        self.decoder = Hierarchy()
        for depth, out_channels in enumerate((*config.decoder.channels, config.out_channels + config.joined_channels)):
            self.decoder.append(self._layer(config.decoder, depth, channels, out_channels, prior, generator))
            channels = out_channels
        self.detail = None
        if config.detail is not None or config.place is not None:
            read = None if config.detail is None else self._detail(config.detail, generator)
            place = config.place and Place(config.place, self.periodic, bool(config.node_types), generator)
            self.detail = DetailPath(read, place, config.joined_channels, config.out_channels, generator)
        self._let_queries_follow(generator)  # drawn last, so that all other weights are those of a model whose queries rest
        self._let_kernels_see(torch.Generator().manual_seed(seed ^ OTHER_DRAWS))

    def _let_queries_follow(self, generator: torch.Generator) -> None:
        config = self.config
        for layer, reach in zip(self.encoder, config.encoder.reach, strict=False):
            if reach:
                layer.offsets = QueryOffsets(layer.in_channels, config.dim, reach, config.kernel_width, generator)

    def _let_kernels_see(self, generator: torch.Generator) -> None:
        if not self.config.seen_by_kernels:
            return
        for layer in (*self.encoder, *self.decoder):
            if isinstance(layer.kernel, MLPKernel) and layer.kernel.scale is not None:
                layer.kernel.modulator = KernelModulator(self.config.parameters, self.config.kernel_width, generator)

    def seen_by_kernels(self, told: OnPoints | None) -> Float[Tensor, "batch parameter"] | None:
        """What the kernels' modulation sees of all that is told."""
        return told.parameters if told is not None and self.config.seen_by_kernels else None

    def _detail(self, detail: DetailConfig, generator: torch.Generator) -> CalmLayer:
        """The decoder's last layer but for what it reads and how far it sees."""
        sees = EncoderConfig.model_construct(
            channels=(), receptive_field=(detail.receptive_field,), temperature=(detail.temperature,)
        )
        return self._layer(sees, 0, self.config.given_channels, detail.channels, None, generator)

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
            displacements=config.displacements,
            dropout=config.dropout,
            memory_budget=config.memory_budget,
            spread=config.spread,
            mesh=prior if learned and stack.mesh_prior and stack.mesh_prior[depth] else None,
            generator=generator,
        )

    def differentiate(self) -> None:
        for layer in self.encoder:
            if layer.offsets is not None:
                layer.offsets.radii_count = True

    def reading(self) -> dict[str, Reading]:
        """Features join what the first layer and the detail path read; their maps before filters answer as many channels."""
        found = {"processor.modulator.expand.weight": Reading(0, STEP)}
        found |= {f"{name}.expand.weight": Reading(0, ("parameters",)) for name in self._kernel_modulators}
        beside = Reading(self.config.in_channels + len(self.config.own_scale), ("features",))
        for layer in ("encoder.0", "detail.read"):
            mixed = beside._replace(written=0, silent=self.config.kernel == "distance")
            found[f"{layer}.mix.weight"], found[f"{layer}.mix.bias"] = mixed, mixed._replace(axis=None)
            found[f"{layer}.kernel.filters"] = found[f"{layer}.offsets.filters"] = beside
            found[f"{layer}.kernel.log_temperature"] = beside._replace(axis=None, written=0)
        return found

    @property
    def _kernel_modulators(self) -> list[str]:
        """Their names."""
        return [name for name, part in self.named_modules() if isinstance(part, KernelModulator)]

    @property
    def outermost(self) -> tuple[str, ...]:
        last = f"decoder.{len(self.decoder) - 1}.kernel.filters"
        detail = ("detail.read.mix", "detail.read.kernel.filters") if self.config.detail else ()
        place = ("detail.place.expand",) if self.config.place else ()
        joined = ("detail.write",) if detail or place else ()
        offsets = () if self.encoder[0].offsets is None else ("encoder.0.offsets",)
        told = ("processor.modulator", *self._kernel_modulators) if self.config.told_channels else ()
        return ("encoder.0.mix", "encoder.0.kernel.filters", *offsets, *told, last, *detail, *place, *joined)

    def encode(
        self,
        values: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        neighbors: CalmNeighbors | None = None,
        features: Tensor | None = None,
        parameters: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Latent tokens z (batch, token, channel) of the values (batch, point, channel), and their positions p (token, dim).

        Where the queries of the encoder's last layer follow the state (`config.encoder.reach`), each sample has positions of
        its own: p is (batch, token, dim).

        Args:
            points: (point, dim), or (batch, point, dim) for one mesh per sample; unit coordinates.
            mask: (batch, point), True where a point is real; the others are never read.
            node_type: (point) or (batch, point), codes of `config.node_types`.
            features: (batch, point, feature), of the points.
            parameters: (batch, parameter), of a model whose kernels see them (`config.conditioned_kernels`), and of no other.
        """
        given = Inputs(values, points, mask=mask, node_type=node_type, features=features, parameters=parameters)
        if neighbors is not None:
            self._check_rest("neighbors")
        if not seen_through():
            self._check_state(given)
            self._check_unseen(parameters)
            _check_hierarchy(self.encoder, neighbors and neighbors.encoder, values, points)
        found = neighbors and neighbors.encoder
        return self.encoder.convolve(self.read(given), points, None, mask, found, self.seen_by_kernels(given))

    def advance(
        self,
        z: Float[Tensor, "batch token channel"],
        p: Float[Tensor, "*sample token dim"],
        num_steps: int | None = None,
        times: Sequence[float] | None = None,
        **driving: Unpack[Driving],
    ) -> Float[Tensor, "batch time token channel"]:
        """z itself, then the tokens after each of `num_steps` frames, or at each of the increasing `times` in frames.

        Args:
            driving: parameters (batch, parameter); signals (batch, knot, signal), linear in time between knots at their
                signal_times, (batch, knot) or (knot,) in frames, or frames 0, 1, 2, … without these.
        """
        times = frames(num_steps, times)
        given = Inputs(z, p, **driving)
        if not seen_through():
            check_conditions(given, self.config, self.checked_dtype(), ("parameters", "signals"), max(times, default=0.0))
        if self.processor is None:
            if times:
                raise InputError(
                    "num_steps",
                    expected="0",
                    got=str(len(times)),
                    fix="An autoencoder has no processor; it answers for frame 0.",
                )
            return z[:, None]
        return self.stepped(self.processor, z, p, times, Known.of(given))

    def stepped(
        self, processor: Processor, z: Tensor, p: Tensor, times: Sequence[float], known: Known
    ) -> Float[Tensor, "batch time token channel"]:
        """`advance` behind the door."""
        dynamics = processor.at(p)
        if self.config.told_channels:
            dynamics = dynamics.under(known)
        return dynamics.trajectory(z, times, self.config.integrator, self.config.substeps)

    def decode(
        self,
        zs: Tensor,
        p: Tensor,
        queries: Tensor,
        neighbors: CalmNeighbors | None = None,
        start: Inputs | None = None,
    ) -> Tensor:
        """Fields (batch, time, query, channel) of the tokens zs (batch, time, token, channel), all frames at once.

        Args:
            queries: (query, dim), or (batch, query, dim) for each sample's own; anywhere in the domain.
            start: the state that was encoded, with the features of its points, which a model with a detail path sees once
                more; one that is told boundary distances needs it too, and one whose kernels see parameters, with these.
        """
        if neighbors is not None:
            self._check_rest("neighbors")
        self._require_start(start)
        if not seen_through():
            self._check_latent(zs, p, queries)
            _check_hierarchy(self.decoder, neighbors and neighbors.decoder, zs, p, queries)
            self._check_start(start, zs)
        given = None
        if start is not None:
            told = {name: getattr(start, name) for name in ("mask", "node_type", "features", "parameters")}
            given = Frames(start.values[:, None], start.points, **told)
        return self._decoded(zs, p, queries, neighbors, given)

    def _decoded(
        self, zs: Tensor, p: Tensor, queries: Tensor, neighbors: CalmNeighbors | None, given: Frames | None
    ) -> Float[Tensor, "batch time query channel"]:
        """`decode` behind the door; given is one state for all frames, or one for each."""
        found = neighbors and neighbors.decoder
        decoded = self.decoder.convolve(zs, p, queries, None, found, self.seen_by_kernels(given))[0]
        u = decoded if self.detail is None else self._joined(self.detail, decoded, queries, neighbors, given)
        return u if self.own_scale is None or given is None else self.own_scale.put_on(u, given.values, given.mask)

    def _joined(
        self, detail: DetailPath, decoded: Tensor, queries: Tensor, neighbors: CalmNeighbors | None, given: Frames | None
    ) -> Tensor:
        """What the decoder's last layer says, with what joins it there."""
        seen = placed = None
        if detail.read is not None and given is not None:
            x = self.read(given)
            seen, _ = detail.read.convolve(x, given.points, queries, given.mask, neighbors and neighbors.detail)
        if detail.place is not None:
            known = (None,) * 3 if given is None else (given.points, given.mask, given.node_type)
            placed = detail.place(queries, *known, neighbors and neighbors.place)[:, None]
        return detail.joined(decoded, seen, placed)

    def neighbors(
        self,
        points: Tensor,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> CalmNeighbors:
        """The receptive fields of all layers for these points and queries (default: the points), to pass to encode and decode.

        They hold until the query points move: find them anew after every optimizer step. A model whose query points follow
        the state (`config.encoder.reach`) has none.

        Args:
            node_type: as in `encode`, for a model that is told boundary distances.
        """
        self._check_rest("neighbors")
        path = self.detail
        if not seen_through():
            lead = check_mesh(points, queries, mask, self.config.dim, self.checked_dtype())
            if node_type is not None or (path is not None and path.bounded):
                lead = lead or ((1,) if node_type is None else (*node_type.shape[:-1], 1)[:1])
                check_node_type(node_type, self.config.node_types, points.expand(*lead, *points.shape[-2:]), mask)
        real = _unmasked(points, mask)
        encoder = self.encoder.neighbors(real, None, mask)
        asked, (*_, last) = real if queries is None else queries, self.encoder
        decoder = self.decoder.neighbors(last.where(None), asked)
        detail = place = None
        if path is not None and path.read is not None:
            detail = path.read.neighbors(real, asked, mask)
        if path is not None and path.place is not None and path.bounded and node_type is not None:
            place = path.place.neighbors(asked, real, mask, node_type)
        return CalmNeighbors(encoder, decoder, detail, place)

    def bake(
        self,
        points: Tensor,
        queries: Tensor | None = None,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
    ) -> BakedCalm:
        """This model on one mesh for good, for fast inference; arguments as in `forward`."""
        self._check_rest("bake")
        lead = check_mesh(points, queries, mask, self.config.dim, self.checked_dtype())
        check_node_type(node_type, self.config.node_types, points.expand(*(lead or (1,)), *points.shape[-2:]), mask)
        return BakedCalm(self, points, queries, mask, node_type)

    def predicted_peak(self, num_points: int, batch: int, num_steps: int | None, *, own_meshes: bool = False) -> int:
        return predicted_peak(self, num_points, batch, num_steps, own_meshes=own_meshes)

    def query_points(self) -> list[OwnQueries]:
        """Of all layers but the decoder's last; where they rest, if they follow the state."""
        return [
            OwnQueries(f"{part} {depth + 1}", f"{part}.{depth}", layer.queries, isinstance(layer.queries, torch.nn.Parameter))
            for part, layers in (("encoder", self.encoder), ("decoder", self.decoder))
            for depth, layer in enumerate(layers)
            if layer.queries is not None
        ]

    def kernel_weights(self, points: Tensor, box: Box) -> list[LayerKernels]:
        return kernel_weights(self, points, box)

    def latent_shape(self) -> LatentShape:
        return LatentShape(self.config.encoder.num_queries[-1], self.config.latent_channels)

    def tokens(self, start: Inputs) -> tuple[Tensor, Tensor]:
        return self._encoded(start)

    def _encoded(self, start: Inputs, neighbors: CalmNeighbors | None = None) -> tuple[Tensor, Tensor]:
        state = (start.values, start.points, start.mask, start.node_type)
        return self.encode(*state, neighbors, start.features, self.seen_by_kernels(start))

    def fields_of_tokens(self, z: Tensor, positions: Tensor, times: Sequence[float], queries: Tensor, start: Inputs) -> Tensor:
        positions = positions.expand(len(z), -1, -1) if positions.ndim == 3 else positions
        start = expanded(start, len(z))
        zs = self.advance(z, positions, times=times, **start.driving)
        return self.decode(zs[:, 1:] if self.config.task == "steady" else zs, positions, queries, start=start)

    @property
    def memory_budget(self) -> int:
        """Bytes that each layer's convolution may hold beside its inputs and outputs."""
        return self.decoder[-1].memory_budget  # pyright: ignore[reportReturnType]

    @memory_budget.setter
    def memory_budget(self, budget: int) -> None:
        for _, layer in named_layers(self):
            layer.memory_budget = check_budget(budget)

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride] - it takes more by name
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
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """Frames 1 … num_steps, or those at `times`, at the queries: (batch, time, query, channel).

        A steady model gives its one field without num_steps, an autoencoder the reconstructed input. Where queries
        default to the points, masked ones are answered with 0.
        """
        num_steps = self.checked_steps(num_steps, times)
        start = Inputs(values, points, mask=mask, node_type=node_type, **conditions)
        z, p = self._encoded(start, neighbors)
        check_prescribed(start, self.config)
        zs = self.advance(z, p, num_steps, times, **start.driving)
        if self.config.task != "autoencoder":
            zs = zs[:, 1:]
        if queries is not None:
            return self.decode(zs, p, queries, neighbors, start)
        u = self.decode(zs, p, _unmasked(points, mask), neighbors, start)
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)

    def rollout(
        self,
        values: Tensor,
        points: Tensor,
        times: Sequence[float],
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Tensor:
        """The reconstructed state, then the frames at `times`: all decoded at once."""
        start = Inputs(values, points, mask=mask, node_type=node_type, **conditions)
        z, p = self._encoded(start)
        check_prescribed(start, self.config)
        return self.at_points(self.advance(z, p, times=times, **start.driving), p, start)

    def following(
        self,
        states: Tensor,
        points: Tensor,
        mask: Tensor | None = None,
        node_type: Tensor | None = None,
        **conditions: Unpack[Conditions],
    ) -> Float[Tensor, "batch time point channel"]:
        """One latent step from each of the states, all encoded and decoded at once."""
        if not self.config.abilities.frame_to_frame:
            return super().following(states, points, mask, node_type, **conditions)
        given = Frames(states, points, mask, node_type, **conditions)
        each, times = given.each, states.shape[:2]
        if self.config.encoder.follows_state:  # every frame has query points of its own
            return self(each.values, each.points, 1, **each.told).unflatten(0, times).squeeze(2)
        z, p = self.latents(given)
        zs = self.advance(z.flatten(0, 1), p, 1, **each.driving)[:, 1].unflatten(0, times)
        u = self._decoded(zs, p, _unmasked(points, mask), None, given)
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)

    def training_answer(self, frames: Frames, times: Sequence[float]) -> Answer:
        """The rollout; with `consistency`, all frames are encoded at once, and how far its steps are from them is added."""
        weight = self.config.consistency
        if not weight or not len(times):
            return super().training_answer(frames, times)
        latents, p = self.latents(frames)
        start = frames.start
        zs = self.advance(latents[:, 0], p, times=times, **start.driving)
        return Answer(self.at_points(zs, p, start), weight * latent_errors(zs, latents))

    def start_by(self, given: Inputs) -> None:
        start_at_unit_variance(self, given)

    def part(self, stage: str) -> torch.nn.Module:
        return part_of(self, stage) if self.config.staged else super().part(stage)

    def stage_losses(self, stage: str, frames: Frames, draws: Draws) -> Tensor:
        return losses_of(self, stage, frames) if self.config.staged else super().stage_losses(stage, frames, draws)

    def latents(self, frames: Frames) -> tuple[Tensor, Tensor]:
        """Tokens of all frames at once, (batch, time, token, channel), and their positions.

        Where queries follow the state, those of the first frame hold for all of a sample's frames, as they do in a rollout.
        """
        points, mask = frames.points, frames.mask
        if not seen_through():
            self._check_state(frames.start)
        return self.encoder.convolve(self.read(frames), points, None, mask, None, self.seen_by_kernels(frames))

    def at_points(self, zs: Tensor, p: Tensor, start: Inputs) -> Tensor:
        """The tokens zs (batch, time, token, channel), decoded at the points that the start is on; masked ones answer 0."""
        mask = start.mask
        u = self.decode(zs, p, _unmasked(start.points, mask), start=start)
        return u if mask is None else u.masked_fill(~mask[:, None, :, None], 0.0)

    def read(self, given: Inputs | Frames) -> Tensor:
        """What the encoder is given of values (batch, point, channel) or (batch, time, point, channel), and beside them."""
        values, node_type, features = given.values, given.node_type, given.features
        parts = [values if self.own_scale is None else self.own_scale.taken_off(values, given.mask)]
        if features is not None:
            parts.append(features if values.ndim == 3 else features[:, None])
        if self.node_types is not None and node_type is not None:
            kinds = self.node_types(node_type)
            parts.append(kinds[:, None] if kinds.ndim == 3 < values.ndim else kinds)
        if len(parts) == 1:
            return parts[0]
        return torch.cat([part.expand(*values.shape[:-1], -1) for part in parts], dim=-1)

    def checked_steps(self, num_steps: int | None, times: Sequence[float] | None) -> int | None:
        only = {"steady": 1, "autoencoder": 0}.get(self.config.task)
        if only is None:
            if num_steps == 0:
                raise InputError(
                    "num_steps", expected="at least 1", got="0", fix="Use encode and decode to reconstruct the initial state."
                )
            return num_steps
        check_timeless(self.config.task, only, num_steps, times)
        return only

    def _check_state(self, given: Inputs) -> None:
        config, dtype, mask = self.config, self.checked_dtype(), given.mask
        check_state(given.values, given.points, mask, config.dim, config.in_channels, dtype)
        check_node_type(given.node_type, config.node_types, given.values, mask)
        warn_outside_box(self._warned, "points", given.points, self.periodic, mask)
        check_conditions(given, config, dtype, ("features", "parameters") if config.seen_by_kernels else ("features",))

    def _check_unseen(self, parameters: Tensor | None) -> None:
        if parameters is not None and not self.config.seen_by_kernels:
            raise InputError(
                "parameters",
                expected="none, since the kernels of this model see none (config.conditioned_kernels)",
                got="some",
                fix="Give them to advance, or call the model itself.",
            )

    def _check_rest(self, asked: Literal["bake", "neighbors"]) -> None:
        if self.config.encoder.follows_state:
            what = {"bake": "bake", "neighbors": "know its receptive fields before the state"}[asked]
            fix = {"bake": "Use solve of the surrogate, or the model itself", "neighbors": "Call it without neighbors"}[asked]
            raise self.refusal(asked, what, f"{fix}: its query points follow the state, by encoder.reach.")

    def _needs_start(self) -> bool:
        joined = self.detail is not None and (self.detail.read is not None or self.detail.bounded)
        return joined or self.own_scale is not None or bool(self.config.seen_by_kernels)

    def _require_start(self, start: Inputs | None) -> None:
        if start is None and self._needs_start():
            of_path = "has a detail path (config.detail)"
            of_place = "is told how far the boundary is (config.place with node_types)"
            of_scale = "puts the state's own scale on its answer (config.own_scale)"
            of_kernels = "has kernels that see its parameters (config.conditioned_kernels)"
            of_state = of_path if self.config.detail else of_scale if self.config.own_scale else of_place
            why = of_kernels if self.config.seen_by_kernels else of_state
            raise InputError(
                "start",
                expected=f"the state that was encoded, since this model {why}",
                got="none",
                fix="Pass start=cp.Inputs(values, points), or call the model itself.",
            )

    def _check_start(self, start: Inputs | None, zs: Tensor) -> None:
        if start is None or not self._needs_start():
            return
        self._check_state(start)
        if len(start.values) != len(zs):
            raise InputError(
                "start",
                expected=f"a state for each of the {len(zs)} samples of zs",
                got=str(len(start.values)),
                fix="Pass the states that were encoded to these tokens.",
            )

    def _check_latent(self, zs: Tensor, p: Tensor, queries: Tensor) -> None:
        dtype = self.checked_dtype()
        check_coordinates("p", p, self.config.dim, dtype)
        check_one_per_sample("p", p, tuple(zs.shape[:1]), "zs")
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
