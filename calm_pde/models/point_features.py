"""What a point model reads of its mesh beside the values: positions, and the learned meaning of each kind of point.

And the models that work at the points alone, for which that is all.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, NamedTuple

import torch
from pydantic import PositiveInt, model_validator
from torch import nn

from calm_pde.errors import InputError
from calm_pde.models.contract import Abilities, Reading
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.types import Bool, Float, Int, Tensor


def shown(
    points: Float[Tensor, "*sample point dim"], mask: Bool[Tensor, "batch point"] | None
) -> Float[Tensor, "cloud point dim"]:
    """The points of each distinct mesh; those that are masked (in all samples of a shared mesh) are moved to the origin."""
    clouds = points if points.ndim == 3 else points[None]
    if mask is None:
        return clouds
    seen = mask if points.ndim == 3 else mask.any(dim=0)[None]
    return clouds.masked_fill(~seen[..., None], 0.0)


def joined(
    states: Float[Tensor, "batch time point given"], known: Float[Tensor, "_ 1 point known"], mask: Tensor | None
) -> Float[Tensor, "batch time point feature"]:
    """The states, zero where points are masked, ‖ what is known at the points of each mesh."""
    states = states.to(known.dtype)  # under autocast an answer that comes back is narrow
    if mask is not None:
        states = states.masked_fill(~mask[:, None, :, None], 0.0)
    return torch.cat([states, known.expand(*states.shape[:3], -1)], dim=-1)


class OneHot(nn.Module):
    """1 at a point's own code among those known, 0 at the others; without codes, nothing."""

    codes: Tensor

    def __init__(self, codes: tuple[int, ...]) -> None:
        super().__init__()
        self.width = len(codes)
        self.register_buffer("codes", torch.tensor(codes, dtype=torch.int64), persistent=False)

    def forward(
        self, points: Float[Tensor, "*sample point dim"], node_type: Int[Tensor, "*sample_ point"] | None
    ) -> Float[Tensor, "_ 1 point kind"]:
        """Of the points of each mesh, or of all samples; what a masked point gets does not matter."""
        if node_type is None:
            return points.new_zeros(1, 1, points.shape[-2], 0)
        known = (node_type[..., None] == self.codes).to(points.dtype)
        return (known if known.ndim == 3 else known[None])[:, None]


