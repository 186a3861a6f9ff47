"""Position attention: the kept keys, the weights and the sums against loops; its scale near the singularity."""

from __future__ import annotations

import math

import pytest
import torch

from calm_pde.engine.receptive_fields import FIELDS
from calm_pde.models.pit.position_attention import SHARPEST, PositionAttention, attended, near
from tests.clouds import grid, random_cloud, relative_error


def attention(heads: int = 2, seed: int = 0) -> PositionAttention:
    return PositionAttention(heads, torch.Generator().manual_seed(seed)).double()


def squared(a, b, periodic) -> float:
    total = 0.0
    for x, y, wraps in zip(a.tolist(), b.tolist(), periodic, strict=True):
        apart = abs(x - y)
        apart = min(apart % 1.0, 1.0 - apart % 1.0) if wraps else apart
        total += apart**2
    return total


def dense_weights(module, keys, queries, quantile, periodic, real=None) -> torch.Tensor:
    """(head, query, key): a softmax over the keys whose scaled distance is within the interpolated quantile, by loops."""
    real = range(len(keys)) if real is None else real
    out = torch.zeros(len(module.locality), len(queries), len(keys), dtype=torch.float64)
    for h, locality in enumerate(module.locality.tolist()):
        scale = math.tan(0.25 * math.pi * (1 - 1e-7) * (1 + math.sin(locality)))
        for q, query in enumerate(queries):
            scaled = {k: scale * squared(query, keys[k], periodic) for k in real}
            reach = float(torch.quantile(torch.tensor(list(scaled.values()), dtype=torch.float64), quantile))
            kept = {k: d for k, d in scaled.items() if d <= reach * (1 + 1e-9)}  # ties are equal up to rounding
            total = sum(math.exp(-d) for d in kept.values())
            for k, d in kept.items():
                out[h, q, k] = math.exp(-d) / total
    return out


def as_dense(weights, where, num_keys) -> torch.Tensor:
    """(cloud, head, query, key)."""
    if where.indices is None:
        return weights
    full = torch.zeros(*weights.shape[:3], num_keys, dtype=weights.dtype)
    return full.scatter_add(-1, where.indices[:, None].expand(weights.shape), weights)


@pytest.mark.parametrize("quantile", [0.02, 0.1, 0.37, 1.0])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("dim", "periodic"), [(1, (True,)), (2, (True, False)), (2, (False, False)), (3, (True, True, True))])
def test_weights_equal_those_of_a_dense_quantile_mask(quantile, ties, dim, periodic):
    keys = grid({1: 16, 2: 8, 3: 4}[dim], dim) if ties else random_cloud(50, dim)
    queries = torch.cat([keys[:3], random_cloud(6, dim, seed=1)])
    module = attention()
    where = near(keys, queries, quantile, periodic)
    weights = module(where)
    expected = dense_weights(module, keys, queries, quantile, periodic)
    assert relative_error(as_dense(weights, where, len(keys))[0], expected) < 1e-12
    assert relative_error(weights.sum(dim=-1), torch.ones(1, 2, 9)) < 1e-12


@pytest.mark.parametrize("quantile", [0.1, 1.0])
def test_sums_equal_the_dense_product_with_masks_and_own_clouds(quantile):
    keys, queries = random_cloud(60, 2).view(2, 30, 2), random_cloud(7, 2, seed=1)
    mask = torch.arange(30) < torch.tensor([[30], [17]])
    x = random_cloud(2 * 3 * 30, 4, seed=2).view(2, 3, 30, 4).requires_grad_()
    module, periodic = attention(), (True, False)
    where = near(keys, queries, quantile, periodic, mask)
    out = attended(x, where, module(where))
    assert out.shape == (2, 3, 7, 8)
    for sample in range(2):
        dense = dense_weights(module, keys[sample], queries, quantile, periodic, mask[sample].nonzero().flatten().tolist())
        expected = torch.cat([dense[h] @ x[sample] for h in range(2)], dim=-1)
        assert relative_error(out[sample], expected) < 1e-12
    gathered = attended(x, where._replace(gathered=True), module(where))
    assert relative_error(gathered, out) < 1e-14
    out.square().sum().backward()
    assert x.grad is not None
    assert bool((x.grad[1, :, 17:] == 0).all())
    assert bool((module.locality.grad != 0).all())


@pytest.mark.parametrize("quantile", [0.3, 1.0])
def test_gradients(quantile):
    keys, queries, module = random_cloud(10, 2), random_cloud(4, 2, seed=1), attention()
    where = near(keys, queries, quantile, (True, True))

    def out(x, locality):
        return attended(x, where, torch.func.functional_call(module, {"locality": locality}, (where,)))

    x = random_cloud(2 * 10, 3, seed=2).view(1, 2, 10, 3)
    assert torch.autograd.gradcheck(out, (x.requires_grad_(), module.locality.detach().clone().requires_grad_()))


def test_the_kept_keys_do_not_depend_on_the_scale():
    keys, queries = random_cloud(40, 2), random_cloud(5, 2, seed=1)
    kept = []
    for locality in (-1.0, 0.0, 1.2):
        module = attention()
        torch.nn.init.constant_(module.locality, locality)
        kept.append(dense_weights(module, keys, queries, 0.2, (False, False)) > 0)
    assert torch.equal(kept[0], kept[1])
    assert torch.equal(kept[0], kept[2])
    where = near(keys, queries, 0.2, (False, False))
    assert torch.equal(as_dense(attention()(where), where, 40)[0] > 0, kept[0])


def test_a_periodic_matrix_moves_with_a_shift_by_the_stride():
    latent, points = grid(4, 2), grid(8, 2)
    where = near(points, latent, 0.1, (True, True))
    matrix = as_dense(attention()(where), where, 64)[0].view(2, 4, 4, 8, 8)
    assert relative_error(matrix.roll((1, 2, 2, 4), dims=(1, 2, 3, 4)), matrix) < 1e-12


def test_the_scale_stays_bounded_with_its_slope():
    module = attention(heads=1)
    starts = PositionAttention(10_000, torch.Generator().manual_seed(0)).scale().detach()
    assert float(starts.min()) >= 1
    assert float(starts.max()) < 8
    for locality in (math.pi / 2, math.pi / 2 + 1e-4, math.pi / 2 - 0.017, 5 * math.pi / 2, -math.pi / 2, 1e3):
        torch.nn.init.constant_(module.locality, locality)
        scale = module.scale()
        (slope,) = torch.autograd.grad(scale.sum(), module.locality)
        assert 0 <= float(scale.detach()) <= SHARPEST * (1 + 1e-9)
        assert abs(float(slope)) < 2e6


def test_a_mesh_is_searched_once_whatever_its_padding():
    keys, queries = random_cloud(30, 2, seed=77), random_cloud(4, 2, seed=78)
    near(keys, queries, 0.2, (False, False))
    entries = set(FIELDS.entries)
    padded = torch.cat([keys, torch.zeros(5, 2, dtype=torch.float64)])[None].expand(3, -1, -1)
    near(padded, queries, 0.2, (False, False), (torch.arange(35) < 30).expand(3, -1))
    assert set(FIELDS.entries) == entries
