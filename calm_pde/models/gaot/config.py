"""All sizes and switches of a GAOT."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from calm_pde.config import Repeats
from calm_pde.models.contract import Mesh
from calm_pde.models.gaot.practice import PRACTICE
from calm_pde.models.gaot.presets import PRESETS
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import StepwiseConfig

if TYPE_CHECKING:
    from calm_pde.models.contract import Abilities
    from calm_pde.models.gaot.model import Gaot


class GaotConfig(StepwiseConfig):
    """All sizes and switches of a GAOT; `preset` has ours, `build` makes the model.

    Args:
        width: of what stands at points and tokens.
        latent_size: tokens along each axis, at the centers of as many cells of the box.
        radius: of a neighborhood at scale 1, in units of the box.
        scales: multiples of the radius at which tokens see points, and queries see tokens.
        positions: how a token and a point near it are told to kernels: `relative`, by the displacement in units of the radius
            (ours), or `absolute`, by both positions (published). See `PairVectors`.
        attention: the logit of a pair: the cosine of its two vectors, or the product of learned `projected` ones.
        attention_width: of the learned ones.
        kernel_width, kernel_layers: of the MLP that is the kernel, its hidden layers.
        statistics_width: of the hidden layer that neighborhoods' statistics go through, and of that which weighs scales.
        scale_weights: scales are averaged (`mean`), or weighed by a softmax of an MLP of the place (`learned`).
        patch: tokens along each axis that are one to the transformer.
        processor_width, heads, expansion: of the transformer.
        depth: blocks in each of its halves; one more stands between them.
        answer: what the network gives: `derivative`, û(t + τ) = u(t) + τ·σ·net, with σ the deviation of differences between
            frames in training; `residual`, u(t) + σ·net; or the `state` itself.
        stride: frames of a step of a rollout; None for one step of whatever length from the given state.
        horizon: frames in which the network is told a lead time as 1.
        trained_on: `pairs` of the given state and each later one, one step of its own length each (published); or the
            `rollout` that is answered in use.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input features.
        memory_budget: bytes that sums over neighborhoods, and the transformer, may hold at once; beyond it they are computed
            in parts, and again.
    """

    title: ClassVar[str] = "GAOT"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE

    width: PositiveInt = 64
    latent_size: PositiveInt | tuple[PositiveInt, ...] = 64
    radius: PositiveFloat = 0.033
    scales: Annotated[tuple[PositiveFloat, ...], Field(min_length=1)] = (0.5, 1.0, 2.0)
    positions: Literal["relative", "absolute"] = "relative"
    attention: Literal["cosine", "projected"] = "cosine"
    attention_width: PositiveInt = 64
    kernel_width: PositiveInt = 64
    kernel_layers: Repeats = 3
    statistics_width: PositiveInt = 64
    scale_weights: Literal["mean", "learned"] = "mean"
    patch: PositiveInt = 2
    processor_width: PositiveInt = 256
    heads: PositiveInt = 8
    expansion: PositiveInt = 4
    depth: PositiveInt = 2
    answer: Literal["derivative", "residual", "state"] = "derivative"
    stride: PositiveInt | None = 1
    horizon: PositiveFloat = 10.0
    trained_on: Literal["pairs", "rollout"] = "pairs"
    node_type_width: PositiveInt = 4
    memory_budget: Annotated[int, Field(ge=2**10)] = 256 * 2**20

    @property
    def grid(self) -> tuple[int, ...]:
        """Tokens along each axis."""
        return self.latent_size if isinstance(self.latent_size, tuple) else (self.latent_size,) * self.dim

    @model_validator(mode="after")
    def _parts_fit(self) -> GaotConfig:
        if len(self.grid) != self.dim:
            raise ValueError(f"latent_size needs one number, or {self.dim} of them, got {self.latent_size}")
        if any(size % self.patch for size in self.grid):
            raise ValueError(f"patch must divide the {self.grid} tokens along each axis, got {self.patch}")
        if self.processor_width % self.heads:
            raise ValueError(f"heads must divide processor_width {self.processor_width}, got {self.heads}")
        if self.processor_width < 2 * self.dim:
            raise ValueError(f"processor_width must be at least {2 * self.dim}, a sine and a cosine of each axis")
        return self

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(any_times=True, conditions=True, gathers=True)

    @property
    def read_channels(self) -> int:
        """Of what is lifted at every point: the state and what stands beside it, the lead time, what kind of point it is."""
        return self.given_channels + 1 + (self.node_type_width if self.node_types else 0)

    def latent_numbers(self, num_points: int) -> int:
        tokens = self.width
        for size in self.grid:
            tokens *= size
        return tokens

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> Gaot:
        from calm_pde.models.gaot.model import Gaot

        return Gaot(self, seed)
