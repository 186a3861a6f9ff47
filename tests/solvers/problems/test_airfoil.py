"""The airfoil's data: like the published, positive over the whole range, the same from the same generator."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.data.check import check
from calm_pde.data.generate import generate
from calm_pde.data.readers.meshgraphnets import MeshGraphNets
from calm_pde.errors import ConfigError, InputError
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.problems.airfoil import DENSITY, PRESSURE, Airfoil
from tests.data.readers.files import write_meshgraphnets

TINY = Airfoil(points=400, frames=3, spacing=0.4)


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.fixture(scope="module")
def tiny() -> Trajectory:
    return next(TINY.solve(draws(0)))


# ------------------------------------------------------------------------------------------------ like the published set


def test_a_generated_file_is_like_a_converted_one(tmp_path):
    """The same name, fields with units and order, box, node types, number of frames and spacing, one mesh for all."""
    write_meshgraphnets(tmp_path, frames=601, density=True)
    meta = (tmp_path / "meta.json").read_text()
    (tmp_path / "meta.json").write_text(meta.replace('"dt": 0.01', '"dt": 0.008'))  # what the published file says
    theirs = MeshGraphNets(path=tmp_path).source().description
    ours = Airfoil(points=400).description()
    for name in ("name", "fields", "box", "node_types", "features", "targets", "grid_shape", "conserved"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert np.allclose(ours.times, theirs.times)
    assert ours.points is not None
    assert theirs.points is not None
    assert ours.cells is not None
    assert ours.cells.dtype == theirs.cells.dtype
    assert ours.node_type is not None
    assert ours.node_type.dtype == theirs.node_type.dtype
    assert set(ours.node_type.tolist()) == set(theirs.node_types)


def test_node_types_are_where_they_belong():
    description = TINY.description()
    points, codes = description.points, description.node_type
    assert np.array_equal(codes == 4, np.hypot(*points.T) > 20 - 1e-9)
    on = points[codes == 2]
    assert ((on[:, 0] >= 0) & (on[:, 0] <= 1)).all()
    assert np.array_equal(np.flatnonzero(codes == 2)[:5], np.arange(5))
    near = points[codes == 0] - np.clip(points[codes == 0], [0, 0], [1, 0])
    assert np.hypot(*near.T).min() > 0


def test_the_far_field_is_the_free_stream_in_si_units(tiny):
    """A real sample of the published set: Mach 0.4016 at 1.23° is a velocity of (136.64, 2.94) m/s."""
    fields = TINY.flow(0.4016, 1.23, 0.2)
    assert fields is not None
    far = TINY.description().node_type == 4
    assert np.allclose(fields[0, far, :2], [136.64, 2.94], atol=0.05)
    mach, angle, _ = tiny.parameters
    first = tiny.fields[0, far].astype(np.float64)
    assert np.allclose(first[:, 2], DENSITY, rtol=1e-4)
    assert np.allclose(first[:, 3], PRESSURE, rtol=1e-4)
    assert np.allclose(np.hypot(first[:, 0], first[:, 1]), mach * np.sqrt(1.4 * PRESSURE / DENSITY), rtol=1e-4)
    assert np.allclose(np.rad2deg(np.arctan2(first[:, 1], first[:, 0])), angle, atol=0.05)


def test_the_first_frame_is_one_short_step_after_the_start(tiny):
    """As in the published set the disturbance has not gone far yet, and goes far in the next frames."""
    away = np.hypot(TINY.description().points[:, 0] - 0.5, TINY.description().points[:, 1]) - 0.5
    outside = tiny.fields[0, away > 3].mean(axis=0)
    disturbed = np.abs(tiny.fields[:, :, 3] / PRESSURE - 1) > 1e-3
    assert (away[disturbed[0]] < 1.5).all()
    assert disturbed.sum(axis=1)[0] < disturbed.sum(axis=1)[-1]
    assert outside[3] == pytest.approx(PRESSURE, rel=1e-4)


def test_seconds_are_true_seconds():
    published, true = (Airfoil(points=400, clock=clock).description().times for clock in ("published", "seconds"))
    assert np.allclose(np.diff(published), 0.32)
    assert np.allclose(np.diff(true), 2.4 / np.sqrt(1.4 * PRESSURE / DENSITY))


# ------------------------------------------------------------------------------------------------ physics of the fields


def test_flow_tends_to_a_steady_one():
    """The change from frame to frame dies out, and pressure at the nose comes near that of stagnation."""
    fields = Airfoil(points=400, frames=8).flow(0.5, 2.0, 0.2)
    assert fields is not None
    change = np.abs(np.diff(fields[..., 3], axis=0)).mean(axis=1)
    assert change[-1] < 0.05 * change[0]
    stagnation = PRESSURE * (1 + 0.2 * 0.5**2) ** 3.5
    assert fields[-1, :, 3].max() == pytest.approx(stagnation, rel=0.03)


@pytest.mark.parametrize("corner", [(0.7, 25.0), (0.2, -25.0)])
def test_corners_of_the_range_stay_positive(corner):
    fields = Airfoil(points=400, frames=4).flow(*corner, 0.2)
    assert fields is not None
    assert fields[..., 2:].min() > 0
    assert np.isfinite(fields).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("points", "machs", "angles"),
    [
        (850, (0.2, 0.45, 0.7), (-25.0, -12.0, 0.0, 12.0, 25.0)),
        (2000, (0.7,), (-25.0, 25.0)),
        (5200, (0.7,), (-25.0, 25.0)),
    ],
)
def test_the_whole_range_stays_positive(points, machs, angles):
    """A grid of Mach numbers and angles to the last frame; density, pressure and entropy stay away from zero."""
    problem = Airfoil(points=points)
    for mach in machs:
        for angle in angles:
            fields, tries = None, 0
            while fields is None and tries < 3:
                fields, tries = problem.flow(mach, angle, 0.2 / 2**tries), tries + 1
            assert fields is not None, (mach, angle)
            entropy = (fields[..., 3] / PRESSURE) / (fields[..., 2] / DENSITY) ** 1.4
            print(
                f"Mach {mach}, {angle:+.0f}°: {tries} tries, density ≥ {fields[..., 2].min():.3f}, pressure ≥ "
                f"{fields[..., 3].min():.0f}, entropy ≥ {entropy.min():.2f}"
            )
            assert fields[..., 2:].min() > 0
            assert entropy.min() > 0.5


# ------------------------------------------------------------------------------------------------ draws and options


def test_parameters_fill_their_ranges(monkeypatch):
    monkeypatch.setattr(Airfoil, "flow", lambda self, mach, angle, longest: np.zeros((2, 3, 4), dtype=np.float32))
    found = np.stack([trajectory.parameters for trajectory in TINY.solve(draws(*range(200)))])
    assert ((found[:, :2] >= [0.2, -25]) & (found[:, :2] <= [0.7, 25])).all()
    assert (np.ptp(found[:, :2], axis=0) > [0.47, 47]).all()
    assert not found[:, 2].any()


def test_a_step_that_fails_is_halved_twice_and_then_the_sample_drawn_again(monkeypatch):
    """From the sample's own generator; the number of draws that were rejected is stored."""
    tried = []

    def flow(self: Airfoil, mach: float, angle: float, longest: float) -> np.ndarray | None:
        tried.append((mach, angle, longest))
        return np.zeros((2, 3, 4), dtype=np.float32) if len(tried) == 5 else None

    monkeypatch.setattr(Airfoil, "flow", flow)
    (trajectory,) = TINY.solve(draws(3))
    same = np.random.default_rng(3)
    first, second = ((same.uniform(0.2, 0.7), same.uniform(-25, 25)) for _ in range(2))
    assert tried == [(*first, 0.2), (*first, 0.1), (*first, 0.05), (*second, 0.2), (*second, 0.1)]
    assert trajectory.parameters.tolist() == [*second, 1.0]


