"""MeshGraphNets: messages along the edges of a mesh give the difference to the next frame (Pfaff et al., 2021)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, NamedTuple

import torch
from pydantic import Field, PositiveInt

from calm_pde.errors import InputError
from calm_pde.geometry import periodic_axes
from calm_pde.models.contract import CONDITIONS, Abilities, Mesh, Reading
from calm_pde.models.mesh_graph_nets.levels import Levels, levels_of
from calm_pde.models.mesh_graph_nets.message_passing import MLP
from calm_pde.models.mesh_graph_nets.normalization import gathered
from calm_pde.models.mesh_graph_nets.practice import PRACTICE
from calm_pde.models.mesh_graph_nets.presets import PRESETS
from calm_pde.models.mesh_graph_nets.processor import Encoded, Processor
from calm_pde.models.point_features import OneHot, shown
from calm_pde.models.practice import Practice
from calm_pde.models.stepwise import BESIDE, Stepwise, StepwiseConfig
from calm_pde.records.inputs import Frames, Inputs
from calm_pde.types import Float, Tensor

_NEAREST = {1: 2, 2: 6, 3: 10}


class MeshGraphNetsConfig(StepwiseConfig):
    """All sizes of a MeshGraphNet.

    Args:
        width: of points and edges, and of the hidden layers of all maps.
        steps: of messages, each with weights of its own.
        cells: whether edges are those of the mesh's cells; else they lead to the nearest points.
        neighbors: how many of the nearest; by default 2, 6 or 10 in 1, 2 or 3 dimensions. Ties belong too.
        multi_scale: steps on a quarter of the points in the middle of all, joined by the nearest three.
        memory_budget: bytes of activations, beyond which steps are computed again in the backward pass.
    """

    title: ClassVar[str] = "MeshGraphNets"
    presets: ClassVar[dict[str, dict[str, Any]]] = PRESETS
    practice: ClassVar[Practice] = PRACTICE
    unwritten: ClassVar[tuple[str, ...]] = CONDITIONS  # a folder says whether it wants cells, yes or no

    width: PositiveInt = 128
    steps: PositiveInt = 15
    neighbors: PositiveInt | None = None
    multi_scale: bool = False
    memory_budget: Annotated[int, Field(ge=2**10)] = 2**30

    @property
    def nearest(self) -> int:
        """Neighbors of a point, where edges are not those of cells."""
        return self.neighbors or _NEAREST.get(self.dim, 10)

    @property
    def wrapped(self) -> tuple[bool, ...]:
        """Which axes are periodic."""
        return periodic_axes(self.periodic, self.dim)

    @property
    def abilities(self) -> Abilities:
        return super().abilities._replace(free_queries=False, conditions=True, cells=True, gathers=True)

    def latent_numbers(self, num_points: int) -> int:
        return num_points * self.width

    def build(self, mesh: Mesh | None = None, seed: int = 0) -> MeshGraphNets:
        return MeshGraphNets(self, seed)


class MeshGeometry(NamedTuple):
    """What a step needs of the mesh.

    Args:
        kinds: one-hot, of each point.
        apart: whether the points of all samples stand one behind the other, as those of one graph; else they share it.
    """

    edges: Encoded
    kinds: Float[Tensor, "#batch 1 point kind"]
    mask: Tensor | None
    apart: bool


class MeshGraphNets(Stepwise):
    """u(t + 1) = u(t) + σ ⊙ MLP(v) with σ the deviation of differences in training, from v = MLP(u(t) ‖ one-hot kind) after
    `steps` times e_ij ← e_ij + MLP(e_ij ‖ v_i ‖ v_j), v_i ← v_i + MLP(v_i ‖ Σ_j e_ij)."""

    deviation: Tensor

    def __init__(self, config: MeshGraphNetsConfig, seed: int = 0) -> None:
        super().__init__()
        self.config: MeshGraphNetsConfig = config
        generator, width = torch.Generator().manual_seed(seed), config.width
        self.encoder = MLP(config.given_channels + len(config.node_types), width, width, generator)
        self.processor = Processor(config.dim, width, config.steps, config.multi_scale, config.memory_budget, generator)
        self.decoder = MLP(width, width, config.out_channels, generator, norm=False)
        self.register_buffer("deviation", torch.ones(config.out_channels))
        self.node_types = OneHot(config.node_types)

    def reading(self) -> dict[str, Reading]:
        return {"encoder.first.weight": Reading(self.config.in_channels, BESIDE)}

    @property
    def outermost(self) -> tuple[str, ...]:
        return ("encoder.first", "decoder.last")

    @property
    def difference_deviation(self) -> Float[Tensor, "channel"]:
        return self.deviation

    def gather(self, training: Iterable[Frames]) -> None:
        gathered(self, training)

    def geometry_of(self, given: Inputs, queries: Tensor | None) -> MeshGeometry:
        return self.geometry(given.points, given.mask, given.node_type, queries, given.cells)

    def geometry(
        self,
        points: Tensor,
        mask: Tensor | None,
        node_type: Tensor | None,
        queries: Tensor | None,
        cells: Tensor | None = None,
    ) -> MeshGeometry:
        if queries is not None:
            raise InputError(
                "queries",
                expected="none, since MeshGraphNets answers at its points alone",
                got=f"{queries.shape[-2]} of them",
                fix="Leave them out, or use a model that answers anywhere (calm, geo_fno, lno).",
            )
        clouds, levels = self.levels(points, mask, cells)
        edges = self.processor.encoded(levels, clouds.flatten(0, 1), self.config.wrapped)
        return MeshGeometry(edges, self.node_types(points, node_type), mask, points.ndim == 3 or len(clouds) > 1)

    def levels(
        self, points: Tensor, mask: Tensor | None, cells: Tensor | None
    ) -> tuple[Float[Tensor, "cloud point dim"], Levels]:
        """The points of each mesh, of which masked ones lie at the origin, and the edges between them."""
        config, clouds = self.config, shown(points, mask)
        cells = cells[None] if cells is not None and cells.ndim == 2 else cells
        meshes = max(len(clouds), 1 if mask is None else len(mask), 1 if cells is None else len(cells))
        clouds = clouds.expand(meshes, -1, -1)
        return clouds, levels_of(clouds, mask, cells, config.nearest, config.wrapped, config.multi_scale)

    def step(
        self, states: Float[Tensor, "batch time point given"], geometry: MeshGeometry
    ) -> Float[Tensor, "batch time point channel"]:
        batch, time, count, _ = states.shape
        states = states.to(self.deviation.dtype)  # under autocast an answer that comes back is narrow
        if geometry.mask is not None:
            states = states.masked_fill(~geometry.mask[:, None, :, None], 0.0)
        given = torch.cat([states, geometry.kinds.to(states).expand(batch, time, -1, -1)], dim=-1)
        axes = (0, 2, 1, 3) if geometry.apart else (2, 0, 1, 3)  # nodes first, so that messages are rows in a block
        nodes = given.permute(axes).reshape(batch * count if geometry.apart else count, -1, given.shape[-1])
        changes = self.decoder(self.processor(self.encoder(nodes), geometry.edges))
        if geometry.apart:
            changes = changes.view(batch, count, time, -1).transpose(1, 2)
        else:
            changes = changes.view(count, batch, time, -1).permute(1, 2, 0, 3)
        return states[..., : self.config.out_channels] + self.deviation * changes
