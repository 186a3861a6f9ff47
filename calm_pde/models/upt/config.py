"""All sizes and switches of a UPT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from calm_pde.config import Config
from calm_pde.geometry import periodic_axes
from calm_pde.models.contract import Abilities, Mesh, ModelConfig
from calm_pde.models.practice import Practice
from calm_pde.models.upt.practice import PRACTICE
from calm_pde.models.upt.presets import PRESETS

if TYPE_CHECKING:
    from calm_pde.models.upt.model import Upt


class SupernodesConfig(Config):
    """Points that read their neighborhoods before the latent tokens read them.

    Args:
        count: how many of each sample; all points where a mesh has fewer.
        radius: of a neighborhood, in units of the box.
        most_neighbors: of a neighborhood with more points, its nearest.
        feature_width: of what stands at the points, and of the messages.
        width, heads, blocks: of the transformer over the supernodes.
    """

    count: PositiveInt
    radius: PositiveFloat
    most_neighbors: PositiveInt = 32
    feature_width: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    blocks: NonNegativeInt


class UptConfig(ModelConfig):
    """All sizes and switches of a UPT; `preset` has the published ones, `build` makes the model.

    Args:
        task: `rollout` in time, or `steady`: features to one field, through the latent transformer once.
        supernodes: None where the latent tokens read all points themselves (the published steady form).
        tokens, width: of the latent state.
        heads: of every attention but the supernodes'.
        blocks: of the transformer that takes a latent state one frame further.
        decoder_blocks: of the transformer in front of the answers.
        query_expansion: how many times wider than the latent state the hidden layers of a query's MLP are.
        told_expansion: how many times wider than the latent state the vector of all that a step is told is.
        dropped_paths: the share of samples that each half of a step's block is left out for in training.
        inverse_encoding: weight in the loss of the error of the decoded latent state of frame 0.
        inverse_decoding: weight in the loss of ‖e(û_t) − z_t‖/‖z_t‖, the mean over t ≥ 1, e(û_t) the answers, encoded again.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input features.
        memory_budget: bytes that the latent steps, and answers at queries, may hold at once; beyond it they are computed again.
    """

    title: ClassVar[str] = "UPT"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE
    unwritten: ClassVar[tuple[str, ...]] = (*ModelConfig.unwritten, "task")

    task: Literal["rollout", "steady"] = "rollout"
    supernodes: SupernodesConfig | None = None
    tokens: PositiveInt
    width: PositiveInt
    heads: PositiveInt
    blocks: PositiveInt
    decoder_blocks: NonNegativeInt = 0
    query_expansion: PositiveInt = 4
    told_expansion: PositiveInt = 4
    dropped_paths: Annotated[float, Field(ge=0, lt=1)] = 0.0
    inverse_encoding: NonNegativeFloat = 0.0
    inverse_decoding: NonNegativeFloat = 0.0
    node_type_width: PositiveInt = 4
    memory_budget: Annotated[int, Field(ge=2**10)] = 256 * 2**20

    @model_validator(mode="after")
    def _parts_fit(self) -> UptConfig:
        periodic_axes(self.periodic, self.dim)
        nodes = self.supernodes
        if self.width % self.heads:
            raise ValueError(f"heads must divide the width {self.width}, got {self.heads}")
        if nodes is not None and nodes.width % nodes.heads:
            raise ValueError(f"supernodes.heads must divide their width {nodes.width}, got {nodes.heads}")
        for name, width in (("width", self.width), ("supernodes.feature_width", nodes and nodes.feature_width)):
            if width is not None and width < 2 * self.dim:
                raise ValueError(f"{name} must be at least {2 * self.dim}, a sine and a cosine of each axis, got {width}")
        if len(set(self.node_types)) != len(self.node_types):
            raise ValueError(f"node_types must differ from one another, got {self.node_types}")
        return self

    @model_validator(mode="after")
    def _frames_follow_frames(self) -> UptConfig:
        if self.task == "rollout" and self.in_channels != self.out_channels:
            raise ValueError(f"a frame follows a frame: out_channels must be {self.in_channels}, got {self.out_channels}")
        for name in ("inverse_encoding", "inverse_decoding"):
            if self.task == "steady" and getattr(self, name):
                raise ValueError(f"{name} is of a state that is answered too; leave it out where task is 'steady'")
        return self

    @property
    def abilities(self) -> Abilities:
        return Abilities(bfloat16_weights=True, conditions=True, frame_to_frame=self.task == "rollout")

    @property
    def given_channels(self) -> int:
        """What is read at every point: values, features, what kind of point it is."""
        return self.in_channels + self.features + (self.node_type_width if self.node_types else 0)

    @property
    def told_width(self) -> int:
        """Of what is told, as the blocks are given it; 0 where that is nothing."""
        return self.told_expansion * self.width if self.told_channels else 0

    def latent_numbers(self, num_points: int) -> int:
        return self.tokens * self.width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Upt:
        from calm_pde.models.upt.model import Upt

        return Upt(self, seed)
