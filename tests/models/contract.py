"""The models under contract, each with a tiny configuration, and the meshes that the contract tries them on.

A new model is one `Case` (or several: one per dimension or form) in `CASES`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from scipy.spatial import Delaunay
from torch import Tensor

from calm_pde.config import merged
from calm_pde.data.statistics import Statistics
from calm_pde.models import MODELS, Model
from calm_pde.records.description import Field
from calm_pde.surrogate.surrogate import Card, Surrogate
from tests.clouds import random_cloud

GRIDS = {1: (24,), 2: (8, 7), 3: (6, 5, 6)}


@dataclass(frozen=True)
class Case:
    """One model under contract.

    Args:
        name: in the registry.
        config: a tiny one; channels in and out are alike.
        scattered: whether it lives on any points, on other points for each sample, and under masks; else on full grids only.
        queries: whether it answers anywhere.
        any_time: whether it answers between frames.
        unfelt: ends of the names of parameters whose gradient is zero by construction, or that no answer depends on.
        stirred: whether weights are moved a little at first, since those that start at zero hide others.
        trained: changes with which its rollout is what it is trained on, where it is not anyway.
    """

    name: str
    config: dict[str, Any]
    scattered: bool = True
    queries: bool = True
    any_time: bool = False
    unfelt: tuple[str, ...] = ()
    stirred: bool = False
    trained: dict[str, Any] = field(default_factory=dict)

    @property
    def dim(self) -> int:
        return self.config["dim"]

    @property
    def channels(self) -> int:
        return self.config["in_channels"]

    @property
    def told(self) -> bool:
        """Whether it has conditions."""
        return any(self.config.get(name) for name in _TOLD)

    def build(self, seed: int = 0, **changes: Any) -> Model:
        model = MODELS[self.name].model_validate(self.config | changes).build(seed=seed)
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in model.parameters() if self.stirred else ():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
        # one that learns by a whole batch keeps what is kept here as it is used
        return model.eval() if model.config.abilities.batch_statistics else model

    def __str__(self) -> str:
        extra = "".join(f"_{self.config[key]}" for key in ("form", "layout") if key in self.config)
        extra += "_told" if self.told else ""
        return f"{self.name}{extra}_{self.dim}d"


_CALM: dict[str, Any] = {
    "in_channels": 2,
    "out_channels": 2,
    "encoder": {"channels": (4, 6), "num_queries": (9, 4), "receptive_field": (0.2, 0.5), "temperature": (1.0, 0.1)},
    "decoder": {"channels": (5,), "num_queries": (8,), "receptive_field": (0.5, 0.3), "temperature": (0.1, 1.0)},
    "processor": {"heads": 2, "fourier_width": 6},
    "kernel_width": 7,
    "fourier_width": 8,
    "fourier_std": 2.0,
}
_DETAIL: dict[str, Any] = {"detail": {"channels": 3, "receptive_field": 0.3}, "displacements": "relative"}
_PLACE: dict[str, Any] = {"place": {"channels": 3, "width": 5, "fourier_width": 6}}
_LEARNT_FROM_FRAMES: dict[str, Any] = {"staged": True, "consistency": 0.5}
_FOLLOWING: dict[str, Any] = merged(_CALM, {"encoder": {"reach": (0.5, 0.3)}, "periodic": True})
_AROMA: dict[str, Any] = {
    "in_channels": 2,
    "out_channels": 2,
    "autoencoder": {"num_tokens": 5, "latent_channels": 3, "width": 8, "heads": 2, "frequencies": 4, "depth": 2},
    "dynamics": {"width": 8, "heads": 2, "blocks": 1, "minimum_noise": 1e-2},
}
_UNFELT = ("norm_key.bias", "to_log_variance.weight", "to_log_variance.bias")  # answers come from means
_FNO: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 5, "modes": 2, "layers": 2, "head_width": 6}
_GEO_FNO: dict[str, Any] = _FNO | {"layers": 4, "latent_size": 6, "deformation_width": 6}
_FFNO_POINTS: dict[str, Any] = _GEO_FNO | {"form": "points", "expansion": 2, "weight_norm": True}
_LNO: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 8, "modes": 5, "projector_layers": 1} | {
    "blocks": 2,
    "heads": 2,
}
_OFORMER: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "encoder_width": 6, "rotary_scales": (4.0, 1.0)} | {
    "latent_width": 6,
    "propagator_width": 12,
    "heads": 2,
    "resolution": 8.0,
    "cross_scale": 2.0,
    "fourier_std": 1.0,
}
_PIT: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "periodic": True, "width": 6, "heads": 2, "blocks": 2} | {
    "encoder_quantile": 0.1,
    "decoder_quantile": 0.4,
}
_UPT: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "tokens": 5, "width": 12, "heads": 2, "blocks": 1} | {
    "supernodes": {"count": 9, "radius": 0.3, "most_neighbors": 6, "feature_width": 6, "width": 8, "heads": 2, "blocks": 1},
    "decoder_blocks": 1,
    "query_expansion": 2,
}
_GAOT: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 6, "latent_size": 4, "radius": 0.3} | {
    "scales": (0.6, 1.2),
    "kernel_width": 5,
    "kernel_layers": 2,
    "attention_width": 4,
    "statistics_width": 5,
    "processor_width": 8,
    "heads": 2,
    "expansion": 2,
    "depth": 1,
    "horizon": 4.0,
}
_ROLLED: dict[str, Any] = {"trained_on": "rollout"}
_MESH_GRAPH_NETS: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 6, "steps": 2}
_UNET: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 16}  # with 8 a norm takes each bias out again
_POINTS: dict[str, Any] = {"in_channels": 2, "out_channels": 2, "width": 8, "heads": 2, "blocks": 2}
_TRANSOLVER: dict[str, Any] = _POINTS | {"slices": 5}
_GNOT: dict[str, Any] = _POINTS | {"experts": 2, "layers": 1}
_ONO: dict[str, Any] = _POINTS | {"functions": 3, "landmarks": 6}

CASES: list[Case] = [
    # a shift of all keys moves every logit of a query alike, so softmax gives it no gradient beyond rounding
    Case("calm", _CALM | {"dim": 2, "node_types": (0, 4, 6)}, any_time=True, unfelt=("norm_key.bias",)),
    Case(
        "calm",
        _CALM | {"dim": 1, "displacements": "relative"} | _DETAIL,
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case("calm", merged(_CALM, {"dim": 1, "processor": {"damping": "diagonal"}}), any_time=True, unfelt=("norm_key.bias",)),
    Case("calm", merged(_CALM, {"dim": 2, "processor": {"damping": "full"}}), any_time=True, unfelt=("norm_key.bias",)),
    Case(
        "calm",
        merged(_CALM, {"dim": 2, "processor": {"positions": "relative"}}),
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case("calm", _CALM | {"dim": 3} | _PLACE, any_time=True, stirred=True, unfelt=("norm_key.bias",)),
    Case(
        "calm",
        _CALM | {"dim": 2, "periodic": (False, True), "node_types": (0, 4), "detail": _DETAIL["detail"]} | _PLACE,
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case("calm", _CALM | {"dim": 1} | _LEARNT_FROM_FRAMES, any_time=True, unfelt=("norm_key.bias",)),
    Case("calm", _FOLLOWING | {"dim": 2, "node_types": (0, 4, 6)}, any_time=True, stirred=True, unfelt=("norm_key.bias",)),
    Case("calm", _FOLLOWING | {"dim": 1} | _LEARNT_FROM_FRAMES, any_time=True, stirred=True, unfelt=("norm_key.bias",)),
    Case("aroma", _AROMA | {"dim": 1}, stirred=True, unfelt=_UNFELT),
    Case("aroma", merged(_AROMA, {"dim": 2, "autoencoder": {"geometry": True}}), stirred=True, unfelt=_UNFELT),
    Case("aroma", merged(_AROMA, {"dim": 3, "dynamics": {"residual": 4.0}}), stirred=True, unfelt=_UNFELT),
    Case("fno", _FNO | {"dim": 1, "padding": 2}, scattered=False, queries=False),
    Case("fno", _FNO | {"dim": 2, "padding": (2, 0)}, scattered=False, queries=False),
    Case("fno", _FNO | {"dim": 3, "paper_param_count": True}, scattered=False, queries=False, unfelt=("unused",)),
    Case("geo_fno", _GEO_FNO | {"dim": 1}),
    Case("geo_fno", _GEO_FNO | {"dim": 2, "node_types": (0, 4, 6), "paper_param_count": True}, unfelt=("unused",)),
    Case("geo_fno", _GEO_FNO | {"dim": 3, "symmetry": "legacy"}),
    Case("ffno", _FNO | {"form": "grid", "dim": 1}, scattered=False, queries=False),
    Case("ffno", _FNO | {"form": "grid", "dim": 2, "padding": 1}, scattered=False, queries=False),
    Case("ffno", _FNO | {"form": "grid", "dim": 3, "weight_norm": True}, scattered=False, queries=False),
    Case("ffno", _FFNO_POINTS | {"dim": 1}),
    Case("ffno", _FFNO_POINTS | {"dim": 2, "node_types": (0, 4, 6), "paper_param_count": True}, unfelt=("unused",)),
    Case("ffno", _FFNO_POINTS | {"dim": 3, "symmetry": "legacy"}),
    Case("lno", _LNO | {"dim": 1}),
    Case("lno", _LNO | {"dim": 2, "node_types": (0, 4), "memory_budget": 5000}),  # chunks of a few points
    Case("lno", _LNO | {"dim": 3}),
    Case("oformer", _OFORMER | {"dim": 1, "layout": "bare", "attention": "fourier", "propagator_width": 6}),
    Case("oformer", _OFORMER | {"dim": 2, "layout": "mesh", "norm": "affine", "node_types": (0, 4)}, queries=False),
    Case("oformer", _OFORMER | {"dim": 2, "layout": "mesh", "norm": "domain"}, queries=False),
    # a shift of all encoded points is taken out again by the norm over the domain
    Case("oformer", _OFORMER | {"dim": 2, "norm": "domain"}, unfelt=("blocks.1.mlp.reduce.bias",)),
    Case("oformer", _OFORMER | {"dim": 3}),
    Case("pit", _PIT | {"dim": 1, "latent_mesh": (9,)}),
    Case("pit", _PIT | {"dim": 2, "latent_mesh": (3, 4), "residual": True, "node_types": (0, 4)}, queries=False),
    Case("pit", _PIT | {"dim": 2, "latent_mesh": (3, 4), "periodic": (True, False), "encoder_quantile": 1.0}),
    Case("pit", _PIT | {"dim": 3, "latent_mesh": (2, 3, 3), "normalize_latent": True}),
    # a shift of all keys of a query moves no share of its attention
    Case("upt", _UPT | {"dim": 1, "inverse_encoding": 1.0, "inverse_decoding": 0.5}),
    Case("upt", _UPT | {"dim": 2, "periodic": (False, True), "node_types": (0, 4), "memory_budget": 5000}),
    Case("upt", _UPT | {"dim": 2, "supernodes": None, "decoder_blocks": 0}),
    Case("upt", merged(_UPT, {"dim": 3, "supernodes": {"count": 100, "blocks": 0}})),  # all points, fewer than that
    Case("gaot", _GAOT | {"dim": 1, "attention": "projected"}, any_time=True, stirred=True, trained={"stride": None}),
    Case(
        "gaot",
        _GAOT | {"dim": 2, "periodic": (False, True), "node_types": (0, 4), "scale_weights": "learned"} | _ROLLED,
        any_time=True,
        stirred=True,
    ),
    Case(
        "gaot",
        _GAOT | {"dim": 2, "positions": "absolute", "answer": "state", "stride": 2} | _ROLLED,
        any_time=True,
        stirred=True,
    ),
    Case("gaot", _GAOT | {"dim": 3, "answer": "residual", "stride": None, "memory_budget": 5000}, any_time=True, stirred=True),
    Case("mesh_graph_nets", _MESH_GRAPH_NETS | {"dim": 1, "periodic": True}, queries=False),
    Case("mesh_graph_nets", _MESH_GRAPH_NETS | {"dim": 2, "cells": True, "node_types": (0, 4)}, queries=False),
    Case("mesh_graph_nets", _MESH_GRAPH_NETS | {"dim": 3, "multi_scale": True, "memory_budget": 2**10}, queries=False),
    Case("unet", _UNET | {"dim": 1, "periodic": True}, scattered=False, queries=False),
    Case("unet", _UNET | {"dim": 2, "periodic": (False, True), "node_types": (0, 4)}, scattered=False, queries=False),
    Case("unet", _UNET | {"dim": 3}, scattered=False, queries=False),
    Case("galerkin", _POINTS | {"dim": 1}, queries=False),
    Case("galerkin", _POINTS | {"dim": 2, "node_types": (0, 4, 6), "expansion": 2}, queries=False),
    Case("galerkin", _POINTS | {"dim": 3, "coordinates": False}, queries=False),
    Case("gnot", _GNOT | {"dim": 1}, queries=False),
    Case("gnot", _GNOT | {"dim": 2, "node_types": (0, 4, 6), "expansion": 2}, queries=False),
    Case("gnot", _GNOT | {"dim": 3, "coordinates": False}, queries=False),
    Case("ono", _ONO | {"dim": 1, "landmarks": 40}, queries=False),
    Case("ono", _ONO | {"dim": 2, "node_types": (0, 4, 6), "projection": "sum"}, queries=False),
    Case("ono", _ONO | {"dim": 3}, queries=False),
    Case("transolver", _TRANSOLVER | {"dim": 1, "layout": "grid"}, scattered=False, queries=False, stirred=True),
    Case(
        "transolver",
        _TRANSOLVER | {"dim": 3, "layout": "grid", "periodic": (True, False, True)},
        scattered=False,
        queries=False,
        stirred=True,
    ),
    Case("transolver", _TRANSOLVER | {"dim": 1}, queries=False, stirred=True),
    Case(
        "transolver", _TRANSOLVER | {"dim": 2, "layout": "grid", "periodic": True}, scattered=False, queries=False, stirred=True
    ),
    Case("transolver", _TRANSOLVER | {"dim": 2, "node_types": (0, 4, 6)}, queries=False, stirred=True),
    Case("transolver", _TRANSOLVER | {"dim": 3, "coordinates": False}, queries=False, stirred=True),
]


_TOLD: dict[str, Any] = {"parameters": 2, "signals": 1, "features": 2}
TOLD: list[Case] = [  # stirred, since what is told starts without a word in several models
    Case(
        "calm",
        _CALM | {"dim": 2, "node_types": (0, 4), "integrator": "heun", "detail": _DETAIL["detail"]} | _TOLD,
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case(
        "calm",
        _CALM | {"dim": 2, "node_types": (0, 4), "integrator": "rk4", "conditioned_kernels": True} | _DETAIL | _PLACE | _TOLD,
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case(
        "calm",
        _FOLLOWING | {"dim": 1, "conditioned_kernels": True} | _TOLD | _LEARNT_FROM_FRAMES,
        any_time=True,
        stirred=True,
        unfelt=("norm_key.bias",),
    ),
    Case("aroma", _AROMA | {"dim": 1} | _TOLD, stirred=True, unfelt=_UNFELT),
    Case("fno", _FNO | {"dim": 1} | _TOLD, scattered=False, queries=False),
    Case("geo_fno", _GEO_FNO | {"dim": 1, "node_types": (0, 4)} | _TOLD),
    Case("ffno", _FNO | {"form": "grid", "dim": 1} | _TOLD, scattered=False, queries=False),
    Case("ffno", _FFNO_POINTS | {"dim": 1} | _TOLD),
    Case("lno", _LNO | {"dim": 1} | _TOLD),
    Case("oformer", _OFORMER | {"dim": 1, "layout": "bare", "attention": "fourier", "propagator_width": 6} | _TOLD),
    Case("oformer", _OFORMER | {"dim": 1, "layout": "mesh", "norm": "affine", "node_types": (0, 4)} | _TOLD, queries=False),
    Case("pit", _PIT | {"dim": 1, "latent_mesh": (9,), "residual": True} | _TOLD, queries=False),
    Case("upt", _UPT | {"dim": 1, "node_types": (0, 4)} | _TOLD, stirred=True),
    Case("upt", _UPT | {"dim": 1, "supernodes": None} | _TOLD, stirred=True),
    Case("gaot", _GAOT | {"dim": 1, "node_types": (0, 4)} | _TOLD, any_time=True, stirred=True, trained={"stride": None}),
    Case("mesh_graph_nets", _MESH_GRAPH_NETS | {"dim": 1, "node_types": (0, 4)} | _TOLD, queries=False),
    Case("unet", _UNET | {"dim": 1, "node_types": (0, 4)} | _TOLD, scattered=False, queries=False),
    Case("galerkin", _POINTS | {"dim": 1} | _TOLD, queries=False),
    Case("gnot", _GNOT | {"dim": 1, "node_types": (0, 4)} | _TOLD, queries=False),
    Case("ono", _ONO | {"dim": 1} | _TOLD, queries=False),
    Case("transolver", _TRANSOLVER | {"dim": 1, "node_types": (0, 4)} | _TOLD, queries=False, stirred=True),
    Case("transolver", _TRANSOLVER | {"dim": 1, "layout": "grid"} | _TOLD, scattered=False, queries=False, stirred=True),
]
"""Each model with conditions."""


_OF_STEADY: dict[str, Any] = {"task": "steady", "in_channels": 3, "out_channels": 2}
STEADY: list[Case] = [
    Case("geo_fno", _GEO_FNO | _OF_STEADY | {"dim": 2}),
    Case("geo_fno", _GEO_FNO | _OF_STEADY | {"dim": 1, "node_types": (0, 4), "parameters": 2}),
    Case("ffno", _FFNO_POINTS | _OF_STEADY | {"dim": 2}),
    Case("ffno", _FFNO_POINTS | _OF_STEADY | {"dim": 3, "parameters": 2}),
    Case("lno", _LNO | _OF_STEADY | {"dim": 2}),
    Case("lno", _LNO | _OF_STEADY | {"dim": 2, "coordinates": False, "node_types": (0, 4), "parameters": 2}),
    Case("oformer", _OFORMER | _OF_STEADY | {"dim": 2}),
    Case("oformer", _OFORMER | _OF_STEADY | {"dim": 1, "layout": "bare", "propagator_width": 6, "parameters": 2}),
    Case("upt", _UPT | _OF_STEADY | {"dim": 2, "supernodes": None}),
    Case("upt", _UPT | _OF_STEADY | {"dim": 2, "node_types": (0, 4), "parameters": 2}, stirred=True),
    Case("galerkin", _POINTS | _OF_STEADY | {"dim": 2, "coordinates": False, "parameters": 2}, queries=False),
    Case("gnot", _GNOT | _OF_STEADY | {"dim": 2, "coordinates": False, "node_types": (0, 4)}),
    Case("gnot", _GNOT | _OF_STEADY | {"dim": 1, "parameters": 2}),
    Case("ono", _ONO | _OF_STEADY | {"dim": 2, "parameters": 2}, queries=False),
    Case("transolver", _TRANSOLVER | _OF_STEADY | {"dim": 2, "parameters": 2}, queries=False, stirred=True),
    Case(
        "transolver",
        _TRANSOLVER | _OF_STEADY | {"dim": 2, "layout": "grid"},
        scattered=False,
        queries=False,
        stirred=True,
    ),
]
"""The forms of steady problems, of models that go from frame to frame otherwise."""


def conditions(case: Case, batch: int, points: int, seed: int = 0) -> dict[str, Tensor]:
    """Conditions of a call in float64, as many as the case has; signals have knots of their own, from before frame 0 to 5."""
    count = {name: case.config.get(name, 0) for name in _TOLD}
    if not case.told:
        return {}
    times = torch.tensor([[-0.5, 0.7, 2.2, 5.0], [0.0, 1.5, 3.0, 6.0], [0.0, 0.4, 4.0, 9.0]], dtype=torch.float64)
    made = {
        "parameters": random_cloud(batch, count["parameters"], seed + 11) - 0.5,
        "features": random_cloud(batch * points, count["features"], seed + 12).view(batch, points, -1) - 0.5,
        "signals": random_cloud(batch * 4, count["signals"], seed + 13).view(batch, 4, -1) - 0.5,
        "signal_times": times[:batch],
    }
    made |= {} if count["signals"] else {"signal_times": times[:, :0]}
    return {name: value for name, value in made.items() if value.shape[-1]}


def full_grid(dim: int, seed: int = 0) -> Tensor:
    """A tensor grid with uneven spacing, in random order."""
    axes = [random_cloud(size, 1, seed + axis).flatten().sort().values for axis, size in enumerate(GRIDS[dim])]
    points = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, dim)
    return points[torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))]


def shared_mesh(case: Case, batch: int = 3, seed: int = 0) -> dict[str, Any]:
    """Arguments of a call in float64: samples on one mesh, scattered where the model can."""
    points = full_grid(case.dim, seed)
    points = random_cloud(len(points), case.dim, seed) if case.scattered else points
    values = random_cloud(batch * len(points), case.channels, seed + 7).view(batch, len(points), case.channels) - 0.5
    told = _kinds(case, (len(points),)) | _cells(case, points[None]) | conditions(case, batch, len(points), seed)
    return {"values": values, "points": points} | told


def own_meshes(case: Case, seed: int = 0) -> dict[str, Any]:
    """Arguments of a call in float64: two samples, each on its own points, the second one padded with NaN."""
    mask = torch.arange(30) < torch.tensor([[30], [21]])
    points = torch.stack([random_cloud(30, case.dim, seed), random_cloud(30, case.dim, seed + 1)])
    cells = _cells(case, points, mask)
    values = random_cloud(60, case.channels, seed + 7).view(2, 30, case.channels) - 0.5
    points[~mask] = values[~mask] = float("nan")
    told = conditions(case, 2, 30, seed)
    if "features" in told:
        told["features"][~mask] = float("nan")
    return {"values": values, "points": points, "mask": mask} | _kinds(case, (2, 30)) | cells | told


def _cells(case: Case, clouds: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
    """Triangles between the real points of each mesh, padded with cells of one point."""
    if not case.config.get("cells"):
        return {}
    shown = [
        cloud if mask is None else cloud[real] for cloud, real in zip(clouds, clouds if mask is None else mask, strict=True)
    ]
    found = [torch.from_numpy(Delaunay(cloud.numpy()).simplices).long() for cloud in shown]
    most = max(map(len, found))
    padded = torch.stack([torch.cat([cells, cells.new_zeros(most - len(cells), cells.shape[1])]) for cells in found])
    return {"cells": padded if mask is not None else padded[0]}


def _kinds(case: Case, shape: tuple[int, ...]) -> dict[str, Tensor]:
    codes = case.config.get("node_types")
    if not codes:
        return {}
    count = int(torch.tensor(shape).prod())
    return {"node_type": torch.tensor(codes)[torch.arange(count) % len(codes)].view(shape)}


def surrogate_of(case: Case, model: Model) -> Surrogate:
    """The model with a card that says what it needs to be saved and loaded."""
    names = tuple("uvwxy"[: case.channels])
    ones = (1.0,) * len(names)
    card = Card(
        kind=case.name,
        model=model.config.model_dump(mode="json"),
        fields=tuple(Field(name=name) for name in names),
        lower=(0.0,) * case.dim,
        upper=(2.0,) * case.dim,
        periodic=(False,) * case.dim,
        spacing=0.5,
        num_frames=4,
        statistics=Statistics(names=names, mean=ones, std=ones, lowest=(-9.0,) * len(names), highest=(9.0,) * len(names)),
        node_types={code: str(code) for code in case.config.get("node_types", ())},
    )
    return Surrogate(model.eval(), card)
