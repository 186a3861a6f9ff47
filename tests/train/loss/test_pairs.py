"""Pairs of near neighbors against loops, closed forms, and whatever must not matter: order, padding, place, coincidence."""

from __future__ import annotations

import math

import pytest
import torch

from calm_pde.metrics.relative_h1 import Pairs, relative_h1_loss, squared_seminorms
from calm_pde.train.loss import pairs as module
from calm_pde.train.loss.pairs import mesh_pairs, pairs_of
from tests.clouds import grid, random_cloud
from tests.oracle import difference, norm_squared


def listed(pairs: Pairs) -> dict[tuple[int, int], float]:
    """The weight of each pair, under its smaller index first; both of its places must say the same."""
    found: dict[tuple[int, int], float] = {}
    for i, (row, weights) in enumerate(zip(pairs.indices.tolist(), pairs.weights.tolist(), strict=True)):
        for j, weight in zip(row, weights, strict=True):
            if weight:
                assert found.setdefault((min(i, j), max(i, j)), weight) == pytest.approx(weight, rel=1e-12)
    assert sum(int(weight > 0) for row in pairs.weights.tolist() for weight in row) == 2 * len(found)
    return found


def looped(points: torch.Tensor, periodic: tuple[bool, ...], coincident: float = 0.0, tie: float = 1e-9) -> dict:
    """Each point and its 2·dim nearest at other places, with ties: 1/distance² each time that a pair is met."""
    count, dim = points.shape
    found: dict[tuple[int, int], float] = {}
    for i in range(count):
        squared = {j: norm_squared(difference(points[i], points[j], periodic)) for j in range(count) if j != i}
        elsewhere = {j: s for j, s in squared.items() if math.sqrt(s) > coincident}
        reach = sorted(elsewhere.values())[: 2 * dim][-1] * (1 + tie)
        for j, s in elsewhere.items():
            if s <= reach:
                pair = (min(i, j), max(i, j))
                found[pair] = found.get(pair, 0.0) + 1 / s
    return found


def assert_same(found: dict, wanted: dict, rel: float = 1e-9) -> None:
    assert found.keys() == wanted.keys()
    assert list(found.values()) == pytest.approx([wanted[pair] for pair in found], rel=rel)


PERIODIC = [(False,), (True,), (False, False), (True, False), (True, True, False)]


@pytest.mark.parametrize("periodic", PERIODIC, ids=str)
def test_pairs_of_a_cloud_are_those_of_a_loop(periodic):
    points = random_cloud(60, len(periodic))
    assert_same(listed(mesh_pairs(points, periodic)), looped(points, periodic))


@pytest.mark.parametrize("periodic", [(False, False), (True, False), (False,) * 3, (True,) * 3], ids=str)
def test_ties_of_a_grid_all_belong(periodic):
    points = grid(4, len(periodic))
    found = listed(mesh_pairs(points, periodic))
    assert_same(found, looped(points, periodic))
    if all(periodic):
        assert set(found.values()) == {2 * 16.0}  # each point is a neighbor of its neighbors
        assert len(found) == 3 * 64


def test_the_seminorm_is_the_sum_over_pairs():
    points, values = random_cloud(30, 2), torch.randn(2, 3, 30, 2, dtype=torch.float64)
    found = squared_seminorms(values, pairs_of(points, None, (True, False)))
    wanted = sum(w * (values[:, :, i] - values[:, :, j]) ** 2 for (i, j), w in looped(points, (True, False)).items())
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("cloud", [random_cloud(50, 2), grid(6, 2), grid(3, 3)], ids=["cloud", "grid", "cube"])
def test_the_order_of_points_does_not_matter(cloud):
    periodic = (False, True) if cloud.shape[1] == 2 else (False, False, True)
    order = torch.randperm(len(cloud), generator=torch.Generator().manual_seed(3))
    found = {
        (min(order[i], order[j]).item(), max(order[i], order[j]).item()): w
        for (i, j), w in listed(mesh_pairs(cloud[order], periodic)).items()
    }
    assert_same(found, listed(mesh_pairs(cloud, periodic)))


def test_meshes_of_their_own_are_those_alone_whatever_stands_where_no_point_is():
    """Real points stand anywhere among padded ones."""
    sizes, width = (20, 33, 27), 40
    points = torch.full((3, width, 2), math.nan, dtype=torch.float64)
    values = torch.full((3, 2, width, 1), math.inf, dtype=torch.float64)
    truth, mask, wanted = values.clone(), torch.zeros(3, width, dtype=torch.bool), []
    for sample, size in enumerate(sizes):
        places = torch.randperm(width, generator=torch.Generator().manual_seed(sample))[:size]
        cloud, given = random_cloud(size, 2, seed=sample), torch.randn(2, 1, 2, size, 1, dtype=torch.float64)
        mask[sample, places], points[sample, places] = True, cloud
        values[sample, :, places], truth[sample, :, places] = given[:, 0]
        wanted.append(relative_h1_loss(*given, pairs_of(cloud, None, (False, True))))
    found = relative_h1_loss(values, truth, pairs_of(points, mask, (False, True)), mask)
    torch.testing.assert_close(found, torch.cat(wanted))


