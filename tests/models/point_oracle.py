"""What oracles of models over points share: maps of one point's features, in float64 with loops, and samples for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from calm_pde.models import Model
from tests.clouds import random_cloud
from tests.oracle import gelu_all, layer_norm

Weights = dict[str, np.ndarray]


def linear(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return w[f"{name}.weight"] @ x + w.get(f"{name}.bias", 0.0)


def mlp(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return linear(w, f"{name}.reduce", gelu_all(linear(w, f"{name}.expand", x)))


def residual_mlp(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    r, depth = gelu_all(linear(w, f"{name}.first", x)), 0
    while f"{name}.hidden.{depth}.weight" in w:
        r = r + gelu_all(linear(w, f"{name}.hidden.{depth}", r))
        depth += 1
    return linear(w, f"{name}.last", r)


def norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"])


def softplus(x: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(x))


def moved(model: Model, by: float = 0.3, seed: int = 5) -> Model:
    """Every parameter away from where it starts, since many start at zero, at one, or near it."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += by * torch.randn(parameter.shape, generator=generator)
    return model


def two_samples(model: Model, points: int = 10, fewer: int = 6) -> dict[str, Any]:
    """Arguments of a call in float64: each on its own points, the second one with fewer."""
    config = model.config
    where = random_cloud(2 * points, config.dim, seed=2).view(2, points, config.dim)
    values = random_cloud(2 * points, config.in_channels, seed=3).view(2, points, -1) - 0.5
    mask = torch.arange(points) < torch.tensor([[points], [fewer]])
    found: dict[str, Any] = {"values": values, "points": where, "mask": mask}
    if config.node_types:
        found["node_type"] = torch.tensor(config.node_types)[torch.arange(points) % len(config.node_types)]
    if config.parameters:
        found["parameters"] = random_cloud(2, config.parameters, seed=4) - 0.5
    return found


def features_of(model: Model, call: dict[str, Any], place: int) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Of one sample, what the first map reads of each real point; their positions; and which points they are."""
    w, config = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}, model.config
    real = call["mask"][place].nonzero().flatten().tolist()
    rows = []
    for n in real:
        parts = [call["values"][place, n].numpy()]
        if config.parameters:
            parts.append(call["parameters"][place].numpy())
        if getattr(config, "coordinates", True):
            parts.append(call["points"][place, n].numpy())
        if config.node_types:
            parts.append(w["node_types.weight"][config.node_types.index(int(call["node_type"][n]))])
        rows.append(np.concatenate(parts))
    return np.array(rows), call["points"][place, real].numpy(), real


def operations(model: Model, points: int) -> int:
    """Multiplications of one answer on so many points, as torch counts them."""
    call = random_cloud(points, model.config.dim, seed=1)
    values: Tensor = random_cloud(points, model.config.in_channels, seed=2)[None]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(values, call, 1)
    return counter.get_total_flops()
