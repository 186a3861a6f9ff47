"""Arrays come back from the page's form, exactly or within half a step of their range."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from calm_pde.report.packing import packed, quantized
from tests.report.unpacking import unpacked

NUMBERS = st.floats(-1e6, 1e6, width=32)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=3, max_side=6)


@given(arrays.arrays(np.float32, SHAPES, elements=NUMBERS))
def test_floats_are_exact(values):
    found = unpacked(packed(values))
    assert found.dtype == np.float32
    assert np.array_equal(found, values)


def test_indices_are_exact():
    values = np.array([[0, 1, 70_000], [2**32 - 1, 5, 6]])
    assert np.array_equal(unpacked(packed(values)), values)


@given(arrays.arrays(np.float64, SHAPES, elements=NUMBERS), st.sampled_from([8, 16]), st.booleans())
def test_quantized_values_are_within_half_a_step(values, bits, deltas):
    array, seen = quantized(values, bits=bits, deltas=deltas)
    found = unpacked(array)
    assert np.allclose(found, seen, rtol=0, atol=1e-9 * max(1, np.abs(values).max()))
    step = np.ptp(values) / (2**bits - 1)
    assert np.abs(found - values).max() <= 0.5 * step * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("values", [np.zeros((0,)), np.zeros((3, 0)), np.full((2, 2), 4.5)])
def test_nothing_and_constants(values):
    assert np.array_equal(unpacked(quantized(values, deltas=True)[0]), values)


def test_deltas_deflate_a_smooth_motion_better():
    x = np.linspace(0, 1, 500)
    values = np.sin(2 * np.pi * (x - 0.001 * np.arange(40)[:, None]))
    assert len(quantized(values, deltas=True)[0]["data"]) < 0.8 * len(quantized(values)[0]["data"])
