"""What every problem keeps: its description, exact repetition, and trajectories that do not depend on their batch."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.errors import ConfigError
from calm_pde.solvers import (
    PROBLEMS,
    Airfoil,
    Burgers,
    Compressible,
    Cylinder,
    Elasticity,
    Heat,
    NavierStokes,
    Problem,
    SteadyAirfoil,
)

SMALL = {
    "burgers": Burgers(points=64, frames=3, duration=0.05),
    "navier_stokes": NavierStokes(points=16, resolution=32, frames=3, first_time=0.1, spacing=0.1),
    "compressible": Compressible(points=8, frames=3, duration=0.05),
    "cylinder": Cylinder(points=200, frames=3, spacing=0.02),
    "airfoil": Airfoil(points=400, frames=3, spacing=0.4),
    "heat": Heat(points=150, frames=3, duration=60.0),
    "steady_airfoil": SteadyAirfoil(points=400, stride_around=10, stride_outward=5, fall=0.02),
    "elasticity": Elasticity(around=12, outward=7, elements_around=24, elements_outward=12),
}


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.fixture(params=sorted(SMALL))
def problem(request) -> Problem:
    return SMALL[request.param]


def test_every_problem_is_tested():
    assert set(SMALL) == set(PROBLEMS)
    assert all(isinstance(SMALL[name], PROBLEMS[name]) for name in SMALL)


def test_the_description_fits_the_trajectories(problem):
    description = problem.description()
    (trajectory,) = problem.solve(draws(0))
    points = trajectory.points if description.points is None else description.points
    assert points is not None
    assert trajectory.fields.shape == (len(description.times), len(points), len(description.fields))
    assert trajectory.fields.dtype == np.float32
    assert np.isfinite(trajectory.fields).all()
    assert trajectory.seconds > 0
    assert description.grid_shape is None or np.prod(description.grid_shape) == len(points)
    assert (np.diff(description.times) > 0).all()
    unit, periodic = description.box.to_unit(points), np.array(description.box.periodic)
    assert unit.min() >= 0
    assert (unit.max(axis=0) < np.where(periodic, 1, 1 + 1e-9)).all()
    assert description.provenance["settings"] == problem.model_dump()
    assert description.name in PROBLEMS
    assert (trajectory.parameters is None) == (not description.parameters)
    assert trajectory.parameters is None or trajectory.parameters.shape == (len(description.parameters),)
    assert (trajectory.signals is None) == (not description.signals)
    assert set(description.units) <= {*description.parameters, *description.signals}


@pytest.mark.parametrize("problem", [problem for problem in SMALL.values() if problem.description().signals])
def test_signals_are_known_from_the_first_frame_to_the_last(problem):
    description = problem.description()
    (trajectory,) = problem.solve(draws(0))
    assert trajectory.signals.shape == (len(trajectory.signal_times), len(description.signals))
    assert (np.diff(trajectory.signal_times) > 0).all()
    assert trajectory.signal_times[[0, -1]].tolist() == description.times[[0, -1]].tolist()
    known = {known.field: known.node_types for known in description.prescribed}
    assert set(known) <= set(description.field_names)
    assert {code for codes in known.values() for code in codes} <= set(description.node_types)


def test_conserved_fields_keep_their_mean(problem):
    description = problem.description()
    (trajectory,) = problem.solve(draws(0))
    for channel, field in enumerate(description.fields):
        if field.name in description.conserved:
            means = trajectory.fields[..., channel].astype(np.float64).mean(axis=1)
            assert np.abs(means - means[0]).max() < 1e-6 * np.abs(trajectory.fields[..., channel]).max()


def test_a_trajectory_is_its_own_generators_alone(problem):
    together = [trajectory.fields for trajectory in problem.solve(draws(0, 1, 2))]
    again = [next(problem.solve(draws(seed))).fields for seed in (0, 1, 2)]
    assert all(np.array_equal(one, other) for one, other in zip(together, again, strict=True))
    assert not np.array_equal(together[0], together[1])


@pytest.mark.parametrize("name", sorted(SMALL))
def test_wrong_options_are_named(name):
    first = next(iter(PROBLEMS[name].model_fields))
    with pytest.raises(ConfigError, match=rf"{first}.*got 1"):
        PROBLEMS[name].model_validate({first: 1})
    with pytest.raises(ConfigError, match=f"Did you mean '{first}'"):
        PROBLEMS[name].model_validate({f"{first[:-1]}_{first[-1]}": 8})
