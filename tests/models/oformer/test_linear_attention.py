"""Linear attention and its rotations against loops in float64; norms, masks, starts."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn.functional import layer_norm

from calm_pde.models.oformer.linear_attention import GatedMLP, LinearAttention, rotated, rotation
from tests.clouds import random_cloud, relative_error
from tests.oracle import gelu_all, weights_of


def turned(x: np.ndarray, position: np.ndarray, frequency: float) -> np.ndarray:
    """One token: each axis turns the two halves of its own block of channels."""
    dim, out = len(position), x.copy()
    block = 2 * (len(x) // (2 * dim))
    for axis in range(dim):
        for j in range(block // 2):
            angle = position[axis] * frequency * 10_000 ** (-2 * j / block)
            a, b = axis * block + j, axis * block + block // 2 + j
            out[a] = x[a] * math.cos(angle) - x[b] * math.sin(angle)
            out[b] = x[b] * math.cos(angle) + x[a] * math.sin(angle)
    return out


def normalized(rows: np.ndarray, norm: str, scale=None, shift=None) -> np.ndarray:
    """(token, channel), over the channels of each token or over the tokens for each channel."""
    along = 1 if norm != "domain" else 0
    mean = rows.mean(axis=along, keepdims=True)
    out = (rows - mean) / np.sqrt(((rows - mean) ** 2).mean(axis=along, keepdims=True) + 1e-5)
    return out if scale is None else out * scale + shift


def attention(w, x, where, context, elsewhere, *, heads, kind, norm, frequency) -> np.ndarray:
    """One sample: sums over pairs (q·k) v, one after the other."""
    width = x.shape[1]
    mixed = np.zeros((len(x), heads * width))
    affine = norm == "affine"
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)
        q, k, v = (side @ w[f"to_{name}.weight"][rows].T for side, name in ((x, "query"), (context, "key"), (context, "value")))
        first = (w["first_norm.weight"], w["first_norm.bias"]) if affine else ()
        second = (w["second_norm.weight"], w["second_norm.bias"]) if affine else ()
        if kind == "galerkin":
            k, v = normalized(k, norm, *first), normalized(v, norm, *second)
        else:
            q, k = normalized(q, norm, *first), normalized(k, norm, *second)
        for i in range(len(x)):
            for j in range(len(context)):
                share = turned(q[i], where[i], frequency) @ turned(k[j], elsewhere[j], frequency)
                mixed[i, rows] += share * v[j] / len(context)
    return mixed if heads == 1 else mixed @ w["to_out.weight"].T + w["to_out.bias"]


def gated(w, x: np.ndarray) -> np.ndarray:
    both = x @ w["expand.weight"].T + w["expand.bias"]
    half = both.shape[1] // 2
    return (gelu_all(both[:, :half]) * both[:, half:]) @ w["reduce.weight"].T + w["reduce.bias"]


@pytest.mark.parametrize("norm", ["token", "domain", "affine"])
@pytest.mark.parametrize("kind", ["galerkin", "fourier"])
@pytest.mark.parametrize(("dim", "heads", "cross"), [(1, 1, False), (2, 3, True), (3, 2, True), (2, 1, False)])
def test_equals_the_sum_over_pairs(kind, norm, dim, heads, cross):
    width, frequency = 9 if dim == 2 else 8, 50.0
    module = LinearAttention(width, heads, kind, norm, torch.Generator().manual_seed(0))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += 0.3 * torch.randn(parameter.shape)
    module = module.double()
    x, where = random_cloud(14, width).view(2, 7, width), random_cloud(14, dim, seed=1).view(2, 7, dim)
    context, elsewhere = random_cloud(10, width, seed=2).view(2, 5, width), random_cloud(10, dim, seed=3).view(2, 5, dim)
    mask, context_mask = torch.arange(7) < torch.tensor([[7], [4]]), torch.arange(5) < torch.tensor([[3], [5]])
    turn = rotation(where, width, frequency)
    if cross:
        out = module(x, turn, context, rotation(elsewhere, width, frequency), mask, context_mask)
    else:
        context, elsewhere, context_mask = x, where, mask
        out = module(x, turn, mask=mask)
    for s in range(2):
        real, seen = mask[s], context_mask[s]
        sides = [side.numpy() for side in (x[s, real], where[s, real], context[s, seen], elsewhere[s, seen])]
        expected = attention(weights_of(module), *sides, heads=heads, kind=kind, norm=norm, frequency=frequency)
        assert relative_error(out[s, real], torch.from_numpy(expected)) < 1e-12


def test_products_of_rotated_vectors_depend_on_differences_of_positions():
    q, k = random_cloud(2, 12).view(2, 1, 1, 12)
    a, b, shift = random_cloud(3, 2, seed=1).view(3, 1, 1, 2)

    def product(a, b):
        return float((rotated(q, rotation(a, 12, 300.0)) * rotated(k, rotation(b, 12, 300.0))).sum())

    assert product(a + shift, b + shift) == pytest.approx(product(a, b), rel=1e-12)
    assert product(a + shift, b) != pytest.approx(product(a, b), rel=1e-3)


def test_angles_are_precise_in_single_precision_and_shared_by_heads():
    positions = random_cloud(50, 1).float()
    turn = rotation(positions, 96, 8 * 1024.0)
    assert turn.cosine.shape == (1, 50, 1, 48)
    exact = rotation(positions.double(), 96, 8 * 1024.0)
    assert float((turn.sine.double() - exact.sine).abs().max()) < 1e-7
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(rotation(positions, 96, 8 * 1024.0).cosine, turn.cosine)
    assert rotation(torch.rand(4, 3), 128, 1.0).cosine.shape[-1] == 21  # 42 + 42 + 42 channels turn, two stay


def test_the_norm_of_tokens_is_a_layer_norm_without_affine_map():
    module = LinearAttention(6, 1, "galerkin", "token", None).double()
    x = random_cloud(20, 6).view(1, 20, 6)
    assert torch.equal(module._normalized(x, None, None), layer_norm(x, (6,)))


def test_weights_start_near_identity():
    several = LinearAttention(16, 4, "galerkin", "token", torch.Generator().manual_seed(0))
    one, fourier = (LinearAttention(16, 1, kind, "token", torch.Generator().manual_seed(0)) for kind in ("galerkin", "fourier"))
    eye = torch.eye(16)
    near = [*several.to_query.weight.split(16), *several.to_key.weight.split(16), *several.to_value.weight.split(16)]
    for block in (*near, one.to_query.weight, fourier.to_value.weight):
        turn = 16 * block.detach() - eye
        assert relative_error(turn @ turn.T, eye) < 1e-5
    for block in (one.to_key.weight, one.to_value.weight, fourier.to_query.weight):
        assert float(block.detach().std()) == pytest.approx(0.25 / math.sqrt(3), rel=0.2)
    assert one.to_out is None


def test_the_gated_mlp():
    module = GatedMLP(5, torch.Generator().manual_seed(0)).double()
    x = random_cloud(4, 5)
    assert relative_error(module(x), torch.from_numpy(gated(weights_of(module), x.numpy()))) < 1e-13
