"""Tiny surrogates of every dimension and task, with weights moved away from their start."""

from __future__ import annotations

from typing import Any

import torch

import calm_pde as cp
from calm_pde.data.statistics import Statistics
from calm_pde.records.description import Field
from calm_pde.surrogate.surrogate import Card

STD = (2.0, 0.5)


def tiny(dim: int = 2, *, task: str = "rollout", dtype: torch.dtype = torch.float64, **changes: Any) -> cp.Surrogate:
    """Two fields in a box of sides 2, 1, …, periodic along the first axis; queries start outside of it too."""
    features = () if task != "steady" else tuple(Field(name=name) for name in ("a", "b"))
    settings: dict[str, Any] = {
        "dim": dim,
        "task": task,
        "in_channels": 2,
        "out_channels": 2,
        "periodic": tuple(axis == 0 for axis in range(dim)),
        "encoder": {
            "channels": (4, 6),
            "num_queries": (12, 5),
            "receptive_field": (0.2, 0.5),
            "temperature": (1.0, 0.5),
        },
        "decoder": {"channels": (5,), "num_queries": (9,), "receptive_field": (0.6, 0.4), "temperature": (0.5, 1.0)},
        "processor": {"heads": 2, "blocks": 1, "fourier_width": 6},
        "kernel_width": 7,
        "fourier_width": 8,
        "fourier_std": 1.0,
    }
    config = cp.CalmConfig.model_validate(settings | changes)
    model = config.build(seed=3).to(dtype)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
    statistics = Statistics(names=("u", "v"), mean=(1.0, -3.0), std=STD, lowest=(-9.0, -9.0), highest=(9.0, 9.0))
    card = Card(
        kind="calm",
        model=config.model_dump(mode="json"),
        fields=(Field(name="u", unit="m/s"), Field(name="v")),
        features=features,
        lower=(0.0,) * dim,
        upper=tuple(2.0 if axis == 0 else 1.0 for axis in range(dim)),
        periodic=settings["periodic"],
        spacing=0.5,
        num_frames=4,
        statistics=statistics,
        feature_statistics=statistics if task == "steady" else None,
    )
    return cp.Surrogate(model.eval(), card)
