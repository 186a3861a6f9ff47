"""Users' meshes: a channel with two obstacles from Gmsh and VTU files, its boundaries by name or number."""

from __future__ import annotations

import numpy as np
import pytest
import tyro

from calm_pde.data.check import check
from calm_pde.data.generate import generate
from calm_pde.errors import FileError, InputError
from calm_pde.solvers.mesh.distmesh import circle, rectangle, spaced, triangulate, without
from calm_pde.solvers.mesh.named import read_named
from calm_pde.solvers.mesh.triangles import areas, boundary_edges
from calm_pde.solvers.methods.inlet import Inlet
from calm_pde.solvers.problems.cylinder import Cylinder

HOLES = (((0.4, 0.3), 0.1), ((0.8, 0.6), 0.12))
NAMES = {"entry": 11, "exit": 12, "sides": 13, "bodies": 14}
ROLES = {"inflow": ("entry",), "outflow": ("exit",), "wall": ("sides", "bodies")}


@pytest.fixture(scope="module")
def channel():
    """Points, triangles and tagged edges of [0, 2] × [0, 1] with two round holes."""

    def size(points: np.ndarray) -> np.ndarray:
        return np.full(len(points), 0.12)

    corners = np.array([[0.0, 0.0], [2.0, 0.0], [2.0, 1.0], [0.0, 1.0]])
    ends = zip(corners, np.roll(corners, -1, axis=0), strict=True)
    curves = [spaced(lambda part, a=a, b=b: a + part[:, None] * (b - a), size)[:-1] for a, b in ends]
    region = rectangle((0.0, 0.0), (2.0, 1.0))
    for center, radius in HOLES:
        angle = 2 * np.pi * np.arange(10) / 10
        curves.append(np.array(center) + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
        region = without(region, circle(center, radius))
    points, cells = triangulate(np.concatenate(curves), region, size, np.random.default_rng(0))
    edges = boundary_edges(cells)
    x, y = points[edges].mean(axis=1).T
    tags = np.select([x == 0, x == 2, (y == 0) | (y == 1)], [11, 12, 13], 14)
    return points, cells, edges, tags


def as_su2(path, points, cells, edges, tags, names) -> None:
    """Written by hand: the reader's own writer knows no names."""
    lines = ["% by hand", "NDIME= 2", f"NELEM= {len(cells)}"]
    lines += [f"5 {a} {b} {c} {number}" for number, (a, b, c) in enumerate(cells)]
    lines += [f"NPOIN= {len(points)}", *(f"{x:.17g} {y:.17g} {number}" for number, (x, y) in enumerate(points))]
    lines += [f"NMARK= {len(names)}"]
    for name, tag in names.items():
        chosen = edges[tags == tag]
        lines += [f"MARKER_TAG= {name}", f"MARKER_ELEMS= {len(chosen)}", *(f"3 {a} {b}" for a, b in chosen)]
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def written(channel, tmp_path):
    """The channel in a file, with names in a Gmsh file and numbers in others."""

    def write(name: str, leave_out: int = 0, clockwise: bool = False):
        meshlane = pytest.importorskip("meshlane")
        points, cells, edges, tags = channel
        if name.endswith("su2"):
            as_su2(tmp_path / name, points, cells, edges, tags, NAMES)
            return tmp_path / name
        flat = np.append(points, np.zeros((len(points), 1)), axis=1)
        kept = tags != leave_out
        tagged = [tags[kept].astype(np.int32), np.full(len(cells), 1, dtype=np.int32)]
        turned = cells[:, ::-1] if clockwise else cells
        data = {"gmsh:physical": tagged, "gmsh:geometrical": tagged} if name.endswith("msh") else {"part": tagged}
        table = {key: np.array([tag, 1]) for key, tag in NAMES.items()} | {"fluid": np.array([1, 2])}
        named = {"field_data": table} if name.endswith("msh") else {}
        mesh = meshlane.Mesh(flat, [("line", edges[kept]), ("triangle", turned)], cell_data=data, **named)
        mesh.write(tmp_path / name, **({"file_format": "gmsh22"} if name.endswith("msh") else {}))
        return tmp_path / name

    return write


@pytest.mark.parametrize("clockwise", [False, True])
def test_gmsh_groups_have_names(channel, written, clockwise):
    mesh = read_named(written("a.msh", clockwise=clockwise), ROLES)
    assert np.allclose(mesh.points, channel[0])
    assert areas(mesh.points, mesh.cells).min() > 0
    assert {role: len(edges) for role, edges in mesh.boundary.items()} == {"inflow": 8, "outflow": 8, "wall": 34 + 20}
    assert (mesh.points[mesh.boundary["inflow"], 0] == 0).all()


def test_other_files_have_numbers(written):
    mesh = read_named(written("a.vtu"), {"inflow": ("11",), "outflow": ("12",), "wall": ("13", "14")})
    assert (mesh.points[mesh.boundary["outflow"], 0] == 2).all()


def test_markers_of_su2_have_their_names(channel, written, tmp_path):
    """And they are those of the same mesh in a Gmsh file; names that are numbers stay what they are."""
    mesh, other = read_named(written("a.su2"), ROLES), read_named(written("a.msh"), ROLES)
    assert np.array_equal(mesh.points, other.points)
    for role in ROLES:
        found, wanted = ({tuple(sorted(edge)) for edge in each.boundary[role].tolist()} for each in (mesh, other))
        assert found == wanted
    points, cells, edges, tags = channel
    as_su2(tmp_path / "n.su2", points, cells, edges, tags, {"11": 11, "left over": 12, "12": 13, "7": 14})
    numbered = read_named(tmp_path / "n.su2", {"inflow": ("11",), "outflow": ("left over",), "wall": ("12", "7")})
    assert (numbered.points[numbered.boundary["outflow"], 0] == 2).all()
    assert len(numbered.boundary["wall"]) == 34 + 20


def test_markers_that_do_not_fit_are_refused(channel, tmp_path):
    pytest.importorskip("meshlane")
    as_su2(tmp_path / "a.su2", *channel, NAMES)
    path = tmp_path / "a.su2"
    path.write_text(path.read_text().replace("MARKER_ELEMS= 20", "MARKER_ELEMS= 30"))
    with pytest.raises(FileError, match=r"a\.su2.*marker 'bodies' ends after 20 of 30 cells"):
        read_named(path, ROLES)


def test_node_types_have_the_names_of_the_file(written):
    """One code for every boundary: that of its role for the first, the next free one for others of the same role."""
    mesh = read_named(written("a.su2"), ROLES)
    codes, names = mesh.node_types({"outflow": 5, "inflow": 4, "wall": 6})
    assert names == {0: "normal", 5: "exit", 4: "entry", 6: "sides", 7: "bodies"}
    x, y = mesh.points.T
    assert np.array_equal(codes == 6, (y == 0) | (y == 1))
    assert np.array_equal(codes == 4, (x == 0) & (codes != 6))
    assert np.array_equal(codes == 7, np.min([np.hypot(x - a, y - b) - r for (a, b), r in HOLES], axis=0) < 1e-9)
    assert mesh.box.upper == (2.0, 1.0)


def test_unknown_and_missing_names_are_named(written):
    path = written("a.msh")
    with pytest.raises(InputError, match=r"boundary inflow: .*'entrie'.*Did you mean 'entry'"):
        read_named(path, ROLES | {"inflow": ("entrie",)})
    with pytest.raises(InputError, match=r"boundary outflow: .*'outflow'.*Known are: bodies, entry, exit, sides"):
        read_named(path, ROLES | {"outflow": ()})
    with pytest.raises(InputError, match=r"none for bodies.*--boundary wall=bodies"):
        read_named(path, ROLES | {"wall": ("sides",)})
    with pytest.raises(InputError, match="20 without a name"):
        read_named(written("b.msh", leave_out=14), ROLES | {"wall": ("sides",)})
    with pytest.raises(FileError, match="no such file"):
        read_named(path.with_name("absent.msh"), ROLES)


def test_an_inlet_is_straight_and_enters_the_region(written):
    mesh = read_named(written("a.msh"), ROLES)
    inlet = Inlet.of(mesh)
    assert inlet == Inlet((0.0, 1.0), (0.0, 0.0))
    places = np.array([[0.0, 0.5], [0.0, 0.25], [0.7, 0.5], [0.0, 1.0], [0.0, 1.5]])
    assert np.allclose(inlet.profile(places, 2.0), [[2, 0], [1.5, 0], [2, 0], [0, 0], [0, 0]])
    assert np.allclose(inlet.given(2.0)(places, 0.0), [[2, 0], [1.5, 0], [0, 0], [0, 0], [0, 0]])
    with pytest.raises(InputError, match="boundary wall: expected one straight line, got a bent or closed one"):
        Inlet.of(mesh, "wall")


def test_flow_through_a_users_channel(written, tmp_path):
    """As `calm generate cylinder --mesh … --boundary …` makes it: one mesh for all, another inflow for each."""
    options = "--boundary inflow=entry --boundary outflow=exit --boundary wall=sides --boundary wall=bodies"
    short = "--frames 3 --spacing 0.1 --viscosity 0.01"
    problem = tyro.cli(Cylinder, args=["--mesh", str(written("a.msh")), *options.split(), *short.split()])
    assert problem.boundary == ("inflow=entry", "outflow=exit", "wall=sides", "wall=bodies")
    file = generate(problem, tmp_path / "own.h5", samples=2, processes=1)
    assert {finding.level for finding in check(file) if finding.subject in ("box", "cells", "finite")} == {"good"}
    assert file.description.node_types == {0: "normal", 4: "entry", 5: "exit", 6: "sides", 7: "bodies"}
    points, types = file.description.points, file.description.node_type
    assert file.description.box.upper == (2.0, 1.0)
    peaks = []
    for trajectory in (file.trajectory(0), file.trajectory(1)):
        (peak,) = trajectory.parameters
        entering = points[types == 4, 1]
        assert np.allclose(trajectory.fields[:, types == 4, 0], 4 * peak * entering * (1 - entering), rtol=1e-5)
        assert not trajectory.fields[:, types >= 6, :2].any()
        assert trajectory.fields[-1, types == 5, 0].mean() == pytest.approx(2 / 3 * peak, rel=0.25)
        peaks.append(peak)
    assert peaks[0] != peaks[1]
