"""Windows moved by what their equation leaves invariant: values on grids, coordinates on meshes, nothing interpolated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from scipy.spatial import cKDTree  # pyright: ignore[reportAttributeAccessIssue]

from calm_pde.errors import ConfigError
from calm_pde.geometry import Box
from calm_pde.records.batch import Batch
from calm_pde.records.description import Description
from calm_pde.records.symmetry import Symmetry, signed_choice
from calm_pde.types import Tensor

_DRAWS = 4  # what tells these draws from others of the same seed and epoch
_BACK = 1e-9  # of a condition: what rounding may leave of it
_MOST_TIMES = 10_000  # that a symmetry may have to act before all conditions are back
_SAME = 1e-3  # of a grid's spacing: places nearer than this are one


class Augmentation:
    """One draw from the group that the symmetries of a data set generate, for each window of a batch.

    Of a translation a multiple is drawn, of every other symmetry a power; all are applied one after the other. Parameters,
    signals and features become what the symmetries declare of them; those of which nothing is declared are left out.

    Args:
        taken: names of the parameters, signals and features that the model is given, of which all has to be declared.
    """

    def __init__(self, description: Description, taken: Sequence[str] = ()) -> None:
        if not description.symmetries:
            raise ConfigError(
                "train.augment: the data file declares no symmetries of its equation for these fields. "
                "Declare them when the file is made (docs/data_format.md), or leave augment out."
            )
        if description.steady:
            raise ConfigError("train.augment: the features of a steady problem can't be moved with its field. Leave it out.")
        for name in taken:
            for symmetry in description.symmetries:
                if name not in symmetry.conditions:
                    raise ConfigError(
                        f"train.augment: the symmetry {symmetry.name!r} does not say what becomes of {name!r}, which the model "
                        "is given. Declare it among the conditions of the symmetry when the file is made "
                        "(docs/data_format.md), or leave augment out."
                    )
        self.moves = (MovedPoints if description.points is None or description.grid_shape is None else MovedValues)(description)

    def moved(self, batch: Batch, seed: int, epoch: int) -> Batch:
        """Each window by a draw of its own, a function of the seed, the epoch and the window alone."""
        windows = zip(batch.samples.tolist(), batch.starts.tolist(), strict=True)
        draws = [np.random.default_rng([seed, epoch, _DRAWS, sample, start]) for sample, start in windows]
        return self.moves.moved(batch, draws)


class Moves(ABC):
    """How the symmetries of a data set move the windows of a batch."""

    def __init__(self, description: Description) -> None:
        self.box, self.symmetries = description.box, description.symmetries
        self.unmoved = tuple(range(1, len(description.fields) + 1))
        self.conditions = Conditions(description)

    @abstractmethod
    def moved(self, batch: Batch, draws: list[np.random.Generator]) -> Batch:
        """Each window moved by what its generator draws."""


class MovedValues(Moves):
    """On a grid that every symmetry maps onto itself, values are taken from another point."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        if description.points is None:
            raise ConfigError("train.augment: values move on one grid that all samples share.")
        self.sources = [values_from(symmetry, description.points, self.box) for symmetry in self.symmetries]
        for symmetry, source in zip(self.symmetries, self.sources, strict=True):
            if description.node_type is not None and (description.node_type[source] != description.node_type).any():
                raise _refused(symmetry, "moves node types to points of other types")
        self.orders = [
            math.lcm(order_of_permutation(source), order_of_codes(symmetry.fields), order_of_conditions(symmetry))
            for source, symmetry in zip(self.sources, self.symmetries, strict=True)
        ]

    def moved(self, batch: Batch, draws: list[np.random.Generator]) -> Batch:
        rows, sources, acted = [], [], []
        for fields, draw in zip(batch.fields, draws, strict=True):
            places, codes = np.arange(fields.shape[1]), self.unmoved
            acted.append([])
            for symmetry, source, order in zip(self.symmetries, self.sources, self.orders, strict=True):
                times = int(draw.integers(order))
                places, codes = places[power(source, times)], turned(codes, symmetry.fields, times)
                acted[-1].append(times)
            sources.append(torch.from_numpy(places))
            rows.append(_signed(fields[:, sources[-1]], codes))
        if batch.features is not None:
            features = [values[places] for values, places in zip(batch.features, sources, strict=True)]
            batch = replace(batch, features=torch.stack(features))
        return replace(self.conditions.turned(batch, acted), fields=torch.stack(rows))