def test_ranges_without_a_flow_are_named(monkeypatch):
    monkeypatch.setattr(Airfoil, "flow", lambda self, mach, angle, longest: None)
    with pytest.raises(InputError, match=r"mach, angle.*20 draws"):
        next(TINY.solve(draws(0)))


def test_a_wild_step_is_refused():
    """Steps of two chords of sound at the corner of the range are not solved, and not stored."""
    assert Airfoil(points=400, frames=3, first_time=8.0, spacing=8.0).flow(0.7, 25.0, 8.0) is None


def test_a_generated_file_is_sound(tmp_path):
    file = generate(TINY, tmp_path / "few.h5", samples=10, seed=5, processes=1)
    doubts = {"split", "parameter rejected_draws"}  # there are few trajectories, and none was hard to draw
    assert {finding.subject for finding in check(file) if finding.level != "good"} <= doubts
    alone = generate(TINY, tmp_path / "one.h5", samples=1, seed=5, processes=1)
    assert np.array_equal(file.trajectory(0).fields, alone.trajectory(0).fields)
    assert file.header.parameters == ("mach", "angle", "rejected_draws")
    assert file.header.shared_mesh


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"mach": (0.5, 0.2)}, "mach: expected 0.05 ≤ lower ≤ upper ≤ 0.95, got 0.5, 0.2"),
        ({"mach": (0.5, 1.2)}, "mach: expected"),
        ({"angle": (-60, 0)}, "angle: expected -45 ≤ lower ≤ upper ≤ 45, got -60, 0"),
        ({"frames": 1}, "frames.*got 1"),
        ({"points": 10}, "points.*got 10"),
        ({"clock": "minutes"}, "clock.*got 'minutes'"),
        ({"spacin": 8}, "Did you mean 'spacing'"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        Airfoil.model_validate(options)
