"""Small data sets for tests: one mesh for all, and one mesh each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Trajectory, generated_split


def shared_source(count: int = 10, frames: int = 5, side: int = 6, seed: int = 0, **changes: Any) -> Source:
    """Waves of random phase on a periodic grid, two fields and one parameter."""
    draw = np.random.default_rng(seed)
    axis = np.arange(side) / side
    points = tensor_grid(2 * axis, axis)
    phases = draw.uniform(0, 2 * np.pi, size=count)
    settings: dict[str, Any] = {
        "name": "waves",
        "fields": (Field(name="u", unit="m/s"), Field(name="v")),
        "box": Box((0.0, 0.0), (2.0, 1.0), (True, True)),
        "times": 0.5 * np.arange(frames),
        "points": points,
        "grid_shape": (side, side),
        "parameters": ("phase",),
        "conserved": ("u",),
        "provenance": {"seed": seed},
    }
    description = Description(**(settings | changes))

    def trajectories() -> Iterator[Trajectory]:
        for index, phase in enumerate(phases):
            wave = np.sin(np.pi * points[:, 0] - description.times[:, None] + phase)
            fields = np.stack([wave, 2 + wave * points[:, 1]], axis=-1).astype(np.float32)
            knots = np.linspace(description.times[0] - 0.1 * index, description.times[-1], 3 + index % 4)
            pumps = np.cos(knots[:, None] + phase + np.arange(len(description.signals)))
            yield Trajectory(
                fields,
                generated_split(index, count),
                parameters=np.array([phase]),
                signals=pumps if description.signals else None,
                signal_times=knots if description.signals else None,
                seconds=0.25,
            )

    return Source(description, trajectories(), count)


def own_source(count: int = 10, frames: int = 4, seed: int = 0) -> Source:
    """A decaying bump on clouds of 20 to 39 points, with triangles, node types and features."""
    description = Description(
        name="bumps",
        fields=(Field(name="u"),),
        box=Box((-1.0, 0.0), (1.0, 1.0)),
        times=np.arange(frames, dtype=float),
        node_types={0: "fluid", 4: "inflow", 6: "wall"},
        features=(Field(name="x"), Field(name="y")),
    )

    def trajectories() -> Iterator[Trajectory]:
        draw = np.random.default_rng(seed)
        for index in range(count):
            size = int(draw.integers(20, 40))
            points = draw.uniform((-1, 0), (1, 1), size=(size, 2))
            bump = np.exp(-np.square(points).sum(axis=1) - description.times[:, None])
            yield Trajectory(
                bump[..., None].astype(np.float32),
                generated_split(index, count),
                points=points,
                cells=draw.integers(0, size, size=(size, 3), dtype=np.int32),
                node_type=draw.choice([0, 4, 6], size=size),
                features=points.astype(np.float32),
            )

    return Source(description, trajectories(), count)