class MovedPoints(Moves):
    """On a mesh, points move and take their values along."""

    def __init__(self, description: Description) -> None:
        super().__init__(description)
        corners = np.array([self.box.lower, self.box.upper])
        for symmetry in self.symmetries:
            there = np.sort(self.box.to_unit(symmetry.moved(corners)), axis=0)
            kept = np.equal(symmetry.shift, 0) if symmetry.any_multiple else np.isclose(there, [[0.0], [1.0]]).all(axis=0)
            if not (kept | np.array(self.box.periodic)).all():
                raise _refused(symmetry, "moves points out of the box")
        self.longest = float((corners[1] - corners[0]).max())
        self.orders = [
            math.lcm(order_of_codes(one.axes), order_of_codes(one.fields), order_of_conditions(one)) for one in self.symmetries
        ]

    def moved(self, batch: Batch, draws: list[np.random.Generator]) -> Batch:
        points, rows, acted = batch.points.expand(len(batch), *batch.points.shape[-2:]).clone(), [], []
        for place, (fields, draw) in enumerate(zip(batch.fields, draws, strict=True)):
            unit, codes = points[place].double().numpy(), self.unmoved
            acted.append([])
            for symmetry, order in zip(self.symmetries, self.orders, strict=True):
                if symmetry.any_multiple:
                    far = draw.uniform(0.0, self.longest / np.abs(symmetry.shift).max())
                    unit = moved_inside(symmetry, self.box.to_physical(unit), self.box, far)
                    acted[-1].append(0)  # under which all that is declared stays as it is
                    continue
                times = int(draw.integers(order))
                acted[-1].append(times)
                codes = turned(codes, symmetry.fields, times)
                for _ in range(times):
                    unit = moved_inside(symmetry, self.box.to_physical(unit), self.box)
            points[place] = torch.from_numpy(unit).to(points.dtype)
            rows.append(_signed(fields, codes))
        kinds = None if batch.node_type is None else batch.node_type.expand(points.shape[:2])
        cells = None if batch.cells is None else batch.cells.expand(len(batch), *batch.cells.shape[-2:])
        batch = self.conditions.turned(batch, acted)
        return replace(batch, points=points, fields=torch.stack(rows), node_type=kinds, cells=cells)


class Conditions:
    """What becomes of parameters, signals and features of each point, wherever a symmetry moves the point itself to."""

    def __init__(self, description: Description) -> None:
        self.symmetries = description.symmetries
        self.names = description.conditions

    def turned(self, batch: Batch, acted: list[list[int]]) -> Batch:
        """Of each window after each symmetry has acted so many times; kinds of which not all is declared are left out."""
        found: dict[str, Tensor | None] = {}
        for kind, names in self.names.items():
            values = getattr(batch, kind)
            if values is not None:
                known = all(
                    name in symmetry.conditions and symmetry.conditions[name].of in names
                    for symmetry in self.symmetries
                    for name in names
                )
                found[kind] = self._turned(values, names, acted) if known else None
        if "signals" in found and found["signals"] is None:
            found["signal_times"] = None
        return replace(batch, **found) if found else batch

    def _turned(self, values: Tensor, names: tuple[str, ...], acted: list[list[int]]) -> Tensor:
        rows = []
        for row, times in zip(values, acted, strict=True):
            for symmetry, count in zip(self.symmetries, times, strict=True):
                for _ in range(count):
                    columns = [symmetry.conditions[name] for name in names]
                    sources = [names.index(turned.of) for turned in columns]
                    signs, plus = (row.new_tensor([getattr(one, what) for one in columns]) for what in ("sign", "plus"))
                    row = row[..., sources] * signs + plus
            rows.append(row)
        return torch.stack(rows)


