"""Windows moved by symmetries: values on grids, coordinates on meshes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.data.augment import Augmentation
from calm_pde.errors import ConfigError
from calm_pde.geometry import Box, cell_centers, tensor_grid
from calm_pde.records.batch import Batch
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry, Turned, isotropic
from tests.train import runs

UNIT = Box((0.0, 0.0), (1.0, 1.0), True)
NAMES = ("p", "u", "v")


def described(points: np.ndarray | None, **changes: Any) -> Description:
    known: dict[str, Any] = {"symmetries": isotropic(UNIT, 3, velocity=(1, 2))} | changes
    return Description(
        name="waves",
        fields=tuple(Field(name=name) for name in NAMES),
        box=known.pop("box", UNIT),
        times=np.arange(3.0),
        points=points,
        **known,
    )


def batch_of(points: np.ndarray, values: np.ndarray, count: int, own: bool = False) -> Batch:
    """So many windows with the same values (time, point, channel)."""
    where = torch.from_numpy(points).float()
    return Batch(
        fields=torch.from_numpy(values).float().expand(count, -1, -1, -1),
        times=torch.arange(3.0),
        points=where.expand(count, -1, -1) if own else where,
        samples=torch.arange(count),
        starts=torch.zeros(count, dtype=torch.int64),
    )


def blob(points: np.ndarray) -> np.ndarray:
    """A pressure around a place, and a velocity away from it: (3 times, point, 3)."""
    away = (points - [0.3, 0.6] + 0.5) % 1 - 0.5
    pressure = np.exp(-40 * (away**2).sum(axis=-1))
    return np.stack([np.concatenate([pressure[:, None], pressure[:, None] * away], axis=1) * (1 + t) for t in range(3)])


def assert_blobs(points: np.ndarray, fields: np.ndarray) -> np.ndarray:
    """Each is the blob about another place, velocity and all; the place."""
    pressure = fields[0, :, 0]
    highest = pressure.argmax()
    center = points[highest] - fields[0, highest, 1:] / pressure[highest]
    away = (points - center + 0.5) % 1 - 0.5
    np.testing.assert_allclose(fields[0, :, 1:], pressure[:, None] * away, atol=1e-5)
    np.testing.assert_allclose(fields[2], 3 * fields[0], rtol=1e-5)
    return center % 1


@pytest.mark.parametrize("centered", [True, False])
def test_values_move_on_a_grid(centered: bool) -> None:
    """To every cell in every orientation, by exact copies; the grid stays."""
    axis = cell_centers(16) if centered else np.arange(16) / 16
    points = tensor_grid(axis, axis)
    batch = batch_of(points, blob(points), 64)
    moved = Augmentation(described(points, grid_shape=(16, 16))).moved(batch, 0, 0)
    assert moved.points is batch.points
    centers = np.array([assert_blobs(points, fields.double().numpy()) for fields in moved.fields])
    for fields in moved.fields:
        assert torch.equal(fields[..., 0].sort().values, batch.fields[0, ..., 0].sort().values)
    assert len(np.unique((centers * 16).round(), axis=0)) > 50


def test_coordinates_move_on_a_mesh() -> None:
    points = np.random.default_rng(0).uniform(size=(400, 2))
    batch = batch_of(points, blob(points), 32)
    for own in (False, True):
        batch = batch_of(points, blob(points), 32, own)
        moved = Augmentation(described(None if own else points)).moved(batch, 0, 0)
        assert moved.points.shape == (32, 400, 2)
        assert bool(((moved.points >= 0) & (moved.points < 1)).all())
        assert torch.equal(moved.fields[..., 0], batch.fields[..., 0])
        centers = [
            assert_blobs(where.double().numpy(), fields.double().numpy())
            for where, fields in zip(moved.points, moved.fields, strict=True)
        ]
        assert np.std(centers) > 0.2


def test_node_types_and_cells_stay_with_their_points() -> None:
    """Of a mesh that all shared, and that each window has for itself once it has moved."""
    points = np.random.default_rng(0).uniform(size=(40, 2))
    kinds, cells = torch.arange(40), torch.arange(30).view(10, 3)
    batch = dataclasses.replace(batch_of(points, blob(points), 4), node_type=kinds, cells=cells)
    moved = Augmentation(described(points)).moved(batch, 0, 0)
    for part in moved.parts(4):
        assert part.node_type is not None
        assert part.cells is not None
        assert torch.equal(part.node_type[0], kinds)
        assert torch.equal(part.cells[0], cells)


def test_a_draw_is_a_function_of_seed_epoch_and_window() -> None:
    points = tensor_grid(cell_centers(8), cell_centers(8))
    batch = batch_of(points, blob(points), 6)
    augmentation = Augmentation(described(points, grid_shape=(8, 8)))
    whole = augmentation.moved(batch, 1, 2).fields
    assert torch.equal(augmentation.moved(batch, 1, 2).fields, whole)
    parts = [augmentation.moved(part, 1, 2).fields for part in batch.parts(3)]
    assert torch.equal(torch.cat(parts), whole)
    for other in (augmentation.moved(batch, 2, 2), augmentation.moved(batch, 1, 3)):
        assert not torch.equal(other.fields, whole)
    later = dataclasses.replace(batch, starts=torch.ones(6, dtype=torch.int64))
    assert not torch.equal(augmentation.moved(later, 1, 2).fields, whole)


def test_a_channel_keeps_its_walls() -> None:
    """A reflection that keeps a box without periodic axes moves coordinates; one that does not is refused by name."""
    box = Box((0.0, -1.0), (3.0, 1.0))
    kept = Symmetry(name="about the center line", axes=(1, -2), fields=(1, 2, -3))
    points = np.random.default_rng(0).uniform(size=(50, 2))
    batch = batch_of(points, blob(points), 16)
    moved = Augmentation(described(None, box=box, symmetries=(kept,))).moved(batch, 0, 0)
    turned = [bool((where[:, 1] != batch.points[:, 1]).any()) for where in moved.points]
    assert 2 < sum(turned) < 14
    for where, fields, other in zip(moved.points, moved.fields, turned, strict=True):
        torch.testing.assert_close(where[:, 1], 1 - batch.points[:, 1] if other else batch.points[:, 1])
        assert torch.equal(fields[..., 2], (-1 if other else 1) * batch.fields[0, ..., 2])
    gone = Symmetry(name="about x = 0", axes=(-1, 2))
    with pytest.raises(ConfigError, match="the symmetry 'about x = 0' moves points out of the box"):
        Augmentation(described(None, box=box, symmetries=(gone,)))


def test_what_can_not_be_is_refused_by_name(tmp_path) -> None:
    points = tensor_grid(cell_centers(6), cell_centers(6))
    off = Symmetry(name="a third of a cell", shift=(1 / 18, 0.0))
    with pytest.raises(ConfigError, match="the symmetry 'a third of a cell' does not map the grid onto itself"):
        Augmentation(described(points, grid_shape=(6, 6), symmetries=(off,)))
    with pytest.raises(ConfigError, match=r"train\.augment: the data file declares no symmetries"):
        runs.trainer(tmp_path / "run", train={"augment": "symmetries"})


def test_arrays_declare_them_and_a_training_takes_them(tmp_path) -> None:
    points = tensor_grid(cell_centers(8), cell_centers(8))
    fields = np.random.default_rng(0).standard_normal((20, 5, 64, 1))
    symmetries = [{"name": "half turn", "axes": (-1, -2)}, cp.Symmetry(name="along x", shift=(1.0, 0.0), any_multiple=True)]
    known: dict[str, Any] = {"box": UNIT, "grid_shape": (8, 8), "symmetries": symmetries}
    file = cp.from_arrays(points, fields, np.arange(5.0), out=tmp_path / "a.h5", **known)
    assert [one.name for one in file.description.symmetries] == ["half turn", "along x"]
    changes: dict[str, Any] = {"data": {"file": str(file.path), "frame_stride": 1}}
    plain = runs.trainer(tmp_path / "plain", **changes, train={"epochs": 1})
    moved = runs.trainer(tmp_path / "moved", **changes, train={"epochs": 1, "augment": "symmetries"})
    ours, theirs = (next(run.batches(run.groups(0)))[0].fields for run in (moved, plain))
    assert not torch.equal(ours, theirs)
    assert torch.equal(ours.sort(dim=2).values, theirs.sort(dim=2).values)
    with pytest.raises(ConfigError, match="symmetries: wrong: expected 2 axes and, if any, 1 fields, got 3 and 0"):
        cp.from_arrays(
            points, fields, np.arange(5.0), out=tmp_path / "b.h5", box=UNIT, symmetries=[{"name": "wrong", "axes": (1, 2, 3)}]
        )


def conditioned(points: np.ndarray, own: bool) -> tuple[Description, Batch]:
    """Blobs with a wind (a vector), a place that a reflection moves, and the height of each point."""
    conditions = {
        "wind_x": "-wind_x",
        "wind_y": "wind_y",
        "x0": {"of": "x0", "sign": -1, "plus": 1.0},
        "gust": "gust",
        "height": "height",
    }
    mirror = Symmetry(name="reflection", axes=(-1, 2), shift=(1.0, 0.0), fields=(1, -2, 3), conditions=conditions)
    told = described(
        None if own else points,
        symmetries=(mirror,),
        grid_shape=None if own else (8, 8),
        parameters=("wind_x", "wind_y", "x0"),
        signals=("gust",),
        features=(Field(name="height"),),
    )
    batch = dataclasses.replace(
        batch_of(points, blob(points), 24, own),
        parameters=torch.tensor([[2.0, 3.0, 0.3]]).expand(24, -1),
        signals=torch.ones(24, 2, 1),
        signal_times=torch.tensor([[0.0, 2.0]]).expand(24, -1),
        features=torch.from_numpy(points[:, :1] ** 2).float().expand(24, -1, -1),
    )
    return told, batch


@pytest.mark.parametrize("own", [False, True])
def test_conditions_move_as_declared(own: bool) -> None:
    """Features go with their points, vectors turn, places are reflected; each window by the draw of its values."""
    points = tensor_grid(cell_centers(8), cell_centers(8))
    told, batch = conditioned(points, own)
    moved = Augmentation(told, ("wind_x", "wind_y", "x0", "gust", "height")).moved(batch, 0, 0)
    turned = [bool((fields[..., 1].sum() * batch.fields[0, ..., 1].sum()) < 0) for fields in moved.fields]
    assert 4 < sum(turned) < 20
    for row, other in enumerate(turned):
        wanted = [-2.0, 3.0, 0.7] if other else [2.0, 3.0, 0.3]
        np.testing.assert_allclose(moved.parameters[row], wanted, rtol=1e-6)
        where = moved.points[row] if own else moved.points
        x = 1 - where[:, :1] if other else where[:, :1]
        torch.testing.assert_close(moved.features[row], x**2)
    assert torch.equal(moved.signals, batch.signals)


def test_conditions_of_which_nothing_is_declared() -> None:
    """A model that is given them refuses; from another's batches they are gone, since nobody knows what they are now."""
    points = tensor_grid(cell_centers(8), cell_centers(8))
    told, batch = conditioned(points, False)
    mirror = told.symmetries[0].model_copy(update={"conditions": {"height": Turned(of="height")}})
    told = dataclasses.replace(told, symmetries=(mirror,))
    with pytest.raises(
        ConfigError, match="the symmetry 'reflection' does not say what becomes of 'wind_x', which the model is given"
    ):
        Augmentation(told, ("height", "wind_x"))
    moved = Augmentation(told, ("height",)).moved(batch, 0, 0)
    assert moved.parameters is moved.signals is moved.signal_times is None
    assert moved.features is not None


def test_node_types_that_do_not_map_onto_themselves_are_refused() -> None:
    points = tensor_grid(cell_centers(6), cell_centers(6))
    known: dict[str, Any] = {"grid_shape": (6, 6), "symmetries": (Symmetry(name="reflection", axes=(-1, 2), shift=(1.0, 0.0)),)}
    Augmentation(described(points, **known, node_type=(points[:, 1] > 0.5).astype(int)))
    with pytest.raises(ConfigError, match="'reflection' moves node types to points of other types"):
        Augmentation(described(points, **known, node_type=(points[:, 0] > 0.5).astype(int)))
