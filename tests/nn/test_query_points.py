"""Where query points start: drawn, or evenly spread, anywhere or on a mesh."""

from __future__ import annotations

import pytest
import torch
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

import calm_pde as cp
from calm_pde.nn.query_points import even_points, query_start


def nearest(points: torch.Tensor, periodic: bool = True) -> torch.Tensor:
    """The distance of each point to its nearest neighbor."""
    tree = cKDTree(points.double().numpy(), boxsize=1.0 if periodic else None)
    return torch.from_numpy(tree.query(points.double().numpy(), k=2)[0][:, 1])


@pytest.mark.parametrize(("count", "dim"), [(7, 1), (64, 2), (256, 2), (27, 3), (1, 2)])
def test_a_power_is_a_lattice(count: int, dim: int) -> None:
    side = round(count ** (1 / dim))
    found = even_points(count, dim)
    assert found.shape == (count, dim)
    cells = (found * side).floor().long()
    assert len(torch.unique(cells, dim=0)) == count
    torch.testing.assert_close(found * side - cells, torch.full_like(found, 0.5))


@pytest.mark.parametrize(("count", "dim"), [(50, 2), (200, 2), (500, 3), (36 * 7, 2)])
def test_other_counts_leave_no_small_gaps(count: int, dim: int) -> None:
    """Neighbors of a lattice would stand count^(−1/dim) apart; independent draws come far nearer."""
    apart = count ** (-1 / dim)
    assert nearest(even_points(count, dim)).min() > 0.4 * apart
    assert nearest(torch.rand(count, dim, generator=torch.Generator().manual_seed(0))).min() < 0.2 * apart


def test_on_a_mesh_they_lie_far_from_one_another() -> None:
    mesh = torch.rand(500, 2, generator=torch.Generator().manual_seed(0))
    found = query_start(40, 2, mesh, None, "even", (False, False))
    assert {tuple(point) for point in found.tolist()} <= {tuple(point) for point in mesh.tolist()}
    assert nearest(found, periodic=False).min() > 0.7 * 40**-0.5  # a lattice of 40 would have 40^(−1/2)
    drawn = query_start(40, 2, mesh, torch.Generator().manual_seed(0), "random", (False, False))
    assert nearest(drawn, periodic=False).min() < 0.3 * 40**-0.5
    assert len(query_start(700, 2, mesh, None, "even", (False, False))) == 700  # more than the mesh has: again from the first


def test_a_model_takes_them_and_the_default_is_the_papers() -> None:
    drawn = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
    even = cp.CalmConfig.preset("navier_stokes_2d", spread="even").build(seed=0)
    again = cp.CalmConfig.preset("navier_stokes_2d", spread="even").build(seed=1)
    for place in ("encoder.0.queries", "decoder.1.queries"):
        torch.testing.assert_close(even.state_dict()[place], even_points(1024, 2))
        assert torch.equal(even.state_dict()[place], again.state_dict()[place])
        assert not torch.equal(even.state_dict()[place], drawn.state_dict()[place])
    assert cp.CalmConfig.preset("navier_stokes_2d").spread == "random"
