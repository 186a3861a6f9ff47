"""Normalization statistics of a training split, in one streaming pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from calm_pde.config import Config
from calm_pde.data.dataset import Dataset
from calm_pde.data.windows import Window
from calm_pde.errors import ConfigError, FileError, InputError
from calm_pde.types import Float, Tensor

_ROWS = 2**20  # taken together in float64
_DECADES = 100.0  # a positive parameter whose largest value is so many times its smallest is told by its logarithm
_CONSTANT = 1e-6  # of a channel's deviation: a point whose own is smaller counts as constant

Row = tuple[float, ...]


class Statistics(Config):
    """Mean, standard deviation (unbiased) and range per channel; what is constant counts as deviating by 1.

    Mean and deviation may also be told for every point of a mesh, a row each. Where zero stays zero they are 0 and the root
    mean square.
    """

    names: tuple[str, ...]
    mean: Row | tuple[Row, ...]
    std: Row | tuple[Row, ...]
    lowest: tuple[float, ...]
    highest: tuple[float, ...]

    def normalized(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """(x − mean)/std."""
        if isinstance(self.mean[0], tuple) and values.shape[-2] != len(self.mean):
            raise InputError(
                "points",
                expected=f"the {len(self.mean):,} points of the surrogate's own mesh, where it knows the mean of its features",
                got=f"{values.shape[-2]:,} points",
                fix="Give these points, or train a surrogate without data.normalize_features=point.",
            )
        return (values - values.new_tensor(self.mean)) / values.new_tensor(self.std)

    def physical(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        """mean + std·x."""
        return values * values.new_tensor(self.std) + values.new_tensor(self.mean)


class ParameterStatistics(Statistics):
    """Of parameters: those that are positive and range over decades are normalized by their logarithm, whose mean and
    deviation these are; the range is that of the parameter itself."""

    logarithmic: tuple[bool, ...]

    def normalized(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        if not any(self.logarithmic):
            return super().normalized(values)
        chosen = torch.tensor(self.logarithmic, device=values.device)
        return super().normalized(torch.where(chosen, torch.where(chosen, values, 1.0).log(), values))

    def physical(self, values: Float[Tensor, "*axes channel"]) -> Float[Tensor, "*axes channel"]:
        plain, chosen = super().physical(values), torch.tensor(self.logarithmic, device=values.device)
        return torch.where(chosen, plain.exp(), plain)


def condition_statistics(dataset: Dataset) -> tuple[ParameterStatistics | None, Statistics | None]:
    """Of the parameters over the samples of a split, and of the signals over their knots, where there are some."""
    description = dataset.description
    rows: list[np.ndarray] = []
    signals = Moments(len(description.signals)) if description.signals else None
    for index in dataset.indices if description.parameters or description.signals else ():
        found = dataset.file.trajectory(int(index), slice(0, 1))
        told = {"parameters": found.parameters, "signals": found.signals}
        for name, values in told.items():
            if values is not None and not np.isfinite(values).all():
                where = f"{name} of trajectory {index}"
                fix = "Run `calm check` on the file to see where."
                raise FileError(dataset.file.path, "holds numbers that are not finite", part=where, fix=fix)
        if found.parameters is not None and description.parameters:
            rows.append(dataset.taken("parameters", found.parameters))
        if signals is not None and found.signals is not None:
            signals.add(dataset.taken("signals", found.signals))
    of_signals = None if signals is None else signals.statistics(description.signals)
    return (_of_parameters(np.stack(rows), description.parameters) if rows else None), of_signals


def _of_parameters(table: np.ndarray, names: tuple[str, ...]) -> ParameterStatistics:
    lowest, highest = table.min(axis=0), table.max(axis=0)
    logarithmic = (lowest > 0) & (highest >= _DECADES * lowest)
    moments = Moments(len(names))
    moments.add(np.where(logarithmic, np.log(np.where(logarithmic, table, 1.0)), table))
    found = moments.statistics(names).model_dump() | {"lowest": tuple(lowest.tolist()), "highest": tuple(highest.tolist())}
    return ParameterStatistics(**found, logarithmic=tuple(logarithmic.tolist()))


def statistics(
    dataset: Dataset, features_per_point: bool = False, zero_stays: bool = False, also: Sequence[Dataset] = ()
) -> tuple[Statistics, Statistics | None]:
    """Of the fields over samples × frames × points of a split, and of the features where there are some.

    Args:
        also: other splits of the same file that count with it.
    """
    given = tuple(field.name for field in dataset.description.features)
    fields, features = Moments(len(dataset.fields)), Moments(len(given)) if given else None
    at_points = Moments(_points(dataset) * len(given)) if features_per_point else None
    places = [(part, position, index) for part in (dataset, *also) for position, index in enumerate(part.indices)]
    for split, position, index in places:
        item = split[Window(position, 0, split.num_frames)]
        for name, total in (("fields", fields), ("features", features)):
            if total is not None and not total.add(item[name].numpy()):
                raise FileError(
                    dataset.file.path,
                    "holds numbers that are not finite",
                    part=f"{name} of trajectory {index}",
                    fix="Run `calm check` on the file to see where.",
                )
        if at_points is not None:
            at_points.add(item["features"].numpy().reshape(1, -1))
    of_features = None if features is None else features.statistics(given)
    if of_features is not None and at_points is not None:
        of_features = _per_point(of_features, at_points)
    of_fields = fields.statistics(dataset.fields)
    return _uncentered(of_fields, fields) if zero_stays else of_fields, of_features


def _uncentered(centered: Statistics, moments: Moments) -> Statistics:
    sizes = np.sqrt(moments.squares / max(1, moments.count) + moments.mean**2)
    sizes = np.where(sizes > 0, sizes, 1.0)
    return centered.model_copy(update={"mean": (0.0,) * len(sizes), "std": tuple(sizes.tolist())})


def _points(dataset: Dataset) -> int:
    """How many points every sample has, where features can be normalized point by point."""
    fewest, most = int(dataset.file.num_points.min()), int(dataset.file.num_points.max())
    if not dataset.description.features:
        raise ConfigError("data.normalize_features: expected a file with features for 'point', got one without. Leave it out.")
    if fewest != most:
        raise ConfigError(
            f"data.normalize_features: expected as many points in every sample for 'point', got {fewest:,} to {most:,}. "
            "Use 'channel'."
        )
    return most


def _per_point(whole: Statistics, each: Moments) -> Statistics:
    shape = (-1, len(whole.names))
    mean, std = each.mean.reshape(shape), each.std.reshape(shape)
    std = np.where(std > _CONSTANT * np.array(whole.std), std, 1.0)
    return whole.model_copy(update={"mean": tuple(map(tuple, mean.tolist())), "std": tuple(map(tuple, std.tolist()))})


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
