"""The cylinder: Schäfer and Turek's benchmarks, meshes and node types, and data like the published."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from calm_pde.data.check import check
from calm_pde.data.generate import generate
from calm_pde.data.readers import meshgraphnets
from calm_pde.errors import ConfigError
from calm_pde.records.trajectory import Trajectory
from calm_pde.solvers.mesh.triangles import areas, node_types, qualities
from calm_pde.solvers.problems.cylinder import CODES, Channel, Cylinder
from tests.solvers.benchmark_flow import STEADY, benchmark
from tests.solvers.divergence import relative_divergence

TINY = Cylinder(points=250, frames=3, spacing=0.05)


def draws(*seeds: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in seeds]


@pytest.fixture(scope="module")
def tiny() -> Trajectory:
    return next(TINY.solve(draws(0)))


def test_steady_benchmark_on_a_coarse_mesh():
    found = benchmark(500, peak=0.3, step=0.02, end=4.0)
    print(f"2D-1, {found.points} points: drag {found.drag[-1]:.4f}, pressure difference {found.pressure_difference[-1]:.5f}")
    assert found.drag[-1] == pytest.approx(STEADY["drag"], rel=0.03)
    assert found.pressure_difference[-1] == pytest.approx(STEADY["pressure_difference"], rel=0.05)


def test_vortex_street_on_a_coarse_mesh():
    found = benchmark(500, peak=1.5, step=0.0125, end=5.0).last(1.5)
    print(f"2D-2, {found.points} points: Strouhal {found.strouhal(1.0):.4f}, largest drag {found.drag.max():.3f}")
    assert found.strouhal(1.0) == pytest.approx(0.30, rel=0.05)
    assert found.drag.max() == pytest.approx(3.23, rel=0.05)
    assert found.lift.max() == pytest.approx(1.0, rel=0.15)


@pytest.mark.slow
def test_steady_benchmark_converges():
    found = [benchmark(points, peak=0.3, step=0.02, end=8.0) for points in (800, 1600, 3200, 6400)]
    errors = []
    for each in found:
        values = {"drag": each.drag[-1], "lift": each.lift[-1], "pressure_difference": each.pressure_difference[-1]}
        errors.append([abs(values[name] / exact - 1) for name, exact in STEADY.items()])
        print(f"| {each.points} | " + " | ".join(f"{value:.5f}" for value in values.values()) + f" | {each.divergence:.2%} |")
    assert (np.array(errors[-1]) < [0.005, 0.05, 0.01]).all()
    assert all(after[0] < before[0] for before, after in itertools.pairwise(errors))
    assert all(after.divergence < 0.8 * before.divergence for before, after in itertools.pairwise(found))


@pytest.mark.slow
def test_vortex_street_converges():
    for points, step in ((800, 0.01), (1600, 0.007), (3200, 0.005)):
        found = benchmark(points, peak=1.5, step=step, end=7.0).last(1.5)
        drag, lift, strouhal = found.drag.max(), found.lift.max(), found.strouhal(1.0)
        print(f"| {found.points} | {step} | {drag:.4f} | {lift:.4f} | {strouhal:.4f} | {found.divergence:.2%} |")
    assert drag == pytest.approx(3.23, rel=0.02)
    assert lift == pytest.approx(1.0, rel=0.05)
    assert strouhal == pytest.approx(0.30, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("radius", "peak"),
    [
        (0.08, 2.25),
        (0.05, 2.25),
        (0.05, 1.25),
        (0.02, 2.25),
        (0.02, 0.25),
    ],
)
def test_divergence_on_the_default_mesh(radius, peak):
    """Below 5 % at every corner of the ranges, and smaller on a finer mesh."""
    channel, found = Channel((0.3, 0.2), radius), []
    for points in (1900, 3800):
        scale = channel.scale(points)
        flow = channel.inlet.flow(channel.mesh(scale, np.random.default_rng(0)), 1e-3, peak)
        steps = int(np.ceil(2.0 / min(0.01, scale * channel.size(np.array([channel.center]))[0] / peak)))
        worst = 0.0
        for index in range(steps):
            flow.step(2.0 / steps)
            if flow.time > 0.4 - 1e-9 and index % 20 == 0:
                worst = max(worst, relative_divergence(flow.space, flow.velocity))
        found.append(worst)
    print(f"radius {radius}, peak {peak}: largest relative divergence after 0.4 s on 1900 and 3800 points {found}")
    assert found[0] < 0.05
    assert found[1] < 0.75 * found[0]


def test_divergence_falls_with_refinement():
    found = []
    for points in (400, 1600):
        channel = Channel((0.3, 0.2), 0.05)
        flow = channel.inlet.flow(channel.mesh(channel.scale(points), np.random.default_rng(0)), 1e-3, 1.0)
        for _ in range(20):
            flow.step(0.01)
        found.append(relative_divergence(flow.space, flow.velocity))
    print(f"relative divergence on 400 and 1600 points {found}")
    assert found[1] < 0.05
    assert found[1] < 0.5 * found[0]


def test_a_cylinder_in_the_middle_feels_no_lift():
    channel = Channel((0.3, 0.205), 0.05)
    flow = channel.inlet.flow(channel.mesh(channel.scale(400), np.random.default_rng(0)), 1e-2, 0.5)
    for _ in range(60):
        flow.step(0.02)
    drag, lift = flow.force("cylinder")
    assert drag > 0
    assert abs(lift) < 0.005 * drag


@pytest.mark.parametrize("seed", range(2))
def test_meshes_over_the_ranges(seed):
    draw = np.random.default_rng(seed)
    channel = Channel((draw.uniform(0.15, 0.5), draw.uniform(0.1, 0.3)), draw.choice([0.02, 0.05, 0.08]))
    for points in (300, 1900):
        mesh = channel.mesh(channel.scale(points), draw)
        quality = qualities(mesh.points, mesh.cells)
        print(f"asked {points}: {len(mesh.points)} points, quality min {quality.min():.2f}, mean {quality.mean():.3f}")
        assert len(mesh.points) == pytest.approx(points, rel=0.04)
        assert quality.min() > 0.45
        assert quality.mean() > 0.94
    exact = 1.6 * 0.41 - np.pi * channel.radius**2
    assert areas(mesh.points, mesh.cells).sum() == pytest.approx(exact, rel=5e-4)


def test_node_types_are_those_of_the_published_set():
    channel = Channel((0.3, 0.2), 0.05)
    mesh = channel.mesh(channel.scale(400), np.random.default_rng(0))
    found, (x, y) = node_types(mesh, CODES), mesh.points.T
    on_wall = (y == 0) | (y == 0.41) | (np.abs(np.hypot(x - 0.3, y - 0.2) - 0.05) < 1e-12)
    assert np.array_equal(found == 6, on_wall)
    assert np.array_equal(found == 4, (x == 0) & ~on_wall)
    assert np.array_equal(found == 5, (x == 1.6) & ~on_wall)
    assert set(found.tolist()) == {0, 4, 5, 6} == set(meshgraphnets.CYLINDER_NODE_TYPES)
    assert TINY.description().node_types == meshgraphnets.CYLINDER_NODE_TYPES


def test_fields_are_those_of_the_published_set(tiny):
    description = TINY.description()
    assert description.fields == (*meshgraphnets.VELOCITY, meshgraphnets.PRESSURE)
    assert description.box.upper == (1.6, 0.41)
    assert np.allclose(np.diff(Cylinder().description().times), 0.4)
    assert len(Cylinder().description().times) == 15
    assert tiny.fields.shape == (3, len(tiny.points), 3)
    assert tiny.fields.dtype == np.float32
    assert np.isfinite(tiny.fields).all()


def test_boundary_values_of_a_trajectory(tiny):
    """At rest on walls, the parabola at the inflow, no pressure at the outflow but some before it, from the first frame on."""
    x, y, radius, peak = tiny.parameters
    speed, pressure = tiny.fields[..., :2], tiny.fields[..., 2]
    assert not speed[:, tiny.node_type == 6].any()
    entering = tiny.points[tiny.node_type == 4, 1]
    assert np.allclose(speed[:, tiny.node_type == 4, 0], 4 * peak * entering * (0.41 - entering) / 0.41**2, rtol=1e-6)
    assert not speed[:, tiny.node_type == 4, 1].any()
    assert not pressure[:, tiny.node_type == 5].any()
    assert (pressure[:, tiny.node_type == 4].mean(axis=1) > 0.01 * peak**2).all()
    assert np.hypot(tiny.points[:, 0] - x, tiny.points[:, 1] - y).min() == pytest.approx(radius)


def test_as_much_flows_out_as_in(tiny):
    """Through the outflow at each frame: 2/3·peak·height, less what n straight pieces miss of a parabola, 1/n² of it."""
    order = np.argsort(tiny.points[:, 1])
    end = order[tiny.points[order, 0] == 1.6]
    flux = np.trapezoid(tiny.fields[:, end, 0], tiny.points[end, 1], axis=1)
    assert np.allclose(flux, (1 - 1 / (len(end) - 1) ** 2) * 2 / 3 * tiny.parameters[3] * 0.41, rtol=0.01)


def test_a_trajectory_is_its_generators_alone(tiny):
    again, other = TINY.solve(draws(0, 1))
    for name in ("fields", "points", "cells", "node_type", "parameters"):
        assert np.array_equal(getattr(again, name), getattr(tiny, name))
    assert not np.array_equal(other.parameters, tiny.parameters)


def test_parameters_fill_their_ranges():
    problem = Cylinder(points=150, frames=2, spacing=0.01, time_step=0.01, center_x=(0.2, 0.2), radius=(0.03, 0.05), courant=9)
    found = np.stack([trajectory.parameters for trajectory in problem.solve(draws(*range(5)))])
    low, high = np.array([0.2, 0.1, 0.03, 0.25]), np.array([0.2, 0.3, 0.05, 2.25])
    assert ((found >= low) & (found <= high)).all()
    assert (np.ptp(found, axis=0)[1:] > 0.2 * (high - low)[1:]).all()


def test_a_generated_file_is_sound(tmp_path):
    problem = Cylinder(points=200, frames=2, spacing=0.02)
    file = generate(problem, tmp_path / "few.h5", samples=2, seed=5, processes=1)
    found = {finding.subject: finding.level for finding in check(file)}
    assert "wrong" not in found.values()
    assert {found[subject] for subject in ("box", "duplicates", "isolated", "cells", "checksums", "scale")} == {"good"}
    alone = generate(problem, tmp_path / "one.h5", samples=1, seed=5, processes=1)
    assert np.array_equal(file.trajectory(0).fields, alone.trajectory(0).fields)
    assert file.header.parameters == ("center_x", "center_y", "radius", "inflow")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"radius": (0.05, 0.02)}, "radius: expected 0 < lower ≤ upper, got 0.05, 0.02"),
        ({"center_y": (0.05, 0.3)}, "center_y: expected a range within 0.1, 0.31"),
        ({"center_x": (0.2, 1.59)}, "center_x: expected a range within 0.1, 1.5"),
        ({"frames": 1}, "frames.*got 1"),
        ({"pionts": 8}, "Did you mean 'points'"),
    ],
)
def test_wrong_options_are_named(options, named):
    with pytest.raises(ConfigError, match=named):
        Cylinder.model_validate(options)
