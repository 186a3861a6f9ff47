"""Normalization statistics of a training split, in one streaming pass."""

from __future__ import annotations

import numpy as np

from calm_pde.config import Config
from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import Window
from calm_pde.errors import FileError
from calm_pde.types import Float, Tensor

_ROWS = 2**20  # taken together in float64


class Statistics(Config):
    """Mean, standard deviation (unbiased) and range per channel; a constant channel counts as deviating by 1."""

    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    def normalized(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """(x − mean)/std per channel."""
        return (values - values.new_tensor(self.mean)) / values.new_tensor(self.std)

    def physical(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """mean + std·x per channel."""
        return values * values.new_tensor(self.std) + values.new_tensor(self.mean)


def statistics(dataset: Dataset) -> tuple[Statistics, Statistics | None]:
    """Of the fields over samples × frames × points of a split, and of the features where there are some."""
    fields = Moments(len(dataset.fields))
    given = dataset.file.header.features
    features = Moments(len(given)) if given else None
    for position, index in enumerate(dataset.indices):
        item = dataset[Window(position, 0, dataset.num_frames)]
        for name, total in (("fields", fields), ("features", features)):
            if total is not None and not total.add(item[name].numpy()):
                raise FileError(
                    dataset.file.path,
                    "holds numbers that are not finite",
                    part=f"{name} of trajectory {index}",
                    fix="Run `calm check` on the file to see where.",
                )
    return fields.statistics(dataset.fields), (
        None if features is None else features.statistics(tuple(field.name for field in given))
    )


class Moments:
    """Count, mean and squared deviations per channel, joined block by block (Chan, Golub & LeVeque), in float64."""

    def __init__(self, channels: int) -> None:
        self.count = 0
        self.mean = np.zeros(channels)
        self.squares = np.zeros(channels)
        self.lowest = np.full(channels, np.inf)
        self.highest = np.full(channels, -np.inf)

    def add(self, block: np.ndarray) -> bool:
        """Take in (…, channel); False where a number is not finite."""
        rows = block.reshape(-1, block.shape[-1])
        return all(self._add(rows[start : start + _ROWS].astype(np.float64)) for start in range(0, len(rows), _ROWS))

    def _add(self, rows: np.ndarray) -> bool:
        with np.errstate(invalid="ignore"):
            mean = rows.mean(axis=0)
        if not np.isfinite(mean).all():
            return False
        total, away = self.count + len(rows), mean - self.mean
        self.squares += np.square(rows - mean).sum(axis=0) + away**2 * (self.count * len(rows) / total)
        self.mean += away * (len(rows) / total)
        self.count = total
        self.lowest = np.minimum(self.lowest, rows.min(axis=0))
        self.highest = np.maximum(self.highest, rows.max(axis=0))
        return True

    @property
    def std(self) -> np.ndarray:
        return np.sqrt(self.squares / max(1, self.count - 1))

    def statistics(self, names: tuple[str, ...]) -> Statistics:
        std = np.where(self.highest > self.lowest, self.std, 1.0)
        return Statistics(
            names=names,
            mean=tuple(self.mean.tolist()),
            std=tuple(std.tolist()),
            lowest=tuple(self.lowest.tolist()),
            highest=tuple(self.highest.tolist()),
        )
