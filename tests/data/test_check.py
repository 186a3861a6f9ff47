"""`calm check` finds each thing it promises to find, and counts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from calm_pde.data.check import check, mesh_problems
from calm_pde.data.picture import trajectory_picture
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.geometry import Box
from calm_pde.records.trajectory import Source, Trajectory
from tests.data.sets import own_source, shared_source


def _levels(file: DataFile) -> dict[str, str]:
    return {finding.subject: finding.level for finding in check(file)}


def _changed(path: Path, change: Callable[[int, Trajectory], Trajectory], **description: object) -> DataFile:
    source = shared_source(**description)
    return write(Source(source.description, [change(i, t) for i, t in enumerate(source.trajectories)], 10), path)


@pytest.mark.parametrize("make", [shared_source, own_source])
def test_good_files_are_good(make: Callable, tmp_path: Path) -> None:
    findings = list(check(write(make(20), tmp_path / "a.h5")))
    assert {finding.level for finding in findings} == {"good"}
    assert "20 trajectories" in findings[0].text


def test_not_finite_constant_and_jumping_values(tmp_path: Path) -> None:
    def change(index: int, trajectory: Trajectory) -> Trajectory:
        fields = trajectory.fields.copy()
        fields[..., 1] = 2.0
        if index in (3, 7):
            fields[1, index, 0] = np.nan if index == 3 else np.inf
        if index == 5:
            fields[..., 0] *= 1e6
        return dataclasses.replace(trajectory, fields=fields)

    found = {finding.subject: finding for finding in check(_changed(tmp_path / "a.h5", change))}
    assert found["finite"].level == "wrong"
    assert "2 trajectories" in found["finite"].text
    assert "u 2" in found["finite"].text
    assert found["field v"].level == "doubtful"
    assert "constant" in found["field v"].text
    assert found["scale"].level == "doubtful"


def test_leaks_and_empty_splits(tmp_path: Path) -> None:
    first = next(iter(shared_source().trajectories))

    def change(index: int, trajectory: Trajectory) -> Trajectory:
        return dataclasses.replace(first, split="test") if index == 9 else dataclasses.replace(trajectory, split="train")

    found = {finding.subject: finding for finding in check(_changed(tmp_path / "a.h5", change))}
    assert found["leaks"].level == "wrong"
    assert found["leaks"].text.endswith(": 9")
    assert found["split"].level == "doubtful"
    assert "no validation part" in found["split"].text


def test_uneven_times(tmp_path: Path) -> None:
    assert _levels(write(shared_source(times=np.array([0.0, 1, 2, 3, 5])), tmp_path / "a.h5"))["times"] == "doubtful"


def test_damage_is_found(tmp_path: Path) -> None:
    """Someone writes another number into a field: the checksum of the chunk is right, the digest is not."""
    write(shared_source(), tmp_path / "a.h5").close()
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["fields"][4, 0, 0, 0] += 1
        file["times"][1] += 0.1
    levels = _levels(DataFile(tmp_path / "a.h5"))
    assert levels["checksums"] == "wrong"
    assert levels["fingerprint"] == "wrong"


def test_mesh_problems_are_counted() -> None:
    draw = np.random.default_rng(0)
    box = Box((0.0, 0.0), (1.0, 1.0), (True, False))
    grid = np.stack(np.meshgrid(np.arange(10) / 10, np.linspace(0, 1, 10), indexing="ij"), -1).reshape(-1, 2)
    assert set(mesh_problems(grid, None, box).values()) == {0}
    seam = np.concatenate([grid, grid[:10] + np.array([1.0, 0.0])])  # the same points one period further
    assert mesh_problems(seam, None, box)["duplicates"] == 20
    assert mesh_problems(np.concatenate([grid, grid[3:4]]), None, box)["duplicates"] == 2
    outside = np.concatenate([grid, [[0.5, 1.5], [3.0, 0.55]]])  # beyond the period is inside, beyond a wall is not
    assert mesh_problems(outside, None, box)["box"] == 1
    far = np.concatenate([draw.uniform(0, 0.01, size=(50, 2)), [[0.5, 0.9]]])
    assert mesh_problems(far, None, box)["isolated"] == 1
    graded = np.stack([1.5 ** -np.arange(30.0), np.full(30, 0.5)], axis=1)  # spacings from 1/3 to 3e-6: none is alone
    open_box = Box((0.0, 0.0), (1.0, 1.0))
    assert mesh_problems(graded, None, open_box)["isolated"] == 0
    assert mesh_problems(np.concatenate([graded, [[1e-5, 0.9]]]), None, open_box)["isolated"] == 1
    assert mesh_problems(np.where(grid == grid[5], np.nan, grid), None, box)["points"] > 0
    assert mesh_problems(grid, np.array([[0, 1, 2], [0, 1, 100]]), box)["cells"] == 1


def test_a_structured_grid_may_close_along_its_border() -> None:
    """A ring of 12 × 4 points stored with its first ray again at the end; not inside, and not one period further."""
    angle, radius = np.meshgrid(np.linspace(0, 2 * np.pi, 13), np.linspace(0.2, 0.5, 4), indexing="ij")
    ring = np.stack([0.5 + radius * np.cos(angle), 0.5 + radius * np.sin(angle)], axis=-1)
    box, wrapping = Box((0.0, 0.0), (1.0, 1.0)), Box((0.0, 0.0), (1.0, 1.0), (True, False))
    assert mesh_problems(ring.reshape(-1, 2), None, box)["duplicates"] == 8
    assert mesh_problems(ring.reshape(-1, 2), None, box, (13, 4))["duplicates"] == 0
    ring[5, 2] = ring[6, 2]
    assert mesh_problems(ring.reshape(-1, 2), None, box, (13, 4))["duplicates"] == 2
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 11), np.linspace(0, 1, 5), indexing="ij"), -1).reshape(-1, 2)
    assert mesh_problems(grid, None, wrapping, (11, 5))["duplicates"] == 10


@pytest.mark.parametrize("make", [shared_source, own_source])
def test_picture_shows_something(make: Callable, tmp_path: Path) -> None:
    figure = trajectory_picture(write(make(), tmp_path / "a.h5"), 3)
    figure.savefig(tmp_path / "a.png", dpi=50)
    from matplotlib.image import imread

    pixels = imread(tmp_path / "a.png")[..., :3]
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 50
