"""What solvers declare invariant: to solve from a moved start is to move the solution."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from calm_pde.data.augment import values_from
from calm_pde.geometry import cell_centers
from calm_pde.records.symmetry import Symmetry, signed_choice
from calm_pde.solvers.mesh.triangles import TriangleMesh
from calm_pde.solvers.methods.conduction import Boundaries, Conduction
from calm_pde.solvers.methods.random_fields import few_sines, gaussian_modes
from calm_pde.solvers.methods.spectral import Torus
from calm_pde.solvers.problem import Problem
from calm_pde.solvers.problems import burgers, compressible, navier_stokes
from calm_pde.solvers.problems.burgers import Burgers
from calm_pde.solvers.problems.compressible import Compressible, random_gas
from calm_pde.solvers.problems.cylinder import Channel, Cylinder
from calm_pde.solvers.problems.heat import CAPACITY, Heat, Plate, Spot
from calm_pde.solvers.problems.navier_stokes import NavierStokes

DRAW = 3


def fine(problem: Problem) -> np.ndarray:
    """A start (channel, *cells) on the grid that is solved on."""
    draw = np.random.default_rng(DRAW)
    if isinstance(problem, Burgers):
        return few_sines(draw, cell_centers(1024))[None]
    if isinstance(problem, NavierStokes):
        torus = Torus(problem.resolution, 2)
        return torus.values(gaussian_modes(draw, torus.highest, 2, navier_stokes.initial_variance))[None] * 3
    if isinstance(problem, Compressible):
        return random_gas(draw, problem.points, problem.mach)
    raise TypeError(problem)


def given(problem: Problem, start: np.ndarray, patch: pytest.MonkeyPatch) -> np.ndarray:
    """The stored fields (time, point, channel) of the solution from this start."""
    if isinstance(problem, Burgers):
        patch.setattr(burgers, "few_sines", lambda *_: start[0])
    elif isinstance(problem, NavierStokes):
        patch.setattr(navier_stokes, "gaussian_modes", lambda *_: Torus(problem.resolution, 2).modes(start[0]))
    else:
        patch.setattr(compressible, "random_gas", lambda *_: start)
    (found,) = problem.solve([np.random.default_rng(0)])
    return found.fields


def moved(symmetry: Symmetry, values: np.ndarray, points: np.ndarray, box: Any, cells: int) -> np.ndarray:
    """Values (…, point, channel), by so many cells where it is a translation."""
    for _ in range(cells if symmetry.any_multiple else 1):
        values = signed_choice(values[..., values_from(symmetry, points, box), :], symmetry.fields)
    return values


PROBLEMS: dict[str, Problem] = {
    "burgers": Burgers(points=64, frames=4),
    "navier_stokes": NavierStokes(points=16, resolution=32, frames=3, viscosity=1e-3),
    "compressible": Compressible(points=8, frames=3, duration=0.3),
}
CASES = [(name, symmetry.name) for name, problem in PROBLEMS.items() for symmetry in problem.description().symmetries]


@pytest.mark.parametrize(("name", "which"), CASES)
def test_solving_and_moving_commute(name: str, which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = PROBLEMS[name]
    description = problem.description()
    (symmetry,) = (one for one in description.symmetries if one.name == which)
    start = fine(problem)
    cells = start.shape[-1]
    finer = {"points": cells} | ({"resolution": 2 * cells} if name == "navier_stokes" else {})
    whole = type(problem).model_validate(problem.model_dump() | finer).description()
    flat = start.reshape(len(start), -1).T
    there = moved(symmetry, flat, whole.points, whole.box, 3 * cells // (problem.points if name != "compressible" else cells))

    straight = given(problem, start, monkeypatch)
    found = given(problem, there.T.reshape(start.shape), monkeypatch)
    wanted = moved(symmetry, straight, description.points, description.box, 3)
    assert np.abs(wanted - straight).max() > 0.1 * np.abs(straight).max()  # it does move something
    assert np.abs(found - wanted).max() < 3e-6 * np.abs(wanted).max()  # stored in float32


def test_what_the_forcing_breaks_does_not_commute(monkeypatch: pytest.MonkeyPatch) -> None:
    """The swap without its half period, and a translation across the forcing, are no symmetries: the test above can fail."""
    problem = NavierStokes(points=16, resolution=32, frames=3, viscosity=1e-3)
    description = problem.description()
    start = fine(problem)
    for wrong in (
        Symmetry(name="swap", axes=(2, 1), fields=(-1,)),
        Symmetry(name="along x", shift=(1.0, 0.0), any_multiple=True),
    ):
        whole = dataclasses.replace(NavierStokes(points=32, resolution=64).description())
        there = moved(wrong, start.reshape(1, -1).T, whole.points, whole.box, 6)
        found = given(problem, there.T.reshape(start.shape), monkeypatch)
        wanted = moved(wrong, given(problem, start, monkeypatch), description.points, description.box, 3)
        assert np.abs(found - wanted).max() > 1e-3 * np.abs(wanted).max()


def test_the_plate_and_its_mirror_image() -> None:
    """On the mirrored mesh, under the source at the mirrored height, the temperature is the mirrored one."""
    (symmetry,) = Heat().description().symmetries
    height = symmetry.conditions["source_y"]
    plate = Plate((0.09, 0.04), 0.02)
    mesh = plate.mesh(plate.scale(300), np.random.default_rng(0))
    mirrored = TriangleMesh(symmetry.moved(mesh.points), mesh.cells[:, [0, 2, 1]], mesh.boundary)
    found = []
    for one, y in ((mesh, 0.03), (mirrored, height.sign * 0.03 + height.plus)):
        spot = Spot(60.0, 2e-4, (0.02, y), 0.008, 0.005)
        wall = Boundaries(held=("wall",), temperature=lambda places, time: np.full(len(places), 300.0 + 0.1 * time))
        conduction = Conduction(one, 30.0, CAPACITY, spot, wall)
        conduction.start(np.full(len(one.points), 300.0))
        for _ in range(20):
            conduction.step(10.0)
        found.append(conduction.temperature - 300)
    assert np.abs(found[1] - found[0]).max() < 1e-9 * np.abs(found[0]).max()


def test_the_channel_and_its_mirror_image() -> None:
    """On the mirrored mesh the flow is the mirrored flow."""
    (symmetry,) = Cylinder().description().symmetries
    channel = Channel((0.3, 0.17), 0.05)
    mesh = channel.mesh(channel.scale(300), np.random.default_rng(0))
    mirrored = TriangleMesh(symmetry.moved(mesh.points), mesh.cells[:, [0, 2, 1]], mesh.boundary)
    found = []
    for one in (mesh, mirrored):
        flow = channel.inlet.flow(one, viscosity=1e-3, peak=1.0)
        for _ in range(20):
            flow.step(0.01)
        found.append(flow.vertex_fields())
    wanted = signed_choice(found[0], symmetry.fields)
    assert np.abs(wanted - found[0]).max() > 0.1 * np.abs(wanted).max()
    assert np.abs(found[1] - wanted).max() < 1e-9 * np.abs(wanted).max()
