"""What must not change a layer's answer: order of points, padding, batch mates, other queries, a periodic shift."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

import calm_pde as cp
from calm_pde.engine.orders import ORDERS
from calm_pde.engine.plan import Plan
from tests.clouds import grid, random_cloud, relative_error

seeds = st.integers(0, 2**31)
dims = st.integers(1, 3)
on_grid = st.booleans()
percentiles = st.sampled_from([0.02, 0.1, 0.3, 0.5, 1.0])


def cloud(dim: int, ties: bool, seed: int) -> torch.Tensor:
    return grid({1: 32, 2: 8, 3: 4}[dim], dim) if ties else random_cloud(40, dim, seed)


def layer_of(dim: int, periodic: bool | tuple[bool, ...], percentile: float, seed: int, external: bool = True) -> cp.CalmLayer:
    """A layer that takes any of the three orders of contraction in any of three chunkings, by the seed."""
    layer = cp.CalmLayer(
        2,
        3,
        dim,
        num_queries=None if external else 7,
        receptive_field=percentile,
        periodic=periodic,
        generator=torch.Generator().manual_seed(seed),
    ).double()
    order, kept = ORDERS[seed % 4], seed // 12 % 2 == 0
    chosen = Plan(order, (1, 7, 10**6)[seed // 4 % 3], 10**6, kept, kept, kept)
    layer.plan = lambda sizes: chosen
    return layer


@given(seed=seeds, dim=dims, ties=on_grid, periodic=st.booleans(), percentile=percentiles)
def test_order_of_points(seed, dim, ties, periodic, percentile):
    layer = layer_of(dim, periodic, percentile, seed)
    points = cloud(dim, ties, seed)
    queries = points[::3]  # on the grid: as many ties as there can be
    x = random_cloud(len(points), 2, seed + 1)
    order = torch.randperm(len(points), generator=torch.Generator().manual_seed(seed))
    assert relative_error(layer(x[order], points[order], queries)[0], layer(x, points, queries)[0]) < 1e-12


@given(seed=seeds, dim=dims, percentile=percentiles)
def test_displacements_in_radii_know_no_scale(seed, dim, percentile):
    """A fine part of a mesh looks like a coarse one; without the distance weight, which adds 1e-8 to squared distances."""
    layer = layer_of(dim, False, percentile, seed)
    layer.kernel.relative, layer.kernel.weighting = True, "mean"
    points, queries, x = (random_cloud(40, width, seed + place) for place, width in enumerate((dim, dim, 2)))
    fine = layer(x, points / 64, queries[:9] / 64)[0]
    assert relative_error(fine, layer(x, points, queries[:9])[0]) < 1e-12


def test_displacements_in_radii_where_all_points_lie_at_the_query():
    layer = layer_of(2, False, 0.02, 0)
    layer.kernel.relative = True
    points = random_cloud(40, 2, 1).requires_grad_()
    y, _ = layer(random_cloud(40, 2, 2), points, points.detach()[:5])
    y.sum().backward()
    assert torch.isfinite(y).all()
    assert torch.isfinite(points.grad).all()


@given(seed=seeds, dim=dims, ties=on_grid, percentile=percentiles, sixteenths=st.integers(1, 31))
def test_periodic_translation(seed, dim, ties, percentile, sixteenths):
    """By multiples of 1/16, which are exact on the grids, where displacements of half a period would else jump."""
    layer = layer_of(dim, True, percentile, seed)
    points = cloud(dim, ties, seed)
    queries = points[::3] if ties else random_cloud(9, dim, seed + 2)
    shift = torch.tensor([sixteenths / 16, (31 - sixteenths) / 16, 3 / 16][:dim], dtype=torch.float64)
    x = random_cloud(len(points), 2, seed + 1)
    shifted = layer(x, points + shift, queries + shift)[0]
    assert relative_error(shifted, layer(x, points, queries)[0]) < 1e-12


@given(seed=seeds, percentile=percentiles, shift=st.floats(-3, 3))
def test_translation_along_the_periodic_axis_only(seed, percentile, shift):
    layer = layer_of(2, (True, False), percentile, seed)
    points, queries, x = random_cloud(40, 2, seed), random_cloud(9, 2, seed + 2), random_cloud(40, 2, seed + 1)
    along = torch.tensor([shift, 0.0], dtype=torch.float64)
    reference = layer(x, points, queries)[0]
    field = layer.neighbors(points, queries)
    away = (queries[:, None] - points[field.indices[0]])[..., 0]
    if bool(((away - torch.floor(away)) - 0.5).abs().min() > 1e-9):
        assert relative_error(layer(x, points + along, queries + along)[0], reference) < 1e-12


@given(seed=seeds, dim=dims, ties=on_grid, percentile=percentiles, padding=st.integers(1, 20), external=st.booleans())
def test_padding_of_any_content(seed, dim, ties, percentile, padding, external):
    layer = layer_of(dim, (True,) * (dim - 1) + (False,), percentile, seed, external)
    points, x = cloud(dim, ties, seed), random_cloud(len(cloud(dim, ties, seed)), 2, seed + 1)
    queries = random_cloud(5, dim, seed + 2) if external else None
    junk = torch.tensor([float("nan"), float("inf"), 1e300, 0.5], dtype=torch.float64)
    draw = torch.Generator().manual_seed(seed)
    place = torch.randperm(len(points) + padding, generator=draw)
    padded_points = torch.cat([points, junk[torch.randint(4, (padding, dim), generator=draw)]])[place]
    padded_x = torch.cat([x, junk[torch.randint(4, (padding, 2), generator=draw)]])[place]
    mask = (torch.arange(len(place)) < len(points))[place]
    padded = layer(padded_x[None], padded_points[None], queries, mask=mask[None])[0][0]
    assert relative_error(padded, layer(x, points, queries)[0]) < 1e-12


@given(seed=seeds, dim=dims, percentile=percentiles, external=st.booleans())
def test_batch_of_samples_is_samples_alone(seed, dim, percentile, external):
    layer = layer_of(dim, True, percentile, seed, external)
    points = torch.stack([random_cloud(20, dim, seed), random_cloud(20, dim, seed + 1), grid(20, 1).expand(20, dim)])
    mask = torch.arange(20) < torch.tensor([[20], [7], [13]])
    x = random_cloud(60, 2, seed + 3).view(3, 20, 2)
    queries = random_cloud(3 * 4, dim, seed + 4).view(3, 4, dim) if external else None
    together = layer(x, points, queries, mask=mask)[0]
    for sample in range(3):
        real = mask[sample]
        alone = layer(x[sample, real], points[sample, real], None if queries is None else queries[sample])[0]
        assert relative_error(together[sample], alone) < 1e-12


@given(seed=seeds, dim=dims, ties=on_grid, percentile=percentiles)
def test_other_queries(seed, dim, ties, percentile):
    layer = layer_of(dim, True, percentile, seed)
    points = cloud(dim, ties, seed)
    x = random_cloud(len(points), 2, seed + 1)
    queries = torch.cat([points[:6], random_cloud(6, dim, seed + 2)])
    together = layer(x, points, queries)[0]
    chosen = torch.randperm(12, generator=torch.Generator().manual_seed(seed))[:5]
    assert relative_error(layer(x, points, queries[chosen])[0], together[chosen]) < 1e-12


@given(seed=seeds, dim=dims, ties=on_grid, percentile=percentiles)
def test_gradients_do_not_read_masked_points(seed, dim, ties, percentile):
    layer = layer_of(dim, True, percentile, seed, external=False)
    points = cloud(dim, ties, seed)
    x = random_cloud(len(points), 2, seed + 1)
    mask = torch.arange(len(points)) % 5 > 0
    x[~mask] = float("nan")
    layer(x[None], points[None], mask=mask[None])[0].square().sum().backward()
    assert all(bool(value.grad.isfinite().all()) for value in layer.parameters() if value.grad is not None)