def test_of_one_mesh_for_each_sample_every_one_has_its_own():
    points = torch.stack([random_cloud(30, 2, seed=seed) for seed in range(3)])
    found = pairs_of(points, None, (False, False))
    for cloud, pairs in zip(points, found, strict=True):
        assert_same(listed(pairs), looped(cloud, (False, False)))


@pytest.mark.parametrize("times", [2, 3])
def test_points_that_coincide_are_no_neighbors(times):
    """As along the cut of a C-grid: their other neighbors are, and nothing is divided by zero."""
    cloud = random_cloud(40, 2)
    points = torch.cat([cloud, *[cloud[:7]] * (times - 1)])
    found = mesh_pairs(points, (False, False))
    assert bool(torch.isfinite(found.weights).all())
    assert_same(listed(found), looped(points, (False, False), coincident=1e-9))


def test_both_ends_of_a_periodic_axis_coincide_wherever_it_is_shifted():
    axis = torch.linspace(0, 1, 65)
    points = torch.cartesian_prod(axis, axis[:8] / 8)
    wanted = listed(mesh_pairs(points, (True, False)))
    assert max(wanted.values()) < 3 * (8 * 64) ** 2
    for shift in (0.1, 0.37, -0.6):
        assert_same(
            listed(
                mesh_pairs(points + shift, (True, False)),
            ),
            wanted,
            rel=1e-2,
        )


@pytest.mark.parametrize("periodic", [(True, True), (True, False)], ids=str)
def test_a_shift_changes_no_pair_though_float32_rounds_it(periodic):
    """A grid as fine as one is, whose ties at the border rounding breaks by more than a share of them."""
    axis = (torch.arange(1024) + 0.5) / 1024
    points = torch.cartesian_prod(axis, axis[:6])
    still = mesh_pairs(points, periodic)
    generator = torch.Generator().manual_seed(0)
    for shift in torch.rand(3, generator=generator):
        moved = points + torch.tensor([shift, 0.0]) if periodic == (True, False) else points + shift
        inside = torch.where(torch.tensor(periodic), moved % 1, moved)
        for some in (moved, inside):
            found = mesh_pairs(some, periodic)
            assert torch.equal(found.indices, still.indices)
            torch.testing.assert_close(found.weights, still.weights, rtol=2e-3, atol=0)


@pytest.mark.parametrize("dim", [1, 2])
def test_sines_on_a_periodic_grid_have_their_exact_ratio(dim):
    """|a sin(2π k·x + φ)|² is a²·Σ_axes (2n·sin(π k/n))² up to a factor, and (2π a)²·|k|² as n → ∞."""
    wave, other, amplitude = (3, 2)[:dim], (1, -4)[:dim], 0.3
    errors = []
    for n in (32, 64, 128):
        x = grid(n, dim)
        truth = torch.sin(2 * math.pi * x @ torch.tensor(wave, dtype=x.dtype))[None, None, :, None]
        wrong = amplitude * torch.sin(2 * math.pi * x @ torch.tensor(other, dtype=x.dtype) + 0.7)[None, None, :, None]
        sizes = [sum(math.sin(math.pi * k / n) ** 2 for k in waves) for waves in (other, wave)]
        found = relative_h1_loss(truth + wrong, truth, pairs_of(x, None, (True,) * dim)).item()
        assert found == pytest.approx(amplitude * math.sqrt(sizes[0] / sizes[1]), rel=1e-10)
        limit = amplitude * math.sqrt(sum(k * k for k in other) / sum(k * k for k in wave))
        errors.append(abs(found - limit))
    assert math.log2(errors[0] / errors[1]) == pytest.approx(2, abs=0.05)
    assert math.log2(errors[1] / errors[2]) == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_smallest_clouds(count):
    points = random_cloud(count, 2)
    assert len(listed(mesh_pairs(points, (False, False)))) == count * (count - 1) // 2


def test_a_mesh_is_searched_once(monkeypatch):
    searches, real = [], module.receptive_field
    monkeypatch.setattr(module, "receptive_field", lambda *given: searches.append(1) or real(*given))
    meshes = torch.stack([random_cloud(31, 2, seed=seed) for seed in (101, 102, 103)])
    mask = torch.arange(31) < torch.tensor([20, 31, 25])[:, None]
    first = pairs_of(meshes, mask, (False, True))
    assert len(searches) == 3
    order = [2, 0, 1]
    wider = torch.nn.functional.pad(meshes[order], (0, 0, 0, 4))
    again = pairs_of(wider, torch.nn.functional.pad(mask[order], (0, 4)), (False, True))
    assert len(searches) == 3  # though they stand in another batch
    for place, sample in enumerate(order):
        assert listed(again[place]) == listed(first[sample])
    pairs_of(meshes, mask, (False, False))
    assert len(searches) == 6
