"""Cells from the data file to the model, and from a user to the surrogate: wanted exactly where it was trained with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.data.dataset import Dataset
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError, FileError, InputError
from calm_pde.models import MODELS
from calm_pde.records.trajectory import Source
from calm_pde.train.config import Recipe
from tests.data.sets import own_source, shared_source
from tests.surrogate.test_surrogate import one_thread  # noqa: F401

CELLS = np.array([[0, 1, 6], [1, 6, 7], [7, 8, 14]])


def without_cells(source: Source) -> Source:
    return replace(source, trajectories=(replace(one, cells=None) for one in source.trajectories))


def recipe(file: Path, **model: Any) -> Recipe:
    content = {"name": "t", "data": {"file": file, "conditions": False}, "train": {"epochs": 1, "batch_size": 8}}
    graphs = {"kind": "mesh_graph_nets", "width": 8, "steps": 2} | model
    return Recipe.model_validate(content | {"model": graphs})


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[cp.Surrogate, cp.DataFile]:
    """A surrogate trained on triangles of each sample's own."""
    folder = tmp_path_factory.mktemp("own")
    file = write(own_source(20), folder / "a.h5")
    cp.fit(recipe(file.path), folder / "run")
    return cp.Surrogate.load(folder / "run"), file


def test_a_batch_has_the_cells_of_each_mesh(own):
    data = Dataset(own[1], "train")
    batch = data.collate([data[0], data[1]])
    for place in range(2):
        cells = own[1].trajectory(place).cells
        assert batch.cells[place, : len(cells)].tolist() == cells.tolist()
        assert not batch.cells[place, len(cells) :].any()
    assert batch.cells.shape == (2, max(len(own[1].trajectory(place).cells) for place in range(2)), 3)
    first, second = batch.parts(2)
    assert torch.equal(first.cells, batch.cells[:1])
    assert torch.equal(second.cells, batch.cells[1:])


def test_cells_of_a_shared_mesh_are_shared(tmp_path):
    file = write(shared_source(20, cells=CELLS.astype(np.int32)), tmp_path / "a.h5")
    data = Dataset(file, "train")
    batch = data.collate([data[0], data[1]])
    assert batch.cells.tolist() == CELLS.tolist()
    assert all(torch.equal(part.cells, batch.cells) for part in batch.parts(2))


def test_a_surrogate_says_that_it_wants_cells(own):
    surrogate, file = own
    found = file.trajectory(19)
    assert surrogate.card.model["cells"] is True
    call = (found.fields[0], found.points)
    with pytest.raises(
        InputError, match=r"cells: expected \(cell, corner\).*trained with the edges of cells, got none.*Delaunay"
    ):
        surrogate.solve(*call)
    with pytest.raises(InputError, match=rf"cells: expected indices 0 … {len(found.points) - 1} of points"):
        surrogate.solve(*call, cells=found.cells + 1)
    for wrong in (found.cells + 0.5, found.cells[0], found.cells[:0]):
        with pytest.raises(InputError, match=r"cells: expected \(cell, corner\).*got shape"):
            surrogate.solve(*call, cells=wrong)


