"""Heat in plates with a hole as a simulation code would leave it: a folder of VTU frames per case, and tables beside them.

A torch moves along the middle of a plate of 20 × 10 cm while the left wall follows a temperature of its own:
ρc ∂u/∂t = ∇·(k ∇u) + q(x, t), by linear triangles with lumped masses and implicit Euler steps. Every case has its own mesh.
Run: python make_data.py        (writes plates/ to learn from, and new/ with one that nobody has simulated)
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pyvista
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import splu
from scipy.spatial import Delaunay

NUM_CASES, LENGTH, HEIGHT, SPACING = int(sys.argv[1]) if len(sys.argv) > 1 else 200, 0.2, 0.1, 0.0075  # m
HEAT_CAPACITY, WIDTH, AMBIENT = 3.6e6, 0.01, 20.0  # ρc in J/(m³ K), of the torch in m, in °C
TIMES, STEPS = np.linspace(0, 100, 21), 10  # s; steps between two frames
PARAMETERS, LOWEST, HIGHEST = ["conductivity [W/(m K)]", "power [kW/m]", "speed [mm/s]"], (15, 2, 0.4), (150, 20, 1.6)


def mesh(draw: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points (point, 2) and triangles (triangle, 3) of a plate with a round hole somewhere."""
    center, radius = draw.uniform((0.06, 0.03), (0.16, 0.07)), draw.uniform(0.01, 0.02)
    x, y = (np.linspace(0, side, round(side / SPACING) + 1) for side in (LENGTH, HEIGHT))
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    inside = (points > 0).all(axis=1) & (points < (LENGTH - 1e-9, HEIGHT - 1e-9)).all(axis=1)
    points[inside] += draw.uniform(-0.25, 0.25, (inside.sum(), 2)) * SPACING
    angles = np.linspace(0, 2 * np.pi, round(2 * np.pi * radius / SPACING) + 6, endpoint=False)
    rim = center + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points = np.concatenate([points[np.linalg.norm(points - center, axis=1) > radius + 0.5 * SPACING], rim])
    triangles = Delaunay(points).simplices
    return points, triangles[~(triangles >= len(points) - len(rim)).all(axis=1)]


def solve(points: np.ndarray, triangles: np.ndarray, case: np.ndarray, wall: np.ndarray) -> np.ndarray:
    """Temperatures (time, point) in °C; `wall` (time,) is that of the left wall at TIMES, linear between them."""
    (conductivity, power, speed), corners = case, points[triangles]
    edges = np.roll(corners, 1, axis=1) - np.roll(corners, -1, axis=1)  # the one opposite to each corner
    area = 0.5 * np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    local = conductivity * np.einsum("tid,tjd->tij", edges, edges) / (4 * area[:, None, None])
    rows, columns = np.repeat(triangles, 3, axis=1).ravel(), np.tile(triangles, 3).ravel()
    stiffness = coo_matrix((local.ravel(), (rows, columns)), shape=(len(points),) * 2)
    volume = np.bincount(triangles.ravel(), np.repeat(area / 3, 3))
    step, held = (TIMES[1] - TIMES[0]) / STEPS, points[:, 0] == 0
    capacity, free = diags(HEAT_CAPACITY * volume / step), diags((~held).astype(float))
    inverse = splu((free @ (capacity + stiffness) + diags(held.astype(float))).tocsc())
    frames = [np.full(len(points), AMBIENT)]
    for time in step * np.arange(1, STEPS * (len(TIMES) - 1) + 1):
        torch = (0.02 + 1e-3 * speed * time, HEIGHT / 2)
        source = np.exp(-((points - torch) ** 2).sum(axis=1) / (2 * WIDTH**2)) / (2 * np.pi * WIDTH**2)
        right = capacity @ frames[-1] + 1e3 * power * source * volume
        frames.append(inverse.solve(np.where(held, np.interp(time, TIMES, wall), right)))
    return np.array(frames[::STEPS])


def write(folder: Path, names: list[str], simulated: bool, draw: np.random.Generator) -> None:
    table = [["sample", *PARAMETERS]]
    for name in names:
        (points, triangles), case = mesh(draw), draw.uniform(LOWEST, HIGHEST)
        wall = AMBIENT + np.interp(TIMES, np.linspace(0, 100, 6), [0, *draw.uniform(0, 100, 5)])
        frames = solve(points, triangles, case, wall)[: None if simulated else 1]
        table.append([name, *case.round(4)])
        (folder / name).mkdir(parents=True)
        signals = {"header": "time [s],wall [°C]", "comments": "", "delimiter": ",", "fmt": "%.6g"}
        np.savetxt(folder / name / "signals.csv", np.stack([TIMES, wall], axis=1), **signals)
        for number, temperature in enumerate(frames):
            grid = pyvista.UnstructuredGrid({pyvista.CellType.TRIANGLE: triangles}, np.pad(points, ((0, 0), (0, 1))))
            grid["temperature"], grid.field_data["TimeValue"] = temperature, [TIMES[number]]
            grid.save(folder / name / f"frame_{number:04d}.vtu")
    with (folder / "samples.csv").open("w", newline="") as file:
        csv.writer(file).writerows(table)


write(Path("plates"), [f"plate_{number:03d}" for number in range(NUM_CASES)], True, np.random.default_rng(0))
write(Path("new"), ["plate"], False, np.random.default_rng(1))
