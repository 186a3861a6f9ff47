"""Where a solve leaves what was learned, it says so each time, by name and in the caller's own coordinates."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from calm_pde.errors import InputError, OutsideBoxWarning, OutsideMeshWarning, TrainingRangeWarning
from calm_pde.geometry import Box
from calm_pde.surrogate.nearness import far_queries
from calm_pde.surrogate.surrogate import Surrogate
from tests.surrogate.test_surrogate import POINTS, STATE, one_thread, small_surrogate, state  # noqa: F401

PLATE = Box((0.0, 0.0), (2.0, 1.0))


def plate(count: int = 2000, seed: int = 0) -> np.ndarray:
    """A cloud on a plate with a hole of radius 0.25 around (1, 0.5)."""
    points = np.random.default_rng(seed).uniform((0, 0), (2, 1), size=(count, 2))
    return points[np.linalg.norm(points - [1.0, 0.5], axis=1) > 0.25]


def test_queries_in_the_hole_of_a_plate_are_far():
    """All that are deeper in it than a few spacings, and none on the plate."""
    points, asked = plate(), np.random.default_rng(1).uniform((0, 0), (2, 1), size=(4000, 2))
    far, away = far_queries(points, asked, PLATE), np.linalg.norm(asked - [1.0, 0.5], axis=1)
    spacing = np.sqrt(2.0 / 2000)
    assert not far[away > 0.25].any()
    assert far[away < 0.25 - 6 * spacing].all()


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_query_between_the_points_of_a_grid_is_far(dim):
    axis = (np.arange(9) / 8,) * dim
    grid = np.stack(np.meshgrid(*axis, indexing="ij"), axis=-1).reshape(-1, dim)
    box = Box((0.0,) * dim, (1.0,) * dim)
    asked = np.random.default_rng(0).uniform(size=(500, dim))
    assert not far_queries(grid, asked, box).any()
    assert far_queries(grid, asked + 1.5, box).all()
    graded = grid**2  # spacings from 1/64 to 15/64
    assert not far_queries(graded, asked**2, box).any()


def test_a_periodic_axis_has_no_end():
    points = np.random.default_rng(0).uniform((0.0, 0.0), (2.0, 0.9), size=(500, 2))
    asked = np.array([[1.0, 0.95], [1.0, -2.05], [1.0, 1.5]])
    assert not far_queries(points, asked, Box((0.0, 0.0), (2.0, 1.0), (False, True))).any()
    assert far_queries(points, asked, PLATE).tolist() == [False, True, True]


@pytest.fixture(scope="module")
def surrogate() -> Surrogate:
    return small_surrogate(box=PLATE)


def test_far_queries_are_told_of_hidden_or_answered(surrogate):
    points = plate(600)
    asked, values = np.array([[1.0, 0.5], [0.2, 0.2]]), state(points)
    with pytest.warns(OutsideMeshWarning, match="queries: 1 of 2 lie far from every point of the mesh"):
        told = surrogate.solve(values, points, queries=asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain = surrogate.solve(values, points, queries=asked, outside="answer")
        hidden = surrogate.solve(values, points, queries=asked, outside="nan")
        baked = surrogate.bake(points, asked, outside="nan").solve(values)
        many = surrogate.solve(np.stack([values, values]), points, queries=asked, outside="nan")
        listed = surrogate.solve([values, values], [points, points[::-1]], queries=asked, outside="nan")
        surrogate.solve(values, points)
    np.testing.assert_array_equal(told, plain)
    for found in (hidden, baked, *many, *listed):
        assert np.isnan(found[:, 0]).all()
        assert np.isfinite(found[:, 1]).all()
    np.testing.assert_array_equal(hidden[:, 1], plain[:, 1])
    with pytest.raises(InputError, match="outside: expected one of warn, nan, answer, got 'nand'"):
        surrogate.solve(values, points, queries=asked, outside="nand")


def test_a_mesh_in_other_units_is_told_each_time_in_the_callers_words(surrogate):
    points = plate(300)
    for _ in range(2):
        with pytest.warns(OutsideBoxWarning) as found:
            surrogate.solve(state(points), 1000 * points)
        (one,) = found.list
        text = str(one.message)
        assert text.startswith(f"points: {len(points)} of {len(points)} lie outside the box of the training; they reach from (")
        assert text.endswith("Give physical coordinates in the unit of the training data: the surrogate extrapolates there.")
        assert "the box from (0, 0) to (2, 1)" in text
    with pytest.warns(OutsideBoxWarning, match="queries: 1 of 1 lie outside"):
        surrogate.solve(state(points), points, queries=np.array([[2.5, 0.5]]), outside="answer")
    with pytest.warns(OutsideBoxWarning, match="points: "):
        surrogate.bake(1000 * points)


def test_a_mesh_of_few_points_is_told_of(surrogate):
    coarse = Surrogate(surrogate.model, surrogate.card.model_copy(update={"fewest_points": 200}))
    with pytest.warns(TrainingRangeWarning, match="points: 40, where the surrogate was trained on at least 200"):
        coarse.solve(STATE, POINTS)
    points = plate(150)
    coarse.solve(state(points), points)


def test_loading_onto_a_device(tmp_path, surrogate):
    surrogate.save(tmp_path / "a")
    assert Surrogate.load(tmp_path / "a", device="cpu").device.type == "cpu"
    assert Surrogate.load(tmp_path / "a", device="meta").device.type == "meta"
    with pytest.raises(InputError, match="device: expected a device that torch can use, got nowhere"):
        Surrogate.load(tmp_path / "a", device="nowhere")
