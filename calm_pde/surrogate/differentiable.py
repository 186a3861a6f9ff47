"""A surrogate on one mesh as a function of tensors, in physical units, for whoever differentiates what it answers."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from calm_pde.data.readers.condition_forms import at_common_knots
from calm_pde.engine.plain import plain_attention
from calm_pde.engine.transforms import seen_through
from calm_pde.errors import InputError
from calm_pde.records.arrays import check_undifferentiated, finite_numbers
from calm_pde.records.signals import Signals
from calm_pde.surrogate.nearness import said_already
from calm_pde.surrogate.told import Told
from calm_pde.types import Tensor

if TYPE_CHECKING:
    from calm_pde.surrogate.surrogate import Surrogate


class Differentiable(nn.Module):
    """u(t, queries) from the initial state, parameters, signals and features, as `Surrogate.solve` has it, with gradients.

    Made by `Surrogate.differentiable`. Everything that it is called with may be a tensor, and derivatives of any order flow to
    it, the times of a signal's knots excepted; numbers and arrays serve too. It owns a copy of the weights, which are frozen:
    an optimizer of objectives never trains the surrogate. The model computes in the type of its weights, which `.double()`
    and `.to(device)` change; the answer has the type of the initial state where that is a tensor.
    """

    points: Tensor
    codes: Tensor | None
    corners: Tensor | None
    asked: Tensor | None

    def __init__(
        self,
        surrogate: Surrogate,
        points: Any,
        queries: Any = None,
        times: Sequence[float] | np.ndarray | None = None,
        node_type: Any = None,
        allow_nonfinite: bool = False,
        cells: Any = None,
    ) -> None:
        super().__init__()
        coordinates = surrogate._coordinates("points", points)
        asked = None if queries is None else torch.from_numpy(surrogate._coordinates("queries", queries))
        self.surrogate, self.physical_points = surrogate, finite_numbers("points", points).copy()
        if queries is not None:
            surrogate._far(points, queries, "warn")
        self.times, self.steps = surrogate.asked_times(times), surrogate._steps(times)
        self.allow_nonfinite = allow_nonfinite
        self.model = copy.deepcopy(surrogate.model).requires_grad_(False).eval()
        self.model.differentiate()
        self.register_buffer("points", torch.from_numpy(coordinates).to(surrogate.device), persistent=False)
        self.register_buffer("asked", None if asked is None else asked.to(surrogate.device), persistent=False)
        self.register_buffer("codes", surrogate._codes(node_type), persistent=False)
        self.register_buffer("corners", surrogate._corners(cells, self.points), persistent=False)

    def train(self, mode: bool = True) -> Differentiable:
        """The model goes on answering as it does in use, whatever it is a part of."""
        super().train(mode)
        self.model.eval()
        return self

    def forward(
        self,
        initial: Any = None,
        parameters: Mapping[str, Any] | None = None,
        signals: Mapping[str, Any] | None = None,
        features: Any = None,
        queries: Any = None,
        prescribed: Mapping[str, Any] | None = None,
    ) -> Tensor:
        """The fields (time, query, channel), physical, with a batch axis where something has one; arguments as in `solve`.

        Args:
            queries: where to answer, instead of those that the module was made with, if any.
        """
        surrogate = self.surrogate
        if surrogate.task == "steady" and initial is None:
            initial, features = features, None
        initial, queries = _whole(initial), _whole(queries)
        told = Told(*map(_whole, (parameters, signals, features, prescribed)))
        if not seen_through():
            self._check(initial, told, queries)
        state = self._own(self.physical_points if initial is None else initial)
        asked = self.asked if queries is None else surrogate.description.box.to_unit_inside(self._real(queries))
        points, kind = self.points.to(self.dtype), self.dtype
        batch = surrogate._assembled(state, points, self.codes, self._beside(told), self.steps, self.corners)
        if not seen_through():
            surrogate._check_prescribed(batch)
        given = surrogate.translator.inputs(batch, kind)
        wanted, places = surrogate._asked(self.steps)
        with plain_attention(), said_already():
            out = self.model(
                given.values, given.points, queries=None if asked is None else asked.to(kind), **given.told, **wanted
            )
        out = surrogate.translator.physical(out[:, places])
        if asked is None:
            out = surrogate.translator.with_given(out, batch)
        single = state.ndim == points.ndim == 2 and not told.batched
        if not self.allow_nonfinite and not seen_through():
            surrogate._check_answers(out.detach().cpu().numpy(), self.times, single)
        out = out.to(initial.dtype) if isinstance(initial, Tensor) and initial.is_floating_point() else out
        return out[0] if single else out

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.model.parameters()).dtype

    def _check(self, initial: Any, told: Told, queries: Any) -> None:
        """What `solve` asks of numbers is asked of those of the tensors."""
        surrogate = self.surrogate
        if surrogate.translator.given_statistics is None and isinstance(initial, Tensor) and initial.requires_grad:
            fix = "The mesh is fixed, and its coordinates are all that the surrogate is given; leave initial out."
            raise InputError("initial", expected="none that is differentiated by", got="a tensor with gradient", fix=fix)
        for name, line in told.signals.items() if isinstance(told.signals, Mapping) else ():
            if isinstance(line, tuple) and len(line) == 2:
                check_undifferentiated(f"signals[{name!r}], times", line[0])
        surrogate._state(_numbers(initial), self.physical_points)
        plain = Told(**{kind: _numbers(values) for kind, values in vars(told).items()})
        surrogate._door.checked(plain, self.points.shape[-2], self.steps)
        if queries is not None:
            surrogate._coordinates("queries", _numbers(queries))
            surrogate._far(self.physical_points, _numbers(queries), "warn")

    def _beside(self, told: Told) -> dict[str, Tensor]:
        """The tensors of a batch, with one row where something is for all samples, as the door makes them of numbers."""
        found, names = {}, self.surrogate.conditions
        if names["parameters"] and told.parameters is not None:
            columns = [self._own(told.parameters[name]) for name in names["parameters"]]
            found["parameters"] = _table([torch.atleast_1d(column) for column in columns])
        if names["signals"] and told.signals is not None:
            found |= self._signals([told.signals[name] for name in names["signals"]], names["signals"])
        if names["features"] and told.features is not None:
            found["features"] = self._features(told.features, names["features"])
        known = {one.field for one in self.surrogate.translator.prescribed}
        if known and told.prescribed is not None:
            columns = {name: self._own(told.prescribed[name]) for name in known}
            rows = {name: column if column.ndim == 3 else column[None] for name, column in columns.items()}
            nothing = torch.full_like(next(iter(rows.values())), torch.nan)
            found["prescribed"] = _table([rows.get(name, nothing) for name in self.surrogate.description.field_names])
        return found

    def _features(self, given: Any, names: tuple[str, ...]) -> Tensor:
        if isinstance(given, Mapping):
            return _table([torch.atleast_2d(self._own(given[name])) for name in names])
        table = self._own(given)
        return table if table.ndim == 3 else table[None]

    def _signals(self, given: list[Any], names: tuple[str, ...]) -> dict[str, Tensor]:
        """Values at the knots of all signals of a sample, and these in frames; rows with fewer knots end level."""
        lines = [self._line(name, line) for name, line in zip(names, given, strict=True)]
        count = max(max(len(knots), len(values)) for knots, values in lines)
        each = [[knots[sample % len(knots)] for knots, _ in lines] for sample in range(count)]
        common = [at_common_knots([(knots, knots) for knots in row])[0] for row in each]
        most, spacing, frame = max(map(len, common)), self.surrogate.translator.spacing, np.arange
        times = [np.concatenate([row / spacing, row[-1] / spacing + frame(1, most - len(row) + 1)]) for row in common]
        asked = torch.from_numpy(np.stack(times)).to(self.device)
        rows = []
        for sample in range(count):
            columns = []
            for knots, values in lines:
                own = torch.from_numpy(knots[sample % len(knots)] / spacing).to(self.device)
                columns.append(Signals(own[None], values[sample % len(values)][None, :, None]).at(asked[sample])[0])
            rows.append(torch.cat(columns, dim=-1))
        return {"signals": torch.stack(rows), "signal_times": asked}

    def _line(self, name: str, given: Any) -> tuple[np.ndarray, Tensor]:
        """Knots and values of one signal, (1 or sample, knot) each; a level has its value at every knot."""
        values = self._own(given[1] if isinstance(given, tuple) and len(given) == 2 else given)
        last = self.steps[-1] if self.steps else 0.0
        knots, _ = self.surrogate._door._line(name, _numbers(given), last)
        return knots, torch.atleast_2d(values.expand(knots.shape[-1]) if values.ndim == 0 else values)

    def _own(self, values: Any) -> Tensor:
        """In the type of the weights and where they are."""
        return self._real(values).to(self.dtype)

    def _real(self, values: Any) -> Tensor:
        if isinstance(values, Tensor):
            return values.to(self.device)
        return torch.as_tensor(np.asarray(values, dtype=np.float64), device=self.device)


def _table(columns: Sequence[Tensor]) -> Tensor:
    """Columns (row, …) as one table (row, …, column); a column of one row is for all."""
    count = max(map(len, columns))
    return torch.stack([column.expand(count, *column.shape[1:]) for column in columns], dim=-1)


def _whole(given: Any) -> Any:
    """Lists of tensors as tensors: turned into numbers, they would lose what they are differentiated by."""
    if isinstance(given, Mapping):
        return {name: _whole(value) for name, value in given.items()}
    if not isinstance(given, list | tuple):
        return given
    parts = [_whole(part) for part in given]
    if isinstance(given, list) and parts and all(isinstance(part, Tensor) for part in parts):
        return torch.stack(parts)
    return type(given)(parts)


def _numbers(given: Any) -> Any:
    """What is given without what is differentiated by; where transforms look through tensors, zeros of their shape."""
    if isinstance(given, Tensor):
        return np.zeros(given.shape) if seen_through() else given.detach().cpu()
    if isinstance(given, Mapping):
        return {name: _numbers(value) for name, value in given.items()}
    if isinstance(given, list | tuple):
        return type(given)(_numbers(value) for value in given)
    return given
