"""All sizes and switches of a CALM-PDE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from calm_pde.config import Config, Repeats
from calm_pde.engine.kernel_features import Displacements, Weighting
from calm_pde.engine.plan import DEFAULT_BUDGET
from calm_pde.geometry import periodic_axes
from calm_pde.models.calm.learning.beside import STAGES
from calm_pde.models.calm.practice import PRACTICE
from calm_pde.models.calm.presets import PRESETS
from calm_pde.models.calm.processor.damping import Damping
from calm_pde.models.calm.processor.processor import Positions
from calm_pde.models.contract import CONDITIONS, Abilities, Mesh, ModelConfig
from calm_pde.models.practice import Practice
from calm_pde.nn.query_points import Spread

if TYPE_CHECKING:
    from calm_pde.models.calm.model import CalmPDE

Percentile = Annotated[float, Field(gt=0, le=1)]
Reach = Annotated[float, Field(ge=0, le=1)]


class EncoderConfig(Config):
    """One entry per layer, from the input to the latent tokens.

    Args:
        mesh_prior: which layers' queries start as a random sample of the mesh; empty for none.
        reach: how far the queries of each layer follow the state and geometry of a sample, along each axis, as a share in
            [0, 1] of their receptive field's radius, see `QueryOffsets`; 0 for queries that rest, empty for none that move. Of
            the encoder alone. A model whose queries move has no receptive fields that are known before the state: it
            neither bakes nor finds `neighbors` beforehand.
    """

    channels: tuple[PositiveInt, ...]
    num_queries: tuple[PositiveInt, ...]
    receptive_field: tuple[Percentile, ...]
    temperature: tuple[PositiveFloat, ...]
    mesh_prior: tuple[bool, ...] = ()
    reach: tuple[Reach, ...] = ()

    _external_layers = 0

    @model_validator(mode="after")
    def _one_entry_per_layer(self) -> EncoderConfig:
        learned = len(self.channels)
        wanted = {
            "num_queries": learned,
            "receptive_field": learned + self._external_layers,
            "temperature": learned + self._external_layers,
            "mesh_prior": learned if self.mesh_prior else 0,
            "reach": learned if self.reach else 0,
        }
        for name, count in wanted.items():
            if len(getattr(self, name)) != count:
                raise ValueError(f"{name} needs {count} entries beside {learned} channels, got {len(getattr(self, name))}")
        if learned + self._external_layers == 0:
            raise ValueError("at least one layer is needed, got no channels")
        return self

    @property
    def follows_state(self) -> bool:
        """Whether queries of any layer follow the state."""
        return any(self.reach)


class DecoderConfig(EncoderConfig):
    """One entry per layer; the last, external layer has a receptive field and a temperature only."""

    _external_layers = 1

    @model_validator(mode="before")
    @classmethod
    def _queries_rest(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("reach"):
            raise ValueError(f"reach is for the encoder, whose queries see the state; leave it out, got {data['reach']!r}")
        return data


class DetailConfig(Config):
    """The path past the bottleneck, see `DetailPath`: what a query sees of the given state, in so many channels."""

    channels: PositiveInt = 8
    receptive_field: Percentile
    temperature: PositiveFloat = 0.3


class PlaceConfig(Config):
    """What a query's place says at the decoder's end, see `Place`; with a detail path in as many channels, as one term.

    Args:
        scale: distances far below it are alike, distances beyond it count by their logarithm; in units of the box.
    """

    channels: PositiveInt = 8
    width: PositiveInt = 32
    fourier_width: Annotated[int, Field(ge=2, multiple_of=2)] = 32
    fourier_std: PositiveFloat = 2.0
    scale: Annotated[float, Field(ge=1e-6)] = 0.01


class ProcessorConfig(Config):
    """The transformer over latent tokens; `width` defaults to twice the latent channels.

    Args:
        positions: how tokens know where they are: `absolute` (the paper), by Fourier features of their positions; `relative`,
            by what attention adds for the displacement of two tokens, alike everywhere; or `both`. See `RelativePositions`.
        damping: dz/dt = ψ(z) − Az with a learned symmetric A ⪰ 0 for long rollouts, one rate per channel or `full`, see
            `DiagonalDamping`; none in the paper.
    """

    width: PositiveInt | None = None
    heads: PositiveInt = 8
    blocks: PositiveInt = 2
    fourier_width: Annotated[int, Field(ge=2, multiple_of=2)] = 64
    fourier_std: PositiveFloat = 6.0
    positions: Positions = "absolute"
    damping: Damping = "none"


class CalmConfig(ModelConfig):
    """All sizes and switches of a CALM-PDE; `preset` has the paper's, `build` makes the model.

    Args:
        task: `rollout` in time; `steady` maps input features to one field by one residual step; `autoencoder` has no
            processor and reconstructs its input.
        detail: a path past the bottleneck for what is too fine for it; none in the paper.
        place: the decoder's end is told where a query lies, and how far from walls and boundary points; not so in the paper.
        own_scale: groups of channels that are encoded relative to their own size in a sample's state, one scale a group, see
            `OwnScale`: those of a velocity together, others alone. Empty in the paper.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input channels.
        spread: how the query points start, independent draws (the paper) or `even`, see `CalmLayer`.
        start: of filters and last maps: `drawn` (the paper), or scaled to `unit_variance` of every layer on the training data.
        staged: trained part by part: encoder and decoder on single frames, then the processor between the tokens of a frozen
            encoder, then everything as without stages.
        consistency: weight in the loss of how far the tokens that are stepped are from those of the true frames, the mean
            over t ≥ 1 of ‖z_t − e(u_t)‖/‖e(u_t)‖.
        learnable_queries: False keeps the query points where they start.
        kernel, weighting, modulation: the paper's ablations, see `CalmLayer`.
        conditioned_kernels: the modulation of the kernels of encoder and decoder sees the parameters, where there are some, see
            `KernelModulator`; every sample then has kernels of its own, which takes memory and time.
        displacements: what the MLP kernels see, in units of the box (the paper) or of each receptive field's radius.
        memory_budget: bytes that each layer's convolution may hold beside its inputs and outputs.
    """

    title: ClassVar[str] = "CALM-PDE"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE
    unwritten: ClassVar[tuple[str, ...]] = (*CONDITIONS, "conditioned_kernels")

    encoder: EncoderConfig
    decoder: DecoderConfig
    processor: ProcessorConfig = ProcessorConfig()
    detail: DetailConfig | None = None
    place: PlaceConfig | None = None
    task: Literal["rollout", "steady", "autoencoder"] = "rollout"
    own_scale: tuple[tuple[NonNegativeInt, ...], ...] = ()
    node_type_width: PositiveInt = 4
    integrator: Literal["euler", "heun", "rk4"] = "euler"
    substeps: Repeats = 1
    spread: Spread = "random"
    learnable_queries: bool = True
    modulation: bool = True
    conditioned_kernels: bool = False
    weighting: Weighting = "softmax"
    kernel: Literal["mlp", "distance"] = "mlp"
    kernel_width: PositiveInt = 32
    fourier_width: Annotated[int, Field(ge=2, multiple_of=2)] = 32
    fourier_std: PositiveFloat = 6.0
    displacements: Displacements = "absolute"
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    memory_budget: Annotated[int, Field(ge=2**20)] = DEFAULT_BUDGET
    start: Literal["drawn", "unit_variance"] = "drawn"
    staged: bool = False
    consistency: Annotated[float, Field(ge=0)] = 0.0

    @property
    def latent_channels(self) -> int:
        return self.encoder.channels[-1]

    @property
    def given_channels(self) -> int:
        """Of what the encoder is given: the state, its scales, features of its points, what these are."""
        kinds = self.node_type_width if self.node_types else 0
        return self.in_channels + len(self.own_scale) + self.features + kinds

    @property
    def joined_channels(self) -> int:
        """Of what the decoder's last layer says beside the answer, for what joins it there."""
        joining = [part.channels for part in (self.detail, self.place) if part is not None]
        return joining[0] if joining else 0

    @property
    def seen_by_kernels(self) -> int:
        """How many parameters kernels see."""
        return self.parameters if self.conditioned_kernels else 0

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
        if self.kernel == "distance" and self.displacements == "relative":
            raise ValueError("displacements: the distance kernel sees relative distances alone; leave it out, got 'relative'")
        if self.kernel == "distance" and self.start == "unit_variance":
            raise ValueError("start: the distance kernel has no filters to scale; leave it out, got 'unit_variance'")
        if self.conditioned_kernels and (self.kernel == "distance" or not self.modulation):
            without = "the distance kernel has none" if self.kernel == "distance" else "modulation is False"
            raise ValueError(
                f"conditioned_kernels: it is the kernels' modulation that sees parameters, and {without}; leave it out"
            )
        if self.detail is not None and self.task == "autoencoder":
            raise ValueError("detail: an autoencoder would pass its input by the bottleneck that it learns; leave detail out")
        if self.detail is not None and self.staged:
            raise ValueError("staged: its first stage would learn to pass frames by the bottleneck; leave out detail or staged")
        if self.detail is not None and self.place is not None and self.detail.channels != self.place.channels:
            raise ValueError(
                f"place.channels: what is told joins the detail path's {self.detail.channels} (detail.channels) as one term; "
                f"give as many, got {self.place.channels}"
            )
        if len(set(self.node_types)) != len(self.node_types):
            raise ValueError(f"node_types must differ from one another, got {self.node_types}")
        return self

    @model_validator(mode="after")
    def _true_frames_are_encoded(self) -> CalmConfig:
        for name in ("staged", "consistency"):
            if getattr(self, name) and self.task != "rollout":
                raise ValueError(f"{name} is for steps in time; leave it out where task is {self.task!r}")
            if getattr(self, name) and self.in_channels != self.out_channels:
                raise ValueError(
                    f"{name} encodes true frames: out_channels must be {self.in_channels}, got {self.out_channels}"
                )
        return self

    @model_validator(mode="after")
    def _scales_fit(self) -> CalmConfig:
        channels = [channel for group in self.own_scale for channel in group]
        if not self.own_scale:
            return self
        if len(set(channels)) < len(channels) or not all(self.own_scale) or max(channels) >= self.in_channels:
            raise ValueError(
                f"own_scale: expected groups of the {self.in_channels} channels, counted from 0, each in one group at most, "
                f"as [[0, 1], [2]], got {[list(group) for group in self.own_scale]}"
            )
        if self.task == "steady" or self.in_channels != self.out_channels:
            raise ValueError("own_scale: answers get the scale of the same channel of the state; leave it out of other tasks")
        if self.staged or self.consistency:
            raise ValueError(
                "own_scale: staged and consistency compare tokens of frames with scales of their own; leave one out"
            )
        return self

    @property
    def zero_stays(self) -> bool:
        return bool(self.own_scale)

    @property
    def abilities(self) -> Abilities:
        return Abilities(
            any_times=self.task == "rollout",
            bakes=not self.encoder.follows_state,
            reconstructs=True,
            shows_inside=True,
            bfloat16_weights=True,
            conditions=True,
            frame_to_frame=self.task == "rollout" and self.in_channels == self.out_channels,
            starts_by_data=self.start == "unit_variance",
            stages=STAGES if self.staged else (),
        )

    def latent_numbers(self, num_points: int) -> int:
        return self.encoder.num_queries[-1] * self.latent_channels

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> CalmPDE:
        from calm_pde.models.calm.model import CalmPDE

        return CalmPDE(self, mesh=mesh, seed=seed)
