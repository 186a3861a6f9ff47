"""Pseudo-spectral methods on the unit torus: modes and values, products without aliasing, integrating-factor steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import scipy.fft

from calm_pde.solvers.methods.time_steps import whole_steps

STABLE = 2.0
"""The largest Δt·(rate of the fastest mode) of a step; the classical Runge–Kutta method is stable to 2.83."""

Nonlinear = Callable[[np.ndarray], tuple[np.ndarray, float]]
"""Of modes: their change, and the rate at which the flow turns the fastest mode."""


class Torus:
    """Real functions of period 1 per axis, f(x) = Σ_k c_k e^{2πik·x} over |k_axis| ≤ K = ⌊(n − 1)/3⌋, on n points per axis.

    Modes have the shape (…, 2K + 1, …, K + 1): k = 0, …, K, −K, …, −1, and on the last axis 0, …, K, the others being
    conjugates. As 3K < n (the 2/3 rule), the modes of a product of two functions are exact.
    """

    def __init__(self, resolution: int, dim: int) -> None:
        self.resolution, self.dim = resolution, dim
        self.highest = (resolution - 1) // 3
        folded = np.concatenate([np.arange(self.highest + 1), np.arange(-self.highest, 0)])
        each = [folded] * (dim - 1) + [np.arange(self.highest + 1)]
        self.waves = np.meshgrid(*each, indexing="ij", sparse=True)
        self.derivative = [2j * np.pi * wave for wave in self.waves]
        self.laplacian = np.asarray(-4 * np.pi**2 * sum(np.square(wave) for wave in self.waves))

    def values(self, modes: np.ndarray) -> np.ndarray:
        """The function at i/n per axis, (…, *grid)."""
        for axis in range(-self.dim, -1):
            rows = np.moveaxis(modes, axis, 0)
            gap = np.zeros((self.resolution - len(rows), *rows.shape[1:]), dtype=rows.dtype)
            filled = np.concatenate([rows[: self.highest + 1], gap, rows[self.highest + 1 :]])
            modes = np.asarray(scipy.fft.ifft(np.moveaxis(filled, 0, axis), axis=axis, norm="forward", overwrite_x=True))
        return np.asarray(scipy.fft.irfft(modes, n=self.resolution, norm="forward"))

    def modes(self, values: np.ndarray) -> np.ndarray:
        """The modes up to K of a function given at i/n per axis."""
        modes = np.asarray(scipy.fft.rfft(values, norm="forward"))[..., : self.highest + 1]
        for axis in range(-self.dim, -1):
            rows = np.moveaxis(np.asarray(scipy.fft.fft(modes, axis=axis, norm="forward")), axis, 0)
            kept = np.concatenate([rows[: self.highest + 1], rows[len(rows) - self.highest :]])
            modes = np.moveaxis(kept, 0, axis)
        return modes


def evolve(
    modes: np.ndarray, linear: np.ndarray, nonlinear: Nonlinear, start: float, times: np.ndarray, longest_step: float
) -> Iterator[np.ndarray]:
    """The modes at each of the times, of c_t = linear·c + nonlinear(c), by classical Runge–Kutta steps of e^{−linear·t} c.

    Steps are equal, at most `longest_step`, and shorter where the flow is too fast for it; they end exactly on the times.
    """
    clock, step, decay = start, 0.0, np.ones_like(linear)
    for moment in times:
        parts = 0.0 if moment == clock else 2.0
        while parts > 0.0:
            first, rate = nonlinear(modes)
            longest = min(longest_step, STABLE / max(rate, np.finfo(np.float64).tiny))
            parts = float(whole_steps(np.asarray(moment - clock), np.asarray(longest)))
            if step != (moment - clock) / parts:
                step = float(moment - clock) / parts
                decay = np.exp(linear * (step / 2))
            modes = _step(modes, first, decay, nonlinear, step)
            clock += step
            parts -= 1.0
        clock = moment
        yield modes


def _step(modes: np.ndarray, first: np.ndarray, decay: np.ndarray, nonlinear: Nonlinear, step: float) -> np.ndarray:
    """One step; `decay` is e^{linear·step/2}."""
    halfway = decay * modes
    second, _ = nonlinear(halfway + (step / 2) * decay * first)
    third, _ = nonlinear(halfway + (step / 2) * second)
    fourth, _ = nonlinear(decay * (halfway + step * third))
    return decay * (halfway + (step / 6) * (decay * first + 2 * (second + third))) + (step / 6) * fourth