class NodeTypes(nn.Module):
    """A learned vector for each known code, drawn from N(0, 1); without codes, none."""

    codes: Tensor

    def __init__(self, codes: tuple[int, ...], width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.width = width if codes else 0
        self.register_buffer("codes", torch.tensor(codes, dtype=torch.int64), persistent=False)
        if codes:
            self.weight = nn.Parameter(torch.randn(len(codes), width, generator=generator))

    def forward(self, node_type: Int[Tensor, "*sample point"]) -> Float[Tensor, "*sample point feature"]:
        """The vector of each point's kind; what a masked point gets does not matter."""
        return self.weight[(node_type[..., None] == self.codes).to(torch.int64).argmax(dim=-1)]

    def beside(
        self, positions: Float[Tensor, "cloud point dim"], node_type: Int[Tensor, "*sample point"] | None
    ) -> Float[Tensor, "_ point feature"]:
        """Positions ‖ vectors of the points' kinds."""
        if not self.width or node_type is None:
            return positions
        vectors = self(node_type if node_type.ndim == 2 else node_type[None])
        samples = max(len(positions), len(vectors))
        return torch.cat([part.expand(samples, -1, -1) for part in (positions, vectors)], dim=-1)


class PointConfig(StepwiseConfig):
    """The configuration of a model that works at its points alone, in time or on steady problems.

    Args:
        blocks: attention and MLP, one after the other.
        expansion: how many times wider each MLP is inside.
        coordinates: whether positions stand beside the values; where these are the coordinates already, they need not.
        node_type_width: each code of `node_types` gets a learned embedding of this width beside the input features.
    """

    task: Literal["rollout", "steady"] = "rollout"
    width: PositiveInt
    blocks: PositiveInt
    heads: PositiveInt = 8
    expansion: PositiveInt = 1
    coordinates: bool = True
    node_type_width: PositiveInt = 4

    @model_validator(mode="after")
    def _heads_fit(self) -> PointConfig:
        if self.width % self.heads:
            raise ValueError(f"heads must divide the width {self.width}, got {self.heads}")
        return self

    @property
    def known_channels(self) -> int:
        """What is known at each point beside the values and what a model is told."""
        return (self.dim if self.coordinates else 0) + (self.node_type_width if self.node_types else 0)

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(free_queries=False, conditions=True)

    def latent_numbers(self, num_points: int) -> int:
        return num_points * self.width


class PointGeometry(NamedTuple):
    """What is known at the points, which of them are real, and what else a network needs of a mesh."""

    known: Float[Tensor, "#batch 1 point channel"]
    mask: Bool[Tensor, "batch point"] | None
    place: Any = None


class PointModel(Stepwise):
    """u(t + 1) = u(t) + f(u(t) ‖ p ‖ kind) with f a map of all points at once; of a steady problem f(features ‖ p ‖ kind)."""

    config: PointConfig

    def __init__(self, config: PointConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        generator = torch.Generator().manual_seed(seed)
        self.node_types = NodeTypes(config.node_types, config.node_type_width, generator)
        self.network = self.build_network(config.given_channels + config.known_channels, generator)

    @abstractmethod
    def build_network(self, given: int, generator: torch.Generator) -> nn.Module:
        """f of so many features, with an `embed` that reads them and a `head` that answers."""

    def reading(self) -> dict[str, Reading]:
        return {"network.embed.expand.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("network.embed.expand", "network.head")

    def answer(
        self, features: Float[Tensor, "row point in"], mask: Bool[Tensor, "row point"] | None, place: Any
    ) -> Float[Tensor, "row point out"]:
        """f of each row: of one frame of one sample, of which as many as there are follow one another."""
        return self.network(features, mask)

    def place(self, points: Float[Tensor, "cloud point dim"], mask: Bool[Tensor, "batch point"] | None) -> Any:
        """What f needs of the mesh beside that."""

    def geometry(self, points: Tensor, mask: Tensor | None, node_type: Tensor | None, queries: Tensor | None) -> PointGeometry:
        if queries is not None:
            raise InputError(
                "queries",
                expected=f"none, since {self.config.title} answers at its points only",
                got=f"{queries.shape[-2]} of them",
                fix="Leave queries out and interpolate, or use a model that answers anywhere (calm, geo_fno).",
            )
        points = shown(points, mask)
        positions = points if self.config.coordinates else points[..., :0]
        return PointGeometry(self.node_types.beside(positions, node_type)[:, None], mask, self.place(points, mask))

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: PointGeometry
    ) -> Float[Tensor, "batch time point channel"]:
        features = joined(states, geometry.known, geometry.mask)
        mask = None if geometry.mask is None else geometry.mask.repeat_interleave(states.shape[1], dim=0)
        found = self.answer(features.flatten(0, 1), mask, geometry.place).unflatten(0, states.shape[:2])
        return found if self.config.task == "steady" else states[..., : self.config.out_channels] + found


_STEADY: dict[str, Any] = {"dim": 2, "task": "steady", "in_channels": 2, "out_channels": 1, "coordinates": False}
_PROBLEMS: dict[str, dict[str, Any]] = {
    "steady_airfoil": _STEADY,
    "elasticity": _STEADY,
    "navier_stokes_2d": {"dim": 2, "periodic": True, "in_channels": 1, "out_channels": 1},
    "airfoil_2d": {"dim": 2, "in_channels": 4, "out_channels": 4},
    "cylinder_2d": {"dim": 2, "in_channels": 3, "out_channels": 3, "node_types": (0, 4, 5, 6)},
}
"""What the models at the points alone are sized for; what they are given on steady problems are the coordinates."""


def point_presets(wide: dict[str, Any], small: dict[str, Any], **own: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The published sizes, `wide` on all problems but for what is a problem's `own`, and their `small` twins."""
    presets = {name: problem | wide | own.get(name, {}) for name, problem in _PROBLEMS.items()}
    presets |= {f"{name}_small": size | small for name, size in presets.items()}
    presets["steady_airfoil_small"] |= {"coordinates": True}  # normalized point by point, its data tell no place
    return presets
