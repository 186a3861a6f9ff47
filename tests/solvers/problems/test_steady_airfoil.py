"""The steady airfoil's data: like the published, converged, with shocks where they belong."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calm_pde.data.check import check
from calm_pde.data.generate import generate
from calm_pde.data.readers.geo_fno import SteadyAirfoil as Published
from calm_pde.errors import ConfigError, InputError
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.section import Section
from calm_pde.solvers.problems import steady_airfoil
from calm_pde.solvers.problems.steady_airfoil import Found, SteadyAirfoil, steady_flow
from tests.data.readers.files import write_airfoils
from tests.solvers.surface import shock, surface_pressure

SMALL = SteadyAirfoil(points=400, stride_around=10, stride_outward=5, fall=0.02)
WHOLE = SteadyAirfoil(points=400)


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.fixture(scope="module")
def whole() -> Trajectory:
    return next(WHOLE.solve(draws(0)))


@pytest.fixture(scope="module")
def found() -> Found:
    return steady_flow(Section(), 400, 0.8)


# ------------------------------------------------------------------------------------------------ like the published set


@pytest.mark.parametrize("coordinates", ["physical", "index"])
def test_a_generated_file_is_like_a_converted_one(tmp_path, coordinates):
    """The same name, fields, target, features, times, grid and place of the points: a surrogate of one runs on the other."""
    write_airfoils(tmp_path, shape=(221, 51))
    theirs = Published(path=tmp_path, train=10, test=2, coordinates=coordinates).source().description
    ours = SteadyAirfoil(coordinates=coordinates).description()
    for name in ("name", "fields", "targets", "features", "grid_shape", "node_types", "conserved"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert np.array_equal(ours.times, theirs.times)
    if coordinates == "index":
        assert ours.box == theirs.box
        assert np.array_equal(ours.points, theirs.points)
    else:
        assert ours.points is theirs.points is None
    for name in ("cells", "node_type"):
        assert getattr(ours, name) is getattr(theirs, name) is None


def test_the_box_is_the_smallest_around_the_points(whole):
    """As a converted file's is."""
    box = WHOLE.description().box
    assert tuple(whole.points.min(axis=0)) == box.lower
    assert tuple(whole.points.max(axis=0)) == box.upper


def test_a_sample(whole):
    density, u, v, pressure, mach = whole.fields[0].astype(np.float64).T
    assert whole.fields.shape == (1, 221 * 51, 5)
    assert np.array_equal(whole.features, whole.points)
    assert np.allclose(mach, np.hypot(u, v) * np.sqrt(density / (1.4 * pressure)), rtol=1e-5)
    far = np.arange(221 * 51).reshape(221, 51)[40:180, -1]
    for field, value in ((density, 1), (pressure, 1), (mach, 0.8), (u, 0.8 * np.sqrt(1.4)), (v, 0)):
        assert np.allclose(field[far], value, atol=0.02)
    assert mach.max() > 1
    assert min(density.min(), pressure.min()) > 0
    grid = whole.fields[0].reshape(221, 51, 5)
    assert np.array_equal(grid[:51, 0], grid[:169:-1, 0])  # both sides of the cut
    assert np.array_equal(whole.parameters[[0, -1]], [0, 0])
    assert np.abs(whole.parameters[1:8]).max() <= 0.05


def test_fewer_stored_points_and_index_coordinates_are_the_same_solution(whole):
    fewer = SteadyAirfoil(points=400, stride_around=5, stride_outward=2, coordinates="index")
    (few,) = fewer.solve(draws(0))
    assert np.array_equal(few.fields.reshape(45, 26, 5), whole.fields.reshape(221, 51, 5)[::5, ::2])
    assert np.array_equal(few.features.reshape(45, 26, 2), whole.features.reshape(221, 51, 2)[::5, ::2])
    assert few.points is None
    index = SteadyAirfoil(coordinates="index").description().points
    assert np.array_equal(fewer.description().points, index.reshape(221, 51, 2)[::5, ::2].reshape(-1, 2))


@pytest.mark.parametrize("coordinates", ["physical", pytest.param("index", marks=pytest.mark.slow)])
def test_a_generated_file_is_sound(tmp_path, coordinates):
    problem = SMALL.model_copy(update={"coordinates": coordinates})
    file = generate(problem, tmp_path / "few.h5", samples=6, seed=5, processes=1)
    doubts = {"split", "parameter rejected_draws", "parameter theta_0"}  # few trajectories, none hard to draw; one node rests
    assert {finding.subject for finding in check(file) if finding.level != "good"} <= doubts
    assert file.header.targets == ("mach",)


