"""What a metric finds: numbers that may be infinite or missing, alone or with their spread over samples."""

from __future__ import annotations

import math

from pydantic import ConfigDict

from calm_pde.config import Config
from calm_pde.types import Tensor


class Found(Config):
    """Numbers that may be infinite, where a surrogate diverged, or NaN, where there is nothing to be relative to."""

    model_config = ConfigDict(ser_json_inf_nan="constants", allow_inf_nan=True)


class Spread(Found):
    """Over samples, without those whose truth is exactly zero; a single one deviates by 0."""

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.4f} ± {self.std:.4f}"


class Band(Found):
    """Errors of the Fourier modes of one band, over all samples and frames."""

    relative_l2: float
    """NaN where the truth has nothing in the band but float32's rounding of its other modes."""
    rmse: float


Value = float | Spread | dict[str, Band]


def spread(values: Tensor) -> Spread:
    """Of a number per sample; NaN is left out."""
    known = values[~values.isnan()]
    return Spread(mean=float(known.mean()), std=float(known.std()) if len(known) > 1 else 0.0)


def root_ratio(error: float, size: float) -> float:
    """√(error/size): infinite where the error is, NaN where there is no size to be relative to."""
    return math.inf if not math.isfinite(error) else math.sqrt(error / size) if size > 0 else math.nan


def text(value: Value | None) -> str:
    """As tables print it."""
    if value is None:
        return ""
    return str(value) if isinstance(value, Spread) else f"{value:.3g}"