def moved_inside(symmetry: Symmetry, points: np.ndarray, box: Box, times: float = 1.0) -> np.ndarray:
    """g x of physical points in unit coordinates, brought back into [0, 1) along periodic axes."""
    return _inside(box.to_unit(symmetry.moved(points, times)), box)


def _inside(unit: np.ndarray, box: Box) -> np.ndarray:
    wrapped = unit - np.floor(unit)
    return np.where(box.periodic, np.where(wrapped < 1, wrapped, 0.0), unit)  # −1e-17 + 1 is 1


def values_from(symmetry: Symmetry, points: np.ndarray, box: Box) -> np.ndarray:
    """From which point of a grid the value at each comes, when the symmetry acts once; of a translation, by one cell."""
    here = _inside(box.to_unit(points), box)
    tree = cKDTree(here, boxsize=np.array(box.periodic, dtype=float))
    apart = float(tree.query(here, k=2)[0][:, 1].min())
    distance, found = tree.query(moved_inside(symmetry, points, box, _cell(symmetry, points)))
    if distance.max() > _SAME * apart or len(np.unique(found)) < len(found):
        raise _refused(symmetry, "does not map the grid onto itself")
    source = np.empty_like(found)
    source[found] = np.arange(len(found))
    return source


def turned(codes: tuple[int, ...], by: tuple[int, ...], times: int) -> tuple[int, ...]:
    """The order and signs of fields after a symmetry has acted on them so many times more."""
    for _ in range(times if by else 0):
        codes = tuple(codes[abs(code) - 1] * (1 if code > 0 else -1) for code in by)
    return codes


def order_of_codes(codes: tuple[int, ...]) -> int:
    """After how many times an order and signs are what they were."""
    start = now = np.arange(1.0, len(codes) + 1)
    for times in range(1, 2 * math.factorial(len(codes)) + 1):
        now = signed_choice(now, codes)
        if np.array_equal(now, start):
            return times
    return 1


def order_of_conditions(symmetry: Symmetry) -> int:
    """After how many times parameters, signals and features are what they were, by an affine map of integers and shifts."""
    names = list(symmetry.conditions)
    start = now = {name: (name, 1, 0.0) for name in names}
    for times in range(1, _MOST_TIMES):
        after = {}
        for name, turned in symmetry.conditions.items():
            of, sign, plus = now[turned.of]
            after[name] = (of, turned.sign * sign, turned.sign * plus + turned.plus)
        now = after
        if all(now[name][:2] == start[name][:2] and abs(now[name][2]) <= _BACK for name in names):
            return times
    if names:
        raise _refused(symmetry, "never brings its conditions back")
    return 1


def order_of_permutation(source: np.ndarray) -> int:
    """After how many times every place is back: the least common multiple of its cycles."""
    order, seen = 1, np.zeros(len(source), dtype=bool)
    for start in range(len(source)):
        length, place = 0, start
        while not seen[place]:
            seen[place], place, length = True, source[place], length + 1
        order = math.lcm(order, length) if length else order
    return order


def _cell(symmetry: Symmetry, points: np.ndarray) -> float:
    """The multiple of a translation that leads from point to point, along the axis on which it takes longest."""
    if not symmetry.any_multiple:
        return 1.0
    steps = [
        float(np.diff(np.unique(along.round(12))).min()) / abs(shift)
        for along, shift in zip(points.T, symmetry.shift, strict=True)
        if shift
    ]
    return max(steps)


def _signed(fields: Tensor, codes: tuple[int, ...]) -> Tensor:
    signs = fields.new_tensor([math.copysign(1, code) for code in codes])
    return fields[..., [abs(code) - 1 for code in codes]] * signs


def _refused(symmetry: Symmetry, what: str) -> ConfigError:
    return ConfigError(f"train.augment: the symmetry {symmetry.name!r} {what}. Declare the symmetries without it.")


def power(source: np.ndarray, times: int) -> np.ndarray:
    """Where values come from after so many times."""
    found, factor = np.arange(len(source)), source
    while times:
        if times % 2:
            found = found[factor]
        factor, times = factor[factor], times // 2
    return found
