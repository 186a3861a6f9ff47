"""Plates with a hole: what is stored, what a first frame tells, and that the default resolution is enough."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import LinearNDInterpolator

from calm_pde.errors import ConfigError
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.triangles import node_types, qualities
from calm_pde.solvers.problems.heat import CAPACITY, CODES, NODE_TYPES, Heat, Plate, Spot

SMALL = Heat(points=200, frames=4, duration=240.0)


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(np.random.SeedSequence(0, spawn_key=(seed,))) for seed in seeds]


def one(problem: Heat, seed: int = 0) -> Trajectory:
    return next(problem.solve(draws(seed)))


def with_settings(**settings: object) -> Heat:
    return Heat.model_validate(SMALL.model_dump() | settings)


@pytest.fixture(scope="module")
def small() -> Trajectory:
    return one(SMALL)


# ------------------------------------------------------------------------------------------------ what is stored


def test_the_description_says_what_is_given():
    description = SMALL.description()
    assert description.parameters == ("source_y", "conductivity", "power", "speed")
    assert description.signals == ("wall_temperature",)
    assert description.units["conductivity"] == "W/(m·K)"
    assert set(description.units) == {*description.parameters, "wall_temperature"}
    (prescribed,) = description.prescribed
    assert (prescribed.field, prescribed.node_types) == ("temperature", (6,))
    assert NODE_TYPES[6] == "wall"


def test_a_number_is_a_setting_and_no_parameter(small):
    fixed = with_settings(power=30.0)
    assert fixed.description().parameters == ("source_y", "conductivity", "speed")
    assert "power" not in fixed.description().units
    assert np.array_equal(one(fixed).parameters, np.delete(small.parameters, 2))


def test_the_wall_has_its_signal_at_every_frame(small):
    """To float32's rounding; its knots run from the first frame to the last and are the sample's own."""
    times, values = small.signal_times, small.signals[:, 0]
    assert (times[0], times[-1]) == (0.0, 240.0)
    assert np.diff(times).min() > 0.1 * 240 / 5
    assert len(times) == len(values) == 6
    on_wall = small.node_type == 6
    assert np.array_equal(on_wall, small.points[:, 0] == 0)
    given = np.interp(SMALL.description().times, times, values)
    assert np.allclose(small.fields[:, on_wall, 0], given[:, None], rtol=1e-7)
    other = one(SMALL, 1)
    assert not np.array_equal(other.signal_times[1:-1], times[1:-1])


def test_node_types_are_where_they_belong(small):
    x, y = small.points.T
    edge = np.isin(x, [0, 0.2]) | np.isin(y, [0, 0.1])
    assert np.array_equal(small.node_type == 2, edge & (x > 0))
    hole = small.points[small.node_type == 1]
    middle = 0.5 * (hole.min(axis=0) + hole.max(axis=0))
    away = np.linalg.norm(hole - middle, axis=1)
    assert away.std() < 0.02 * away.mean()
    assert 0.01 <= away.mean() <= 0.025
    assert np.linalg.norm(small.points - middle, axis=1).min() > 0.98 * away.mean()


def test_meshes_are_fair_and_as_large_as_asked():
    for seed, draw in enumerate(draws(*range(6))):
        plate = Plate((draw.uniform(0.06, 0.14), draw.uniform(0.035, 0.065)), (0.01, 0.025)[seed % 2])
        mesh = plate.mesh(plate.scale(800), draw)
        assert len(mesh.points) == pytest.approx(800, rel=0.05)
        quality = qualities(mesh.points, mesh.cells)
        assert quality.min() > 0.4
        assert quality.mean() > 0.92
        assert set(node_types(mesh, CODES).tolist()) == set(NODE_TYPES)


# ------------------------------------------------------------------------------------------------ what a first frame tells


def test_the_first_frame_is_level_and_tells_no_parameter(small):
    """The plate is as warm as the wall at the start, whatever conductivity, power and speed; later it is not."""
    assert np.ptp(small.fields[0]) == 0
    assert small.fields[0, 0, 0] == pytest.approx(small.signals[0, 0], rel=1e-7)
    for name in ("conductivity", "power", "speed"):
        other = one(with_settings(**{name: 1.5 * small.parameters[SMALL.description().parameters.index(name)]}))
        assert np.array_equal(other.points, small.points)
        assert np.array_equal(other.fields[0], small.fields[0])
        assert np.abs(other.fields[-1] - small.fields[-1]).max() > 1.0


def test_a_random_start_is_smooth_and_meets_the_wall(small):
    waved = one(with_settings(initial="random"))
    assert np.array_equal(waved.points, small.points)
    assert np.array_equal(waved.signals, small.signals)
    start = waved.fields[0, :, 0]
    assert 5 < start.std() < 60
    assert np.allclose(start[waved.node_type == 6], waved.signals[0, 0], rtol=1e-7)
    edges = waved.cells[:, [0, 1]]
    assert np.abs(np.diff(start[edges], axis=1)).max() < 0.5 * np.ptp(start)


# ------------------------------------------------------------------------------------------------ physics


def test_a_spot_has_its_power_and_moves():
    spot = Spot(50.0, 2e-3, (0.1, 0.05), 0.008, 0.005)
    axis = np.linspace(-0.1, 0.3, 401)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    places = np.stack([x.ravel(), y.ravel()], axis=1)
    for time in (0.0, 20.0):
        found = spot(places, time)
        assert found.sum() * 1e-6 * 0.005 == pytest.approx(50.0, rel=1e-6)
        assert np.allclose(found @ places / found.sum(), [0.1 + 2e-3 * time, 0.05], atol=1e-6)


def test_heat_that_comes_in_is_in_the_plate():
    """A wall of the plate's own temperature, and little time: ρc d ∫ΔT dA is the power times the time."""
    problem = with_settings(
        wall=(300.0, 300.0), power=50.0, conductivity=15.0, speed=1e-4, source_y=(0.03, 0.03), duration=3.0,
        center_x=(0.12, 0.12), center_y=(0.06, 0.06), radius=(0.01, 0.01), spot=0.005, points=800,
    )  # fmt: skip
    found = one(problem)
    corners = found.points[found.cells]
    (ax, ay), (bx, by) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 2] - corners[:, 0]).T
    warmth = found.fields[-1, :, 0].astype(np.float64)[found.cells].mean(axis=1) - 300
    assert CAPACITY * 0.005 * (0.5 * (ax * by - ay * bx) @ warmth) == pytest.approx(50 * 3, rel=0.01)


