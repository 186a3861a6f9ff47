"""The gas: variables there and back, the flux's derivative by differences, and what Roe's flux must keep."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.solvers.methods.gas import (
    GAMMA,
    conserved,
    entropy,
    fastest_wave,
    flux,
    flux_derivative,
    free_stream,
    mach_number,
    pressure_derivative,
    primitive,
    roe_flux,
    rusanov_flux,
)


def states(seed: int, count: int = 20) -> np.ndarray:
    draw = np.random.default_rng(seed)
    return np.stack([draw.uniform(0.2, 2, count), *draw.normal(size=(2, count)), draw.uniform(0.1, 2, count)])


NORMALS = np.random.default_rng(9).normal(size=(2, 20))


def test_variables_there_and_back():
    here = states(0)
    assert np.allclose(primitive(conserved(here)), here, rtol=1e-13)


def test_the_free_stream_has_its_mach_number_angle_and_units():
    stream = free_stream(0.7, 30.0)[:, None]
    assert mach_number(stream) == pytest.approx(0.7)
    assert np.rad2deg(np.arctan2(stream[2], stream[1])) == pytest.approx(30)
    assert np.sqrt(GAMMA * stream[3] / stream[0]) == pytest.approx(1)
    assert entropy(stream) == pytest.approx(1)


def test_derivatives_are_those_of_differences():
    here = conserved(states(1))
    exact, pushed = flux_derivative(primitive(here), NORMALS), pressure_derivative(primitive(here))
    for component in range(4):
        shift = 1e-6 * np.eye(4)[component][:, None]
        ahead, back = primitive(here + shift), primitive(here - shift)
        assert np.allclose((flux(ahead, NORMALS) - flux(back, NORMALS)) / 2e-6, exact[:, component], atol=1e-6)
        assert np.allclose((ahead[3] - back[3]) / 2e-6, pushed[component], atol=1e-6)


def test_the_fastest_wave_is_the_largest_eigenvalue():
    here = states(2)
    blocks = np.moveaxis(flux_derivative(here, NORMALS), 2, 0)
    assert np.allclose(np.abs(np.linalg.eigvals(blocks)).max(axis=1), fastest_wave(here, NORMALS))


FLUXES = pytest.mark.parametrize("between", [roe_flux, rusanov_flux])


@FLUXES
def test_the_flux_between_equal_states_is_theirs(between):
    here = states(3)
    assert np.allclose(between(here, here, NORMALS), flux(here, NORMALS), rtol=1e-13, atol=1e-13)


@FLUXES
def test_what_leaves_one_side_enters_the_other(between):
    left, right = states(4), states(5)
    assert np.allclose(between(left, right, NORMALS), -between(right, left, -NORMALS), rtol=1e-12, atol=1e-12)


def test_the_simple_flux_lowers_no_entropy():
    """A step of a volume between two others, Courant number ½: density, pressure and the least entropy of the three hold."""
    before, here, after = (states(seed, 500) for seed in (11, 12, 13))
    ahead = np.array([[1.0], [0.0]]) * np.ones(500)
    fastest = np.max([fastest_wave(each, ahead) for each in (before, here, after)], axis=0)
    change = rusanov_flux(here, after, ahead) - rusanov_flux(before, here, ahead)
    new = primitive(conserved(here) - 0.5 / fastest * change)
    assert new[[0, 3]].min() > 0
    least = np.min([entropy(each) for each in (before, here, after)], axis=0)
    assert (entropy(new) >= least * (1 - 1e-12)).all()


def test_faster_than_sound_only_the_side_upstream_counts():
    left, right = states(6), states(7)
    left[1] += 9.0
    right[1] += 9.0
    ahead = np.array([[1.0], [0.0]]) * np.ones(20)
    assert np.allclose(roe_flux(left, right, ahead), flux(left, ahead), rtol=1e-10)


@FLUXES
def test_a_flux_turns_with_its_states_and_normal(between):
    left, right, angle = states(8), states(9), 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def turned(rows: np.ndarray) -> np.ndarray:
        return np.concatenate([rows[:1], turn @ rows[1:3], rows[3:]])

    assert np.allclose(between(turned(left), turned(right), turn @ NORMALS), turned(between(left, right, NORMALS)))


@pytest.mark.parametrize(
    ("through", "speeds"),
    [(0.4, [0.4, 0.4, 0.6, 1.4]), (1.0, [0.05, 1.0, 1.0, 2.0]), (0.0, [0.025, 0.025, 1.0, 1.0]), (-2.0, [1.0, 2.0, 2.0, 3.0])],
)
def test_no_wave_goes_undamped(through, speeds):
    """The damping ½|Â| of a small jump, by differences: its eigenvalues are the waves' speeds, and half of δ at the least."""
    here = np.array([[1.0], [through], [0.3], [1 / GAMMA]])
    ahead, columns = np.array([[1.0], [0.0]]), []
    for component in range(4):
        there = primitive(conserved(here) + 1e-6 * np.eye(4)[component][:, None])
        damping = 0.5 * (flux(here, ahead) + flux(there, ahead)) - roe_flux(here, there, ahead)
        columns.append(2 * damping[:, 0] / 1e-6)
    found = np.linalg.eigvals(np.array(columns).T)
    assert np.allclose(np.sort(found.real), speeds, atol=1e-4)
