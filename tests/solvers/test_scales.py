"""Ranges of settings: how they are written, what they draw, and that they leave every other draw as it is."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tyro

from calm_pde.data.generate import generate
from calm_pde.errors import ConfigError
from calm_pde.records.symmetry import Turned
from calm_pde.solvers import Burgers, Compressible, Cylinder, NavierStokes, Problem
from calm_pde.solvers.methods.finite_volume import evolve
from calm_pde.solvers.problems.burgers import BurgersLaw
from calm_pde.solvers.scales import LogRange

RANGED = {
    "burgers": (Burgers(points=64, frames=3, duration=0.05, viscosity="1e-4:1e-2"), "viscosity"),
    "navier_stokes": (
        NavierStokes(points=16, resolution=32, frames=3, first_time=0, spacing=0.2, viscosity="1e-4:1e-2"),
        "viscosity",
    ),
    "compressible": (Compressible(points=8, frames=2, duration=0.02, mach="0.1:1"), "mach"),
    "cylinder": (Cylinder(points=200, frames=2, spacing=0.02, viscosity="1e-3:1e-2"), "viscosity"),
}


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(np.random.SeedSequence(0, spawn_key=(seed,))) for seed in seeds]


@pytest.fixture(params=sorted(RANGED))
def case(request) -> tuple[Problem, str]:
    return RANGED[request.param]


# ------------------------------------------------------------------------------------------------ how they are written


@pytest.mark.parametrize("given", ["1e-4:1e-2", [1e-4, 1e-2], ("0.0001", 0.01), LogRange(1e-4, 1e-2)])
def test_a_range_is_two_numbers_and_comes_back_from_its_file(given):
    problem = NavierStokes(viscosity=given)
    assert problem.viscosity == LogRange(1e-4, 1e-2)
    written = json.loads(problem.model_dump_json())
    assert written["viscosity"] == "0.0001:0.01"
    assert NavierStokes.model_validate(written) == problem


@pytest.mark.parametrize(("given", "kept"), [("1e-3", 1e-3), (1, 1.0), (0, 0.0)])
def test_a_number_stays_a_number(given, kept):
    """In files too, whose fingerprints are those of before ranges."""
    problem = NavierStokes(viscosity=given)
    assert json.loads(problem.model_dump_json())["viscosity"] == kept
    assert (problem.ranged, problem.description().parameters) == ((), ())
    assert problem.parameters(draws(0)[0]) is None


def test_the_command_line_takes_both():
    one, other = (tyro.cli(Burgers, args=["--viscosity", word]) for word in ("0.02", "15:45"))
    assert (one.viscosity, other.viscosity) == (0.02, LogRange(15.0, 45.0))


@pytest.mark.parametrize(
    "given", ["1e-2:1e-3", "0:1", "1:2:3", "-1:1", "1:", "a", "1:inf", -1, True, None, [1, 1], float("nan")]
)
def test_what_is_no_range_is_refused(given):
    with pytest.raises(ConfigError, match=r"viscosity: expected a number at least 0, or low:high with 0 < low < high, got"):
        Burgers(viscosity=given)


def test_a_positive_number_is_not_zero():
    with pytest.raises(ConfigError, match="mach: expected a number above 0, or low:high"):
        Compressible(mach=0)


# ------------------------------------------------------------------------------------------------ what they draw


def test_numbers_are_uniform_in_their_logarithm():
    problem, name = RANGED["navier_stokes"]
    found = np.log10([problem.number(name, draw) for draw in draws(*range(2000))])
    assert ((found >= -4) & (found <= -2)).all()
    counts, _ = np.histogram(found, bins=10, range=(-4, -2))
    assert np.abs(counts - 200).max() < 5 * np.sqrt(200)


def test_names_have_streams_of_their_own():
    both = LogRange(1e-4, 1e-2)
    found = np.log([[both.number(draw, name) for name in ("viscosity", "mach")] for draw in draws(*range(500))])
    assert abs(np.corrcoef(found.T)[0, 1]) < 0.15


def test_a_range_leaves_the_generator_as_it_is():
    (used,), (fresh,) = draws(3), draws(3)
    LogRange(1.0, 2.0).number(used, "viscosity")
    assert used.bit_generator.state == fresh.bit_generator.state


def test_each_trajectory_is_that_of_its_own_number(case):
    """Solved with the number that it drew as the setting, a trajectory is the same to the bit: a range moves no other draw."""
    problem, name = case
    place = problem.description().parameters.index(name)
    found = list(problem.solve(draws(0, 1, 2)))
    numbers = [trajectory.parameters[place] for trajectory in found]
    assert len(set(numbers)) == 3
    for seed, (number, trajectory) in enumerate(zip(numbers, found, strict=True)):
        (alone,) = type(problem).model_validate(problem.model_dump() | {name: number}).solve(draws(seed))
        assert np.array_equal(alone.fields, trajectory.fields)
        assert alone.parameters is None or np.array_equal(alone.parameters, np.delete(trajectory.parameters, place))
    (other,) = type(problem).model_validate(problem.model_dump() | {name: numbers[1]}).solve(draws(0))
    assert not np.array_equal(other.fields, found[0].fields)


def test_no_symmetry_changes_a_number(case):
    """A training that is told it may move fields all the same."""
    problem, name = case
    found = problem.description().symmetries
    assert found
    assert all(symmetry.conditions[name] == Turned(of=name) for symmetry in found)
    fixed = type(problem)().description().symmetries
    assert [name in symmetry.conditions for symmetry in fixed] == [False] * len(found)


def test_the_first_frame_does_not_tell_the_viscosity():
    """At time 0 stands the random field alone."""
    problem, _ = RANGED["navier_stokes"]
    thin, thick = (
        next(problem.model_copy(update={"viscosity": viscosity}).solve(draws(0))).fields for viscosity in (1e-4, 1e-2)
    )
    assert np.array_equal(thin[0], thick[0])
    assert np.abs(thin[-1] - thick[-1]).max() > 0.01 * np.abs(thin[-1]).max()


def test_a_batch_diffuses_each_with_its_own_number():
    """Members that end at different times keep their diffusivity as the batch shrinks."""
    state = np.random.default_rng(0).normal(size=(3, 1, 48)) * np.array([0.3, 5.0, 1.0])[:, None, None]
    diffusivity, times = np.array([1e-1, 1e-3, 1e-2]), np.array([0.0, 0.013, 0.05])
    together = np.empty((3, 3, 1, 48))
    effort = evolve(BurgersLaw(diffusivity), state, 0.05, times, lambda row, frame, now: together[row].__setitem__(frame, now))
    assert len(set(effort.steps)) > 1
    for member in range(3):
        alone = np.empty((3, 1, 48))
        law = BurgersLaw(float(diffusivity[member]))
        evolve(law, state[member : member + 1], 0.05, times, lambda _, frame, now, a=alone: a.__setitem__(frame, now))
        assert np.array_equal(together[member], alone)


def test_a_generated_file_tells_the_numbers(tmp_path):
    problem, _ = RANGED["burgers"]
    file = generate(problem, tmp_path / "ranged.h5", samples=3, processes=1)
    assert file.header.parameters == ("viscosity",)
    assert file.header.provenance["settings"]["viscosity"] == "0.0001:0.01"
    numbers = [file.trajectory(index).parameters[0] for index in range(3)]
    assert numbers == [problem.number("viscosity", draw) for draw in draws(0, 1, 2)]