def test_a_hole_in_the_wind_cools_the_plate(small):
    cooled = one(with_settings(hole_transfer=1000.0, ambient=200.0))
    by_hole = small.node_type == 1
    change = cooled.fields[-1, :, 0] - small.fields[-1, :, 0]
    assert change[by_hole].max() < -5
    assert change[by_hole].mean() < change[~by_hole].mean() < 0
    assert change.max() < 1e-3


def refined_error(seed: int) -> float:
    """Of the default 800 points and steps of 5 s, against 7,200 points and 1 s, at the coarse mesh's points.

    Relative to what has changed since the start.
    """
    problem = Heat()
    coarse = one(problem, seed)
    fine = one(Heat(points=7200, time_step=1.0), seed)
    found = np.stack([LinearNDInterpolator(fine.points, frame[:, 0])(coarse.points) for frame in fine.fields])
    inside = np.isfinite(found).all(axis=0)
    change = found[:, inside] - found[0, inside]
    return float(np.linalg.norm(coarse.fields[:, inside, 0] - found[:, inside]) / np.linalg.norm(change))


@pytest.mark.slow
def test_the_default_settings_are_converged():
    errors = [refined_error(seed) for seed in range(2)]
    print(f"relative L2 error of the change since the start, default settings: {errors}")
    assert max(errors) < 0.01


# ------------------------------------------------------------------------------------------------ options


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"radius": (0.03, 0.02)}, "radius: expected 0 < lower ≤ upper, got 0.03, 0.02"),
        ({"center_y": (0.02, 0.05)}, r"center_y: expected a range within 0.035, 0.065"),
        ({"source_y": (0.02, 0.2)}, r"source_y: expected a range within 0, 0.1, got 0.02, 0.2"),
        ({"conductivity": "60:15"}, "conductivity: expected a number above 0, or low:high"),
        ({"initial": "cold"}, "initial.*got 'cold'"),
        ({"knots": 1}, "knots.*got 1"),
        ({"pionts": 8}, "Did you mean 'points'"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        Heat.model_validate(options)