# ------------------------------------------------------------------------------------------------ physics of the fields


def test_the_residual_falls_by_four_orders(found):
    """A mesh's lack of symmetry is all the lift that a symmetric section has."""
    lift, drag = found.euler.coefficients(found.state)
    print(f"{len(found.history)} iterations, lift {lift:+.4f}, drag {drag:.4f}")
    assert found.history[-1] <= 1e-4
    assert len(found.history) < 150
    assert abs(lift) < 0.05
    assert drag > 0.009


def test_shocks_stand_where_they_should_on_a_coarse_mesh():
    upper, _ = surface_pressure(steady_flow(Section(), 850, 0.8, 1.25))
    print(f"upper shock at {shock(upper):.3f}")
    assert 0.55 < shock(upper) < 0.68


@pytest.mark.slow
def test_drag_falls_with_refinement():
    """Without lift, drag is the shocks' alone: about 0.009."""
    drags, lifts = [], []
    for points in (800, 1600, 3200, 6400, 12800):
        found = steady_flow(Section(), points, 0.8)
        lift, drag = found.euler.coefficients(found.state)
        drags.append(drag)
        lifts.append(abs(lift))
        print(f"| {len(found.state[0])} | {drag:.5f} | {lift:+.4f} | {len(found.history)} | {found.history[-1]:.1e} |")
        assert found.history[-1] <= 1e-4
    assert all(after < before for before, after in itertools.pairwise(drags))
    assert drags[-1] == pytest.approx(0.009, abs=0.001)
    assert lifts[-1] < 0.005


@pytest.mark.slow
def test_shocks_stand_where_they_should():
    found = steady_flow(Section(), 5200, 0.8, 1.25)
    upper, lower = surface_pressure(found)
    lift, drag = found.euler.coefficients(found.state)
    print(f"shocks at {shock(upper):.3f} and {shock(lower):.3f}, lift {lift:.4f}, drag {drag:.5f}")
    assert 0.55 < shock(upper) < 0.68
    assert 0.28 < shock(lower) < 0.42


@pytest.mark.slow
def test_random_shapes_converge():
    """How many of the published distribution's shapes are rejected at the default settings."""
    missed = 0
    for seed in range(20):
        draw = np.random.default_rng(seed)
        found = steady_flow(Section((0.0, *draw.uniform(-0.05, 0.05, size=7))), 2300, 0.8)
        missed += found.history[-1] > 1e-4
        print(f"seed {seed}: {len(found.history)} iterations, {found.history[-1]:.1e}")
    assert missed <= 2


# ------------------------------------------------------------------------------------------------ draws and options


def test_a_shape_that_does_not_converge_is_drawn_again(monkeypatch, found):
    solved = []

    def flow(section: Section, *_: float) -> Found:
        solved.append(section)
        return found if len(solved) == 2 else Found(found.euler, found.state, [1.0, 0.5])

    monkeypatch.setattr(steady_airfoil, "steady_flow", flow)
    (trajectory,) = SMALL.solve(draws(4))
    same = np.random.default_rng(4)
    first, second = (same.uniform(-0.05, 0.05, size=7) for _ in range(2))
    assert solved == [Section((0.0, *first.tolist())), Section((0.0, *second.tolist()))]
    assert trajectory.parameters.tolist() == [0.0, *second.tolist(), 1.0]


def test_a_fall_that_is_never_reached_is_named(monkeypatch, found):
    monkeypatch.setattr(steady_airfoil, "steady_flow", lambda *_: Found(found.euler, found.state, [1.0, 0.5]))
    with pytest.raises(InputError, match=r"fall.*20 shapes"):
        next(SMALL.solve(draws(0)))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"stride_around": 4}, "stride_around: expected a divisor of 10, got 4"),
        ({"stride_outward": 3}, "stride_outward: expected a divisor of 50, got 3"),
        ({"mach": 1.3}, "mach.*got 1.3"),
        ({"displacement": 0.2}, "displacement.*got 0.2"),
        ({"coordinates": "polar"}, "coordinates.*got 'polar'"),
        ({"angel": 1}, "Did you mean 'angle'"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        SteadyAirfoil.model_validate(options)
