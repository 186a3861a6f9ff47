"""Own simulation results as a data file: a heat equation solved here, on a different random cloud for each sample.

Run: python examples/own_data.py heat.h5 && calm check heat.h5
"""

from __future__ import annotations

import sys

import numpy as np

import calm_pde as cp

NUM_SAMPLES, TIMES, DIFFUSIVITY = 30, np.linspace(0, 1, 11), 0.05


def temperature(points: np.ndarray, amplitudes: np.ndarray) -> np.ndarray:
    """(time, point, 1): Σ a_jk cos(jπx) cos(kπy) exp(−κπ²(j² + k²)t), exact on the unit square with insulated walls."""
    total = np.zeros((len(TIMES), len(points), 1))
    for j, k in np.ndindex(amplitudes.shape):
        shape = np.cos(j * np.pi * points[:, 0]) * np.cos(k * np.pi * points[:, 1])
        decay = np.exp(-DIFFUSIVITY * np.pi**2 * (j**2 + k**2) * TIMES)
        total[..., 0] += amplitudes[j, k] * decay[:, None] * shape
    return total


def main(out: str) -> None:
    draw = np.random.default_rng(0)
    clouds = [draw.uniform(size=(draw.integers(300, 400), 2)) for _ in range(NUM_SAMPLES)]
    fields = [temperature(points, draw.normal(size=(4, 4))) for points in clouds]
    file = cp.from_arrays(
        clouds, fields, TIMES, out=out, box=cp.Box((0, 0), (1, 1)), names=["temperature"], units=["K"], overwrite=True
    )
    batch = next(cp.Dataset(file, "train").batches())
    print(f"{file.path}: {len(file)} trajectories; a batch holds fields {tuple(batch.fields.shape)}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "heat.h5")