def test_solving_with_cells_is_what_the_data_file_says(own):
    """In a batch of padded meshes, alone, as a list, with a batch axis, and as a function that is differentiated."""
    surrogate, file = own
    data = Dataset(file, "train")
    batch = data.collate([data[0], data[1]])
    wanted = surrogate.predicted(batch).numpy()
    found = [file.trajectory(place) for place in range(2)]
    several = surrogate.solve(
        [one.fields[0] for one in found], [one.points for one in found], cells=[one.cells for one in found]
    )
    for place, one in enumerate(found):
        alone = surrogate.solve(one.fields[0], one.points, cells=one.cells)
        np.testing.assert_allclose(alone, wanted[place][:, : len(one.points)], rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(several[place], alone)
        batched = surrogate.solve(one.fields[:1], one.points, cells=one.cells[None])
        np.testing.assert_array_equal(batched[0], alone)
        module = surrogate.differentiable(one.points, cells=one.cells)
        state = torch.from_numpy(one.fields[0]).requires_grad_()
        answer = module(state)
        np.testing.assert_allclose(answer.detach().numpy(), alone, rtol=1e-5, atol=1e-6)
        answer.square().sum().backward()
        assert float(state.grad.abs().min()) > 0
    other = surrogate.solve(found[0].fields[0], found[0].points, cells=found[0].cells[:5])
    assert np.abs(other - several[0]).max() > 1e-4


def test_evaluation_and_prediction_take_cells_from_the_file(own, tmp_path):
    surrogate, file = own
    assert cp.evaluate(surrogate, file).num_samples == 2
    out = cp.predict(surrogate, file.path, tmp_path / "b.h5", split="test")
    one = file.trajectory(19)
    wanted = surrogate.solve(one.fields[0], one.points, cells=one.cells)
    np.testing.assert_allclose(cp.DataFile(out).trajectory(1).fields[1:], wanted, rtol=1e-5, atol=1e-6)
    np.savez(tmp_path / "start.npz", initial=one.fields[0], points=one.points, cells=one.cells)
    answered = cp.predict(surrogate, tmp_path / "start.npz", tmp_path / "c.npz")
    np.testing.assert_allclose(np.load(answered)["fields"][0, 1:], wanted, rtol=1e-5, atol=1e-6)
    both = {"initial": one.fields[[0, 1]], "points": one.points, "cells": np.stack([one.cells] * 2)}
    np.savez(tmp_path / "two.npz", **both)
    answered = cp.predict(surrogate, tmp_path / "two.npz", tmp_path / "d.h5")
    np.testing.assert_allclose(cp.DataFile(answered).trajectory(0).fields[1:], wanted, rtol=1e-5, atol=1e-6)
    np.savez(tmp_path / "wrong.npz", initial=one.fields[0], points=one.points, cells=one.cells * 0.5)
    with pytest.raises(FileError, match=r"array cells.*expected whole numbers"):
        cp.predict(surrogate, tmp_path / "wrong.npz", tmp_path / "e.npz")
    bare = write(without_cells(own_source(20)), tmp_path / "bare.h5")
    with pytest.raises(FileError, match="has no cells, and the surrogate was trained with them"):
        cp.evaluate(surrogate, bare)


def test_without_cells_edges_lead_to_the_nearest_points(tmp_path):
    """Where the file has none, or where the recipe wants none; and then there is no place for them."""
    bare, full = write(without_cells(own_source(20)), tmp_path / "a.h5"), write(own_source(20), tmp_path / "b.h5")
    cp.fit(recipe(bare.path), tmp_path / "bare")
    cp.fit(recipe(full.path, cells=False), tmp_path / "full")
    one = full.trajectory(19)
    answers = []
    for run in ("bare", "full"):
        surrogate = cp.Surrogate.load(tmp_path / run)
        assert surrogate.card.model["cells"] is False
        answers.append(surrogate.solve(one.fields[0], one.points))
        with pytest.raises(InputError, match="cells: expected none, since the surrogate was trained without, got some"):
            surrogate.solve(one.fields[0], one.points, cells=one.cells)
    np.testing.assert_array_equal(*answers)
    with pytest.raises(ConfigError, match=r"model.cells: .*a.h5 has no cells. Leave it out"):
        cp.fit(recipe(bare.path, cells=True), tmp_path / "c")


def test_models_that_read_no_cells_know_nothing_of_them(own):
    """No word in their files, no place in their calls."""
    config = MODELS["lno"].preset("navier_stokes_2d_small")
    assert "cells" not in config.model_dump()
    with pytest.raises(ConfigError, match="cells: this model reads no edges of a mesh; leave it out"):
        MODELS["lno"].preset("navier_stokes_2d_small", cells=True)
    model, points = config.build(), torch.rand(30, 2)
    with pytest.raises(InputError, match="cells: expected none, got some, and this model reads no cells"):
        model(torch.rand(1, 30, 1), points, 1, cells=torch.zeros(2, 3, dtype=torch.int64))
