"""What the rule needs to know of a data set, from its description and a few trajectories."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.data.augment import Augmentation
from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import Moments
from calm_pde.data.windows import Window
from calm_pde.errors import CalmError, ConfigError
from calm_pde.records.description import Description

MOST_FRAMES = 60
"""Of a trajectory; with more of them every second, third, … is taken, since a model is asked between frames too."""
_LOOKED_AT = 48  # trajectories, spread over the split
_GRADED = 10.0  # a mesh whose wide spacings are this many times its narrow ones is graded
_QUANTILES = (0.05, 0.95)  # narrow and wide distances to the nearest point, small and large states
_SEVERAL, _ALMOST_NOTHING = 2.0, 0.1  # times as large; of what a field comes to later
_OF_A_RANGE = 0.02  # features whose deviation at a point is less than this share of all they do are told apart point by point

Layout = Literal["alike everywhere", "alike in part", "grid", "mesh", "graded mesh"]


@dataclass(frozen=True)
class Survey:
    """A training split as the rule sees it.

    Args:
        layout: `alike everywhere`: an equation without a place of its own in a periodic box, declared by translations along
            all axes; `alike in part`: by fewer of them, as under a force that varies across; a `grid` that fills its box; a
            `mesh` or cloud; a `graded mesh`, much finer in some places than in others.
        fewest, usual, most: points of a sample.
        frames: that are taken, with `stride`.
        moves: whether declared symmetries can move windows.
        idle: fields that are one number everywhere.
        still: fields that do not change in time in any trajectory that was looked at.
        by_point: whether features differ by little of their range at each point.
        level: whether every state is at first the same at all points.
        scales: whether a vector is several times as large at first in some trajectories as in others, and nothing starts from
            almost nothing.
    """

    description: Description
    layout: Layout
    trajectories: int
    fewest: int
    usual: int
    most: int
    stride: int
    frames: int
    moves: bool
    idle: tuple[str, ...]
    still: tuple[str, ...]
    by_point: bool
    level: bool
    scales: bool

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of those to learn."""
        return tuple(name for name in self.description.field_names if name not in self.idle)


def survey(dataset: Dataset, keep_stride: bool = False) -> Survey:
    """Look at a training split; its numbers are read from a few trajectories alone.

    Args:
        keep_stride: whether its frames are taken as they are, however many.
    """
    described = dataset.description
    sizes = dataset.file.num_points[dataset.indices]
    looked = _looked_at(dataset)
    idle = looked.idle
    if len(idle) == len(described.fields):
        raise ConfigError(f"{dataset.file.path}: every field is one number everywhere: there is nothing to learn.")
    every = 1 if keep_stride else max(1, -(-(len(described.times) - 1) // (MOST_FRAMES - 1)))
    return Survey(
        description=described,
        layout=_layout(dataset),
        trajectories=len(dataset),
        fewest=int(sizes.min()),
        usual=int(np.median(sizes)),
        most=int(sizes.max()),
        stride=dataset.frame_stride * every,
        frames=len(described.times[::every]),
        moves=_moves(described.of([name for name in described.field_names if name not in idle])),
        idle=idle,
        still=() if described.steady else tuple(name for name in looked.still if name not in idle),
        by_point=_told_by_point(dataset, looked.features),
        level=not described.steady and looked.level,
        scales=not described.steady and _scales(looked, described.field_names),
    )


def _layout(dataset: Dataset) -> Layout:
    described = dataset.description
    translations = [symmetry.shift for symmetry in described.symmetries if symmetry.any_multiple]
    if all(described.periodic) and translations:
        return "alike everywhere" if np.linalg.matrix_rank(translations) == described.box.dim else "alike in part"
    points = (dataset[0]["points"] if dataset.points is None else dataset.points).double().numpy()
    if len(points) < 2:
        return "mesh"
    narrow, wide = np.quantile(cKDTree(points).query(points, k=2)[0][:, 1], _QUANTILES)
    if wide > _GRADED * narrow:
        return "graded mesh"
    return "grid" if _fills_its_box(points) else "mesh"


def _fills_its_box(points: np.ndarray) -> bool:
    """Whether points are all combinations of one coordinate per axis."""
    along = [len(np.unique(axis.round(6))) for axis in points.T]
    return int(np.prod(along)) == len(points)


def _moves(described: Description) -> bool:
    if described.steady or not described.symmetries:
        return False
    try:
        Augmentation(described)
    except CalmError:
        return False
    return True


class _LookedAt(NamedTuple):
    """Of a few trajectories: fields that are one number, those that do not change in time, whether first states are level,
    sizes (sample, field) of first states and of all frames, and features (point, feature) of each."""

    idle: tuple[str, ...]
    still: tuple[str, ...]
    level: bool
    first: np.ndarray
    whole: np.ndarray
    features: list[np.ndarray]


def _looked_at(dataset: Dataset) -> _LookedAt:
    names, features, first, whole = dataset.fields, [], [], []
    moments, changes, level = Moments(len(names)), np.zeros(len(names), dtype=bool), True
    for position in np.unique(np.linspace(0, len(dataset) - 1, _LOOKED_AT).astype(int)).tolist():
        item = dataset[Window(position, 0, dataset.num_frames)]
        values = item["fields"].numpy()
        if not moments.add(values):
            problem = f"trajectory {item['sample']} holds numbers that are not finite"
            raise ConfigError(f"{dataset.file.path}: {problem}. Run `calm check` on the file.")
        changes |= (values != values[:1]).any(axis=(0, 1))
        level &= bool((values[0] == values[0, :1]).all())
        squares = np.square(values.astype(np.float64)).mean(axis=1)  # (time, field)
        first.append(np.sqrt(squares[0]))
        whole.append(np.sqrt(squares.mean(axis=0)))
        features += [item["features"].numpy()] if "features" in item else []
    idle = tuple(name for name, low, high in zip(names, moments.lowest, moments.highest, strict=True) if low == high)
    still = tuple(name for name, moved in zip(names, changes, strict=True) if not moved)
    return _LookedAt(idle, still, level, np.stack(first), np.stack(whole), features)


def _scales(looked: _LookedAt, names: Sequence[str]) -> bool:
    if (looked.first <= _ALMOST_NOTHING * looked.whole).any():
        return False
    vectors = [np.sqrt(np.square(looked.first[:, group]).sum(axis=1)) for group in groups(names) if len(group) > 1]
    return any(large >= _SEVERAL * small for small, large in (np.quantile(sizes, _QUANTILES) for sizes in vectors))


def groups(names: Sequence[str]) -> list[list[int]]:
    """The components of a vector together, by names that differ in _x, _y and _z alone; other fields for themselves."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(re.sub(r"_[xyz]$", "_", name), []).append(place)
    return list(found.values())


def _told_by_point(dataset: Dataset, features: list[np.ndarray]) -> bool:
    sizes = dataset.file.num_points
    if not features or len(features) < 2 or sizes.min() != sizes.max():
        return False
    stacked = np.stack(features).astype(np.float64)  # (sample, point, feature)
    whole = stacked.std(axis=(0, 1))
    at_points = stacked.std(axis=0).mean(axis=0)
    varying = at_points > 0
    return bool(varying.any() and (at_points[varying] < _OF_A_RANGE * whole[varying]).all())
