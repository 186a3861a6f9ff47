"""A file of random numbers, converted and read in processes whose peak memory is told: `python -m tests.data.big_file …`.

`make FOLDER MEGABYTES` writes a folder of .npy files; `convert FOLDER FILE` and `epoch FILE` print the process's peak in MB.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap

POINTS, FRAMES, CHANNELS = 64 * 64, 20, 4


def make(folder: Path, megabytes: int) -> None:
    samples = max(10, megabytes * 10**6 // (POINTS * FRAMES * CHANNELS * 4))
    draw = np.random.default_rng(0)
    folder.mkdir()
    np.save(folder / "points.npy", draw.uniform(size=(POINTS, 2)))
    fields = open_memmap(folder / "fields.npy", mode="w+", dtype=np.float32, shape=(samples, FRAMES, POINTS, CHANNELS))
    for index in range(samples):
        fields[index] = draw.random(fields.shape[1:], dtype=np.float32)


def convert(folder: Path, file: Path) -> None:
    from calm_pde.cli import main

    main(["convert", "arrays", str(folder), "--out", str(file)])


def epoch(file: Path) -> None:
    """Every window of an epoch through the loader; the sum of what was read shows that it was."""
    from calm_pde.data.dataset import Dataset
    from calm_pde.data.windows import epoch_windows, grouped

    dataset = Dataset(file)
    windows = grouped(epoch_windows(len(dataset), FRAMES, 7, seed=0, epoch=0, random_starts=True), 8)
    total = sum(float(batch.fields.double().mean()) for batch in dataset.batches(windows))
    print(f"{len(windows)} batches, mean {total / len(windows):.4f}")


def peak() -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) // 1000


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    if what == "make":
        make(Path(rest[0]), int(rest[1]))
    elif what == "convert":
        convert(Path(rest[0]), Path(rest[1]))
    else:
        epoch(Path(rest[0]))
    print(peak())
