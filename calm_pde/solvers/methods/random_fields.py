"""Random initial fields: sums of sines with their windows, and Gaussian random fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

WINDOW_WIDTH = 0.01
_LEFT_EDGE, _RIGHT_EDGE = (0.1, 0.45), (0.55, 0.9)


def window_edges(draw: np.random.Generator) -> tuple[float, float]:
    """Where a window on [0, 1) opens and closes."""
    return draw.uniform(*_LEFT_EDGE), draw.uniform(*_RIGHT_EDGE)


def window(places: np.ndarray, edges: tuple[float, float]) -> np.ndarray:
    """½(tanh((x − left)/0.01) − tanh((x − right)/0.01)): one between the edges, zero outside."""
    left, right = edges
    return 0.5 * (np.tanh((places - left) / WINDOW_WIDTH) - np.tanh((places - right) / WINDOW_WIDTH))


def few_sines(draw: np.random.Generator, places: np.ndarray, period: float = 1.0) -> np.ndarray:
    """Σ_{k=1..4} A_k sin(2π m_k k x/period + φ_k), A ~ U(0, 1), φ ~ U(0, 2π), m_k how often two draws of k gave it.

    A k that was not drawn has m_k = 0 and adds the constant A_k sin φ_k. With probability 0.1 the absolute value is taken, then
    the sign is random, then with probability 0.1 a window is laid over it. Every draw takes the same amount of random numbers.
    """
    drawn = draw.integers(1, 5, size=2)
    amplitude, phase = draw.uniform(0.0, 1.0, size=4), draw.uniform(0.0, 2 * np.pi, size=4)
    folded, flipped, windowed = draw.uniform(size=3) < (0.1, 0.5, 0.1)
    edges = window_edges(draw)
    number = np.arange(1, 5)
    waves = number * (number[:, None] == drawn).sum(axis=1)
    field = amplitude @ np.sin(2 * np.pi / period * waves[:, None] * places + phase[:, None])
    if folded:
        field = np.abs(field)
    if flipped:
        field = -field
    return field * window(places, edges) if windowed else field


def many_sines(draw: np.random.Generator, axes: Sequence[np.ndarray], highest: int = 4) -> np.ndarray:
    """Σ_k sin(2πk·x + φ_k)/|2πk| over k ∈ {±1, …, ±highest}^dim, φ ~ U(0, 2π), on the product of the axes.

    e^{2πik·x} is a product over the axes: the sum is one small matrix product per axis.
    """
    dim = len(axes)
    waves = np.concatenate([np.arange(-highest, 0), np.arange(1, highest + 1)])
    phase = draw.uniform(0.0, 2 * np.pi, size=(len(waves),) * dim)
    length = np.sqrt(sum(np.square(component) for component in np.meshgrid(*[waves] * dim, indexing="ij")))
    sums = np.exp(1j * phase) / (2 * np.pi * length)
    for places in axes:
        sums = np.tensordot(sums, np.exp(2j * np.pi * np.outer(waves, places)), axes=(0, 0))  # the axis moves to the end
    return sums.imag


def gaussian_modes(
    draw: np.random.Generator, highest: int, dim: int, variance: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Fourier modes c_k, |k| ≤ highest per axis, of a real Gaussian field of zero mean: independent, E|c_k|² = variance(|k|²).

    Modes stand as `spectral.Torus` holds them. They are drawn from the center outwards, shell after shell of max |k|, so that a
    higher resolution adds modes and changes none.
    """
    all_axes = [np.arange(-highest, highest + 1)] * (dim - 1) + [np.arange(highest + 1)]
    waves = np.stack(np.meshgrid(*all_axes, indexing="ij"), axis=-1).reshape(-1, dim)
    # Of k and −k one is drawn: the one whose last nonzero component is positive.
    order_of_magnitude = (2 * highest + 1) ** np.arange(dim)
    waves = waves[waves @ order_of_magnitude > 0]
    waves = waves[np.lexsort([*waves.T, np.abs(waves).max(axis=1)])]
    parts = draw.standard_normal((len(waves), 2))
    drawn = np.sqrt(variance(np.square(waves).sum(axis=1)) / 2) * (parts[:, 0] + 1j * parts[:, 1])
    modes = np.zeros((2 * highest + 1,) * (dim - 1) + (highest + 1,), dtype=np.complex128)
    modes[tuple(waves.T)] = drawn
    mirrored = waves[:, -1] == 0
    modes[tuple(-waves[mirrored].T)] = drawn[mirrored].conj()
    return modes
