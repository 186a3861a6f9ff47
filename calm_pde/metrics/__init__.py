"""Metrics: one class each, and the list that tables, files, reports and comparisons take them from."""

from __future__ import annotations

from calm_pde.config import suggestion
from calm_pde.metrics.bands import BandErrors
from calm_pde.metrics.largest import LargestError
from calm_pde.metrics.metric import Metric
from calm_pde.metrics.relative_l2 import RelativeL2, RelativeL2Spacetime
from calm_pde.metrics.root_mean_square import NormalizedRootMeanSquare, RootMeanSquare

METRICS: dict[str, type[Metric]] = {
    "relative_l2": RelativeL2,
    "relative_l2_spacetime": RelativeL2Spacetime,
    "rmse": RootMeanSquare,
    "normalized_rmse": NormalizedRootMeanSquare,
    "max_error": LargestError,
    "bands": BandErrors,
}
REDUCTIONS: dict[str, type[RelativeL2 | RelativeL2Spacetime]] = {"frame": RelativeL2, "spacetime": RelativeL2Spacetime}
"""The error that a training with `train.reduction` minimizes and validates by."""


def ranking_metric(name: str) -> str:
    """The name of a metric that can rank models; a reduction of the training stands for its error."""
    name = REDUCTIONS[name].name if name in REDUCTIONS else name
    known = [one.name for one in METRICS.values() if one.overall]
    if name not in known:
        raise ValueError(f"metric: there is none {name!r} that is one number for all fields. {suggestion(name, known)}")
    return name
