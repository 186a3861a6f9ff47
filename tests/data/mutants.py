"""Damaged copies of a data file, opened in a process of their own: `python -m tests.data.mutants FILE FOLDER FIRST LAST`.

One line per mutant: its number, then `error MESSAGE`, `harmless` (every array is as it was) or `silent`.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import h5py
import numpy as np

from calm_pde.data.storage import DataFile
from calm_pde.errors import FileError
from tests.damage import DAMAGES, damaged

KINDS = (*DAMAGES, "missing", "shape", "strings", "swap")


def mutate(source: Path, target: Path, number: int) -> str:
    """Damage a copy in a way that depends on the number alone."""
    draw = np.random.default_rng(number)
    kind = KINDS[number % len(KINDS)]
    if kind in DAMAGES:
        target.write_bytes(damaged(source.read_bytes(), kind, draw))
        return kind
    shutil.copy(source, target)
    with h5py.File(target, "a") as file:
        names = sorted(file)
        name = names[int(draw.integers(len(names)))]
        old = file[name][()]
        del file[name]
        if kind == "shape":
            file.create_dataset(name, data=np.concatenate([old, old[:1]]), fletcher32=True)
        elif kind == "strings":
            file.create_dataset(name, data=np.full(old.shape, b"abc"), fletcher32=True)
        elif kind == "swap":
            values = old.reshape(-1).copy()
            values[int(draw.integers(values.size))] += 1
            file.create_dataset(name, data=values.reshape(old.shape), chunks=old.shape, fletcher32=True)
    return kind


def content(path: Path, verify: bool) -> list[bytes]:
    """Everything that can be read from a file, as bytes; with `verify`, what was not written so is an error."""
    with DataFile(path) as file:
        found = [file.header.model_dump_json().encode(), file.times.tobytes(), file.splits.tobytes()]
        description = file.description
        arrays = [description.points, description.cells, description.node_type]
        for index in range(len(file)):
            trajectory = file.trajectory(index)
            if verify and not file.verify(index, trajectory):
                raise FileError(path, "is not what was written", part=f"trajectory {index}")
            arrays += [trajectory.fields, trajectory.points, trajectory.cells, trajectory.node_type]
            arrays += [trajectory.features, trajectory.parameters]
        if verify and not file.verify_fingerprint():
            raise FileError(path, "is not what was written", part="fingerprint")
        return found + [array.tobytes() for array in arrays if array is not None]


def main() -> None:
    source, folder, first, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    wanted = content(source, verify=True)
    for number in range(first, last):
        target = folder / f"mutant_{first}.h5"
        kind = mutate(source, target, number)
        try:
            outcome = "harmless" if content(target, verify=kind == "swap") == wanted else "silent"
        except FileError as error:
            outcome = f"error {error}"
        print(number, kind, outcome.replace("\n", " "), flush=True)


if __name__ == "__main__":
    main()
