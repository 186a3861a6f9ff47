"""Segments against loops in float64: sums, means, softmax, their derivatives, and what an order of rows is worth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.func import hessian, jacfwd, jacrev, vmap

from calm_pde.nn.segments import Segments
from tests.engine.derivatives import jit_deprecated

INDEX = torch.tensor([3, 0, 3, 1, 0, 3, 5])  # segments 2 and 4 have no rows
COUNT = 6


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def by_loops(what: str, index: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Row by row, without torch."""
    if what == "softmax":
        weights = np.exp(rows)
        return np.stack(
            [weights[r] / sum(weights[o] for o in range(len(rows)) if index[o] == index[r]) for r in range(len(rows))]
        )
    found = np.zeros((count, *rows.shape[1:]))
    for segment in range(count):
        own = [rows[r] for r in range(len(rows)) if index[r] == segment]
        for row in own:
            found[segment] += row / (len(own) if what == "mean" else 1)
    return found


@pytest.mark.parametrize("what", ["sum", "mean", "softmax"])
@pytest.mark.parametrize("features", [(), (3,), (2, 3)], ids=str)
@given(index=st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_equals_loops(what, features, index):
    rows = noise(len(index), *features)
    found = getattr(Segments.of(torch.tensor(index), 5), what)(rows)
    np.testing.assert_allclose(found.numpy(), by_loops(what, np.array(index), rows.numpy(), 5), rtol=1e-13, atol=1e-13)


def test_what_a_segment_has_is_spread_to_its_rows():
    segments, values = Segments.of(INDEX, COUNT), noise(COUNT, 2)
    assert torch.equal(segments.spread(values), values[INDEX])
    assert segments.sizes.tolist() == [2, 1, 0, 3, 0, 1]
    assert segments.order.tolist() == [1, 4, 3, 0, 2, 5, 6]


def test_sum_and_spread_are_transposed():
    """⟨sum y, x⟩ = ⟨y, spread x⟩."""
    segments, y, x = Segments.of(INDEX, COUNT), noise(7, 3), noise(COUNT, 3, seed=1)
    assert float((segments.sum(y) * x).sum() - (y * segments.spread(x)).sum()) == pytest.approx(0, abs=1e-13)


def test_the_shares_of_a_segment_sum_to_one_whatever_their_size():
    segments = Segments.of(INDEX, COUNT)
    shares = segments.softmax(noise(7, 2) * 1e3)
    assert shares.isfinite().all()
    np.testing.assert_allclose(segments.sum(shares)[[0, 1, 3, 5]].numpy(), 1.0, rtol=1e-14)


def mixed(segments: Segments, values: torch.Tensor) -> torch.Tensor:
    """All that segments do, one after the other."""
    return segments.softmax(segments.spread(segments.mean(values.sin())) * values) * segments.spread(segments.sum(values))


@jit_deprecated
def test_derivatives_are_exact_to_the_second_order_in_every_way_of_asking():
    segments, values = Segments.of(INDEX, COUNT), noise(7, 2).requires_grad_()

    def of(rows: torch.Tensor) -> torch.Tensor:
        return mixed(segments, rows)

    assert torch.autograd.gradcheck(of, (values,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(of, (values,))
    plain = values.detach()
    jacobians = [jacrev(of)(plain), jacfwd(of)(plain)]
    jacobians += [torch.autograd.functional.jacobian(of, plain, vectorize=vectorize) for vectorize in (False, True)]
    for found in jacobians[1:]:
        torch.testing.assert_close(found, jacobians[0], rtol=1e-12, atol=1e-12)
    assert hessian(lambda rows: of(rows).sum())(plain).isfinite().all()
    together = torch.stack([plain, 2 * plain], dim=2)
    torch.testing.assert_close(vmap(of, 2)(together), torch.stack([of(plain), of(2 * plain)]), rtol=1e-12, atol=0)


def test_the_order_of_rows_and_other_segments_change_no_bit_of_a_mean():
    """A segment's rows are added in ascending order, whoever stands between them."""
    segments, values = Segments.of(INDEX, COUNT), noise(7, 3).float()
    alone = Segments.of(torch.zeros(3, dtype=torch.int64), 1).sum(values[INDEX == 3])
    assert torch.equal(segments.sum(values)[3], alone[0])
    order = torch.tensor([6, 0, 1, 3, 2, 4, 5])  # rows of a segment stay one behind the other
    moved = Segments.of(INDEX[order], COUNT)
    assert torch.equal(moved.sum(values[order]), segments.sum(values))


def test_gradients_are_the_same_bits_again():
    """Of as many rows as several threads would share."""
    index = torch.randint(0, 50, (20_000,), generator=torch.Generator().manual_seed(0))
    segments, found = Segments.of(index, 50), []
    for _ in range(2):
        values = noise(50, 4).float().requires_grad_()
        segments.spread(values).sin().sum().backward()
        found.append(values.grad)
    assert torch.equal(*found)


def test_nothing_to_sum():
    segments = Segments.of(torch.zeros(0, dtype=torch.int64), 3)
    assert segments.sum(noise(0, 2)).tolist() == [[0.0, 0.0]] * 3
    assert segments.softmax(noise(0, 2)).shape == (0, 2)
    assert segments.spread(noise(3, 0)).shape == (0, 0)
