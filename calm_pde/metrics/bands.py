"""Errors by wave number, on full periodic grids."""

from __future__ import annotations

import math
from typing import ClassVar, Literal

import numpy as np
import torch

from calm_pde.metrics.metric import Compared, Metric
from calm_pde.metrics.values import Band, root_ratio
from calm_pde.types import Float, Tensor

_ROUNDING = float(np.finfo(np.float32).eps) ** 2  # of a field's energy: what float32 puts into bands where it has none


class BandErrors(Metric):
    """Of each band of Fourier modes; none where the points are no such grid."""

    name: ClassVar[str] = "bands"
    title: ClassVar[str] = "Errors by wave number"
    drawn: ClassVar[Literal["everywhere", "report", "own table"]] = "own table"

    def __init__(self, grid: tuple[int, ...] | None = None) -> None:
        super().__init__(grid)
        self._energies: dict[str, Tensor] = {}
        self._sizes = self._count = torch.zeros(())

    def add(self, compared: Compared) -> None:
        if self.grid is None:
            return
        both = (band_energies(values, self.grid) for values in (compared.wrong, compared.target))
        for (name, error), size in zip(next(both).items(), next(both).values(), strict=True):
            self._energies[name] = self._energies.get(name, 0) + torch.stack([error, size])
        self._sizes = self._sizes + compared.target.square().sum(dim=(0, 1, 2))
        self._count = self._count + compared.num_values

    def of_field(self, place: int) -> dict[str, Band]:
        return {name: self._band(energies[:, place], place) for name, energies in self._energies.items()}

    def _band(self, energies: Tensor, place: int) -> Band:
        whole, count = float(self._sizes[place]), max(1.0, float(self._count[place]))
        error, size = energies.nan_to_num(nan=math.inf, posinf=math.inf).tolist()
        relative = root_ratio(error, size if size > _ROUNDING * whole else 0.0)
        return Band(relative_l2=relative, rmse=math.sqrt(error / count))


def band_energies(
    values: Float[Tensor, "batch time point channel"], grid_shape: tuple[int, ...]
) -> dict[str, Float[Tensor, "channel"]]:
    """Σ|û(k)|² over the Fourier modes with |k| below 5, below 13, and above (PDEBench's bands); all bands together: Σu².

    The points are a full, uniform, periodic grid in row-major order.
    """
    axes = tuple(range(2, 2 + len(grid_shape)))
    modes = torch.fft.fftn(values.reshape(*values.shape[:2], *grid_shape, values.shape[-1]), dim=axes, norm="ortho")
    energy = modes.abs().square().sum(dim=(0, 1))
    waves = [torch.fft.fftfreq(n, 1 / n, dtype=energy.dtype, device=energy.device) for n in grid_shape]
    wave = torch.stack(torch.meshgrid(*waves, indexing="ij")).square().sum(dim=0).sqrt()
    bands = {"low": wave < 5, "middle": (wave >= 5) & (wave < 13), "high": wave >= 13}
    return {name: energy[band].sum(dim=0) for name, band in bands.items() if bool(band.any())}
