"""A data set is described alike in its file, in what is taken of it, and in the surrogate that learned it."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.data.writing import write
from calm_pde.records.description import Description, Prescribed
from calm_pde.records.symmetry import Symmetry
from calm_pde.records.trajectory import Source
from calm_pde.train.config import Recipe
from calm_pde.train.fit import Run
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import one_thread  # noqa: F401

LATER = {
    "signals": ("pump",),
    "prescribed": (Prescribed(field="u"),),
    "symmetries": (Symmetry(name="half turn", axes=(-1, -2)),),
}
MESH = ("points", "cells", "node_type")
UNEVEN = np.array([3.0, 3.7370909, 4.5, 5.25, 9.0])
MODEL: dict[str, Any] = {
    "kind": "calm",
    "encoder": {"channels": [4], "num_queries": [6], "receptive_field": [0.3], "temperature": [1.0]},
    "decoder": {"channels": [4], "num_queries": [8], "receptive_field": [0.5, 0.5], "temperature": [1.0, 1.0]},
    "processor": {"heads": 2, "blocks": 1},
}
CASES: dict[str, tuple[Source, dict[str, Any], bool]] = {
    "all that can be told": (shared_source(**LATER), {}, True),
    "uneven times": (shared_source(times=UNEVEN), {}, True),
    "a target": (shared_source(targets=("v",), conserved=("u", "v"), **LATER), {}, False),
    "some fields and frames": (shared_source(frames=7), {"fields": ["v", "u"], "frame_stride": 3}, False),
    "a mesh each": (own_source(), {}, True),
    "a steady problem": (own_source(frames=1), {}, True),
}


def told(known: Description) -> dict[str, Any]:
    """Of the data set: all but its meshes, and but where file or surrogate themselves are from."""
    found = {one.name: getattr(known, one.name) for one in fields(known) if one.name not in (*MESH, "provenance")}
    return found | {"times": known.times.tolist(), "spacing": known.spacing}


def trained(folder: Path, taken: dict[str, Any], task: str = "rollout") -> Run:
    """For one epoch on a.h5."""
    data, model = {"file": folder / "a.h5"} | taken, MODEL | {"task": task}
    recipe = Recipe.model_validate({"name": "tiny", "data": data, "model": model, "train": {"epochs": 1}})
    return cp.fit(recipe, folder / "run")


@pytest.mark.parametrize("name", CASES)
def test_from_the_file_through_training_and_a_folder_and_back(name: str, tmp_path: Path) -> None:
    source, taken, whole = CASES[name]
    with write(source, tmp_path / "a.h5") as file:
        learned = cp.Dataset(file, frame_stride=taken.get("frame_stride", 1), fields=taken.get("fields", ())).description
        found = trained(tmp_path, taken, task="steady" if learned.steady else "rollout").surrogate
        assert told(found.description) == told(learned)
        if whole:
            assert told(learned) == told(file.description)
        assert found.description.provenance["data"] == file.fingerprint
        again = cp.Surrogate.load(tmp_path / "run" / "surrogate")
        again.save(tmp_path / "copy")
        assert told(cp.Surrogate.load(tmp_path / "copy").description) == told(learned)


def test_arrays_that_are_predicted_bring_what_is_told_of_them(tmp_path: Path) -> None:
    """Parameters and grid of the training data are none of theirs."""
    with write(shared_source(), tmp_path / "a.h5") as file:
        run = trained(tmp_path, {"conditions": False})
        state = file.trajectory(0).fields[0]
        points = file.description.points
    np.savez(tmp_path / "one.npz", initial=state[:20], points=points[:20])
    answer = cp.DataFile(cp.predict(run, tmp_path / "one.npz", tmp_path / "b.h5", times=[0.5])).description
    assert (answer.name, answer.parameters, answer.conserved, answer.grid_shape) == ("one, predicted", (), (), None)
