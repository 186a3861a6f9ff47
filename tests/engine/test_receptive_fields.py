"""Receptive fields: the rule itself by brute force, ties, order, padding, and the corners of its domain."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.engine import receptive_fields as module
from calm_pde.engine.receptive_fields import neighborhood_size, receptive_field
from tests import oracle
from tests.clouds import grid, random_cloud


def fields(points, queries, percentile, periodic, mask=None) -> list[list[int]]:
    found = receptive_field(points[None], queries[None], percentile, periodic, None if mask is None else mask[None])
    return [index[valid].tolist() for index, valid in zip(found.indices[0], found.valid[0], strict=True)]


@pytest.mark.parametrize(("percentile", "num_points", "size"), [(0.01, 4096, 41), (0.01, 1024, 11), (1.0, 8, 8), (0.001, 5, 1)])
def test_size_is_the_papers_percentile(percentile, num_points, size):
    assert neighborhood_size(percentile, num_points) == size


@given(
    seed=st.integers(0, 2**31),
    dim=st.integers(1, 3),
    ties=st.booleans(),
    percentile=st.sampled_from([0.001, 0.05, 0.2, 0.3, 0.9, 1.0]),
    wraps=st.lists(st.booleans(), min_size=3, max_size=3),
    dense_fraction=st.sampled_from([0.0, 0.25, 1.0]),
    outside=st.booleans(),
)
def test_fields_by_brute_force(seed, dim, ties, percentile, wraps, dense_fraction, outside):
    """Tree and dense search alike; queries on and off the points, in and out of the box."""
    periodic = tuple(wraps[:dim])
    points = grid({1: 16, 2: 6, 3: 4}[dim], dim) if ties else random_cloud(37, dim, seed)
    queries = torch.cat([points[:7], random_cloud(5, dim, seed + 1)])
    if outside:
        points, queries = points * 5 - 2, queries * 5 - 2  # five has no factor in common with the grids: none coincide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_DENSE_FRACTION", dense_fraction)
        found = fields(points, queries, percentile, periodic)
    everyone = range(len(points))
    assert found == [oracle.receptive_field(q.tolist(), points.tolist(), everyone, percentile, periodic) for q in queries]


@pytest.mark.parametrize("chunk", [1, 7, 10**6])
def test_chunks_change_nothing(monkeypatch, chunk):
    points, queries = grid(8, 2), grid(16, 2)[::3]
    whole = receptive_field(points[None], queries[None], 0.1, (True, False))
    monkeypatch.setattr(module, "_CHUNK_ENTRIES", chunk)
    chunked = receptive_field(points[None], queries[None], 0.1, (True, False))
    assert all(torch.equal(a, b) for a, b in zip(whole, chunked, strict=True))


def test_padding_repeats_the_first_neighbor():
    found = receptive_field(grid(8, 2)[None], torch.cat([grid(8, 2)[:4], random_cloud(4, 2)])[None], 0.1, (True, True))
    assert not found.valid.all()
    assert torch.equal(
        torch.where(found.valid, found.indices[..., :1], found.indices), found.indices[..., :1].expand_as(found.indices)
    )


def test_masked_points_are_no_neighbors_and_do_not_count():
    points = random_cloud(30, 2)
    mask = torch.arange(30) % 3 > 0
    queries = random_cloud(6, 2, seed=1)
    real = mask.nonzero().flatten().tolist()
    found = fields(points, queries, 0.2, (False, False), mask)
    assert found == [oracle.receptive_field(q.tolist(), points.tolist(), real, 0.2, (False, False)) for q in queries]


@pytest.mark.parametrize("periodic", [(True, True), (False, False)])
def test_coincident_points_and_single_points(periodic):
    same = torch.full((9, 2), 0.25, dtype=torch.float64)
    assert fields(same, same[:1], 0.1, periodic) == [list(range(9))]
    assert fields(same[:1], same[:1] + 0.5, 0.01, periodic) == [[0]]


def test_a_coordinate_just_below_a_periodic_border():
    points = torch.tensor([[-1e-18], [0.3], [0.6], [1.0], [0.999]], dtype=torch.float64)
    assert fields(points, points[:1], 0.5, (True,)) == [[0, 3, 4]]


@pytest.mark.parametrize("dense_fraction", [0.0, 1.0], ids=["dense", "tree"])
def test_the_tolerance_of_ties(monkeypatch, dense_fraction):
    """Within (1 + 1e-5) of the k-th distance a point belongs, beyond it does not, whatever finds it."""
    monkeypatch.setattr(module, "_DENSE_FRACTION", dense_fraction)
    away = [0.2, 0.2 * (1 + 9e-6), 0.2 * (1 + 1.1e-5), 0.4]
    points = torch.tensor([[0.3 + d, 0.5] for d in away], dtype=torch.float64)
    assert fields(points, torch.tensor([[0.3, 0.5]], dtype=torch.float64), 0.01, (False, False)) == [[0, 1]]


def test_one_cloud_asked_by_many_samples():
    points, queries = random_cloud(50, 2), torch.stack([random_cloud(6, 2, seed) for seed in range(3)])
    together = receptive_field(points[None], queries, 0.1, (True, True))
    for sample in range(3):
        alone = receptive_field(points[None], queries[sample][None], 0.1, (True, True))
        width = alone.indices.shape[-1]
        assert torch.equal(together.indices[sample, :, :width], alone.indices[0])
        assert torch.equal(together.valid[sample, :, :width], alone.valid[0])


def test_cold_and_warm_caches_give_the_same_bits():
    points, queries = grid(8, 2)[None], random_cloud(20, 2)[None]
    module.TREES.entries.clear()
    module.FIELDS.entries.clear()
    cold = receptive_field(points, queries, 0.1, (True, False), still=True)
    warm_tree = receptive_field(points, queries, 0.1, (True, False))
    warm = receptive_field(points.clone(), queries.clone(), 0.1, (True, False), still=True)
    assert warm is cold
    assert all(torch.equal(a, b) for a, b in zip(cold, warm_tree, strict=True))
    other = receptive_field(points, queries, 0.2, (True, False), still=True)
    assert other.indices.shape != cold.indices.shape
    moved = receptive_field(points + 0.01, queries, 0.1, (True, False), still=True)
    assert moved is not cold


def test_the_cache_forgets_the_oldest_beyond_its_limit():
    cache = module.ContentCache(limit=100)
    made = []

    def entry(number: int, size: int) -> int:
        def compute() -> tuple[int, int]:
            made.append(number)
            return size, number

        return cache.get("", (torch.tensor([number]),), compute)

    assert [entry(1, 60), entry(2, 30), entry(1, 60), entry(3, 30), entry(1, 60), entry(2, 30)] == [1, 2, 1, 3, 1, 2]
    assert made == [1, 2, 3, 2]
    assert entry(4, 1000) == 4
    assert sum(size for size, _ in cache.entries.values()) <= 100


@pytest.mark.parametrize("periodic", [(True, True), (True, False), (False, False)], ids=str)
@pytest.mark.parametrize("step", [1e-4, 3e-3, 0.2], ids=["slow", "faster", "jumps"])
def test_a_vicinity_never_changes_the_answer(periodic, step, monkeypatch):
    """Queries near a grid with its ties, and points that move too: the same lists as from a search of their own, every time."""
    generator = torch.Generator().manual_seed(0)
    points = grid(20, 2)
    queries = torch.cat([points[::7], torch.rand(60, 2, generator=generator, dtype=points.dtype)])
    vicinity, trees, turns_with_search = module.Vicinity(), [], 0
    built = module.tree_of
    monkeypatch.setattr(module, "tree_of", lambda *given: trees.append(given) or built(*given))
    for turn in range(20):
        trees.clear()
        found = receptive_field(points[None], queries[None], 0.02, periodic, vicinity=vicinity)
        turns_with_search += bool(trees)
        wanted = receptive_field(points[None], queries[None], 0.02, periodic)
        assert torch.equal(found.indices, wanted.indices), turn
        assert torch.equal(found.valid, wanted.valid), turn
        queries = queries + step * (torch.rand(queries.shape, generator=generator, dtype=points.dtype) - 0.5)
        if turn % 5 == 4:
            points = points + step * (torch.rand(points.shape, generator=generator, dtype=points.dtype) - 0.5)
    assert turns_with_search == 20 if step == 0.2 else turns_with_search < 12


def test_a_vicinity_serves_other_clouds_too():
    vicinity = module.Vicinity()
    for count in (300, 300, 40, 1000):
        points, queries = random_cloud(count, 2, seed=count), random_cloud(17, 2)
        found = receptive_field(points[None], queries[None], 0.05, (False, False), vicinity=vicinity)
        wanted = receptive_field(points[None], queries[None], 0.05, (False, False))
        assert torch.equal(found.indices, wanted.indices)
        assert torch.equal(found.valid, wanted.valid)


def test_threads_share_a_cache_of_one_entry():
    """Eight threads, each with a mesh of its own, drive each other's entries out all the time."""
    clouds = [random_cloud(200, 2, seed=seed).view(1, 200, 2) for seed in range(8)]
    alone = [receptive_field(cloud, cloud, 0.1, (False, False)) for cloud in clouds]
    cache = module.ContentCache(9 * alone[0].indices.numel() + 1)
    start = threading.Barrier(8)

    def ask(number: int) -> bool:
        start.wait()
        for turn in range(60):
            which = (number + turn) % 8

            def compute(which: int = which) -> tuple[int, int]:
                return 9 * alone[which].indices.numel(), which

            if cache.get("test", (clouds[which],), compute) != which:
                return False
        return len(cache.entries) <= 1

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_threads_find_what_one_finds(monkeypatch):
    monkeypatch.setattr(module, "FIELDS", module.ContentCache(1))
    monkeypatch.setattr(module, "TREES", module.ContentCache(1))
    clouds = [random_cloud(300, 2, seed=seed).view(1, 300, 2) for seed in range(8)]
    vicinity = module.Vicinity()  # shared, as a layer's is
    alone = [receptive_field(cloud, cloud, 0.02, (True, False)) for cloud in clouds]

    def ask(number: int) -> bool:
        found = [receptive_field(clouds[number], clouds[number], 0.02, (True, False), vicinity=vicinity) for _ in range(10)]
        return all(torch.equal(one.indices, alone[number].indices) for one in found)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(8)))


def test_without_data_there_are_as_many_neighbors_as_without_ties():
    points, queries = random_cloud(40, 2).expand(3, 40, 2), random_cloud(7, 2, seed=1)[None]
    found = receptive_field(points, queries, 0.3, (True, False))
    empty = receptive_field(points.to("meta"), queries.to("meta"), 0.3, (True, False))
    assert [(value.shape, value.dtype, value.is_meta) for value in empty] == [
        (value.shape, value.dtype, True) for value in found
    ]
