"""What a model is told beside a state, at its door and over time: parameters, features, signals, prescribed values, cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import torch

from calm_pde.engine.transforms import seen_through
from calm_pde.errors import InputError
from calm_pde.models.checks import check_finite
from calm_pde.models.contract import ModelConfig
from calm_pde.records.inputs import Inputs, knots
from calm_pde.types import Float, Tensor

_SHAPES = {
    "parameters": "(batch, parameter)",
    "signals": "(batch, knot, signal)",
    "features": "(batch, point, feature)",
}
_BEYOND = 1e-3  # frames that rounding may put a time behind the last knot


class Course(Protocol):
    """c(t) of each sample, at any time: beyond the last knot it stays what it was there."""

    def at(self, times: Float[Tensor, "time"]) -> Float[Tensor, "batch time signal"]: ...


class Known(NamedTuple):
    """What is known of each sample at any time: its parameters, and its signals as functions of time."""

    parameters: Float[Tensor, "batch parameter"] | None
    course: Course | None

    @classmethod
    def of(cls, given: Inputs) -> Known:
        return cls(given.parameters, given.course)

    def at(self, times: Sequence[float]) -> Float[Tensor, "batch time condition"]:
        """Parameters ‖ c(t) ‖ c(t + 1): a step from t is told where the signals are, and where they will be a frame later."""
        parts = []
        if self.parameters is not None:
            parts.append(self.parameters[:, None].expand(-1, len(times), -1))
        if self.course is not None:
            now = torch.tensor(times, dtype=torch.float64)
            parts += [self.course.at(now), self.course.at(now + 1)]
        return torch.cat(parts, dim=-1)


def check_conditions(
    given: Inputs,
    config: ModelConfig,
    dtype: torch.dtype,
    told: Sequence[str] = tuple(_SHAPES),
    last: float | None = None,
) -> None:
    """As many of each as the config says, finite, for each sample; signals from frame 0 to the last time that is asked.

    Args:
        dtype: of the weights, which under autocast is not that of a state on its way.
        told: what this door takes of the conditions.
    """
    for name in told:
        value = getattr(given, name)
        _check_number(name, value, getattr(config, name), given.values, dtype)
        if value is not None:
            check_finite(name, value, given.mask if name == "features" else None)
    _check_cells(given, config.cells)
    if "signals" not in told:
        return
    if given.signals is not None:
        _check_knots(given.signals, given.signal_times, last)
    elif given.signal_times is not None:
        raise InputError("signal_times", expected="none without signals", got="some", fix="Give the signals too.")


def _check_number(name: str, value: Any, count: int, values: Tensor, dtype: torch.dtype) -> None:
    if (value is None) == bool(count):
        raise InputError(
            name,
            expected=f"{_SHAPES[name]} with {count} of them, which this model is told" if count else "none",
            got="none" if value is None else "some, and this model is not told them",
            fix=f"Pass {name}= exactly where the config has {name}; training sets it by the data file.",
        )
    if value is None:
        return
    if not isinstance(value, Tensor) or value.dtype != dtype:
        raise InputError(
            name,
            expected=f"a tensor of {dtype}, the type of the weights",
            got=f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__,
            fix=f"Use torch.as_tensor({name}, dtype={dtype}).",
        )
    wanted = {"parameters": (len(values),), "signals": (len(values), max(1, *value.shape[1:2])), "features": values.shape[:2]}
    if tuple(value.shape) != (*wanted[name], count):
        raise InputError(
            name,
            expected=f"shape {_SHAPES[name]}, {len(values)} samples with {count} of them",
            got=f"shape {tuple(value.shape)}",
            fix="Give each sample its own, in the order of the data file.",
        )


def _check_knots(signals: Tensor, times: Any, last: float | None) -> None:
    batch, count = signals.shape[:2]
    if times is not None:
        if not isinstance(times, Tensor) or times.dtype not in (torch.float32, torch.float64):
            raise InputError(
                "signal_times",
                expected="a tensor of float32 or float64, in frames",
                got=str(times.dtype) if isinstance(times, Tensor) else type(times).__name__,
                fix="Use torch.as_tensor(signal_times, dtype=torch.float64).",
            )
        if tuple(times.shape) not in ((count,), (batch, count)):
            raise InputError(
                "signal_times",
                expected=f"shape {(count,)} or {(batch, count)}, a time for each knot of the signals",
                got=f"shape {tuple(times.shape)}",
                fix="Give the time of each knot in frames from the state; None where they are frames 0, 1, 2, ….",
            )
        check_finite("signal_times", times)
        if bool((times.diff(dim=-1) <= 0).any()):
            raise InputError(
                "signal_times", expected="strictly increasing times", got="others", fix="Sort the knots, without repetitions."
            )
    at = knots(signals, times)
    first, end = float(at[:, 0].max()), float(at[:, -1].min())
    if first > _BEYOND or (last is not None and end < last - _BEYOND * max(1.0, last)):
        raise InputError(
            "signals",
            expected="knots from frame 0" + (f" to frame {last:g}, the last that is asked" if last is not None else ""),
            got=f"knots from frame {first:g} to frame {end:g}",
            fix="Give the signals over the whole time; nothing is known of them beyond their knots.",
        )


def _check_cells(given: Inputs, wanted: bool) -> None:
    """The corners of each cell are points of the mesh, exactly where the model reads them."""
    cells = given.cells
    if (cells is None) == wanted:
        raise InputError(
            "cells",
            expected="(cell, corner), the points at the corners of each cell" if wanted else "none",
            got="none" if cells is None else "some, and this model reads no cells",
            fix="Pass cells= exactly where the config says cells; training sets it by the data file.",
        )
    if cells is None:
        return
    count, lead = given.values.shape[1], len(given.values)
    fits = isinstance(cells, Tensor) and cells.dtype == torch.int64
    if not fits or cells.ndim not in (2, 3) or (cells.ndim == 3 and len(cells) != lead):
        raise InputError(
            "cells",
            expected=f"int64 of shape (cell, corner), or ({lead}, cell, corner) for each sample's own",
            got=f"{cells.dtype} of shape {tuple(cells.shape)}" if isinstance(cells, Tensor) else type(cells).__name__,
            fix="Give the index of the point at each corner.",
        )
    if cells.numel() and not (int(cells.min()) >= 0 and int(cells.max()) < count):
        got = f"{int(cells.min())} … {int(cells.max())}"
        raise InputError("cells", expected=f"indices 0 … {count - 1} of points", got=got, fix="Count points from 0.")


def check_prescribed(given: Inputs, config: ModelConfig) -> None:
    """Values of frames 1, 2, … at the points, or NaN."""
    value = given.prescribed
    if value is None or seen_through():
        return
    (batch, points), channels = given.values.shape[:2], config.out_channels
    fits = isinstance(value, Tensor) and value.ndim == 4 and (*value.shape[:1], *value.shape[2:]) == (batch, points, channels)
    if not fits:
        raise InputError(
            "prescribed",
            expected=f"shape (batch, time, point, channel), ({batch}, time, {points}, {channels}), NaN where nothing is",
            got=f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__,
            fix="Give the values of frames 1, 2, … at the points.",
        )
    if bool(value.isinf().any()):
        raise InputError("prescribed", expected="numbers, or NaN where nothing is", got="infinity", fix="Repair the values.")


def transitions(given: Inputs, first: int, count: int) -> Float[Tensor, "batch time condition"] | None:
    """What a model that steps frame by frame is told of each step, from t = first on; None where nothing is."""
    if given.parameters is None and given.signals is None:
        return None
    return Known.of(given).at([float(frame) for frame in range(first, first + count)])


def between(given: Inputs, starts: Sequence[float], ends: Sequence[float]) -> Float[Tensor, "batch time condition"] | None:
    """What a step from each start to its end is told, of any length: parameters ‖ c(start) ‖ c(end); None where nothing is."""
    parts, course = [], given.course
    if given.parameters is not None:
        parts.append(given.parameters[:, None].expand(-1, len(starts), -1))
    if course is not None:
        parts += [course.at(torch.tensor(times, dtype=torch.float64)) for times in (starts, ends)]
    return torch.cat(parts, dim=-1) if parts else None


def expanded(given: Inputs, count: int) -> Inputs:
    """One state and its conditions, `count` times."""
    told = {name: getattr(given, name) for name in ("values", "features", "parameters", "signals")}
    told |= {} if given.signal_times is None or given.signal_times.ndim == 1 else {"signal_times": given.signal_times}
    more = {name: value.expand(count, *value.shape[1:]) for name, value in told.items() if value is not None}
    return replace(given, **more)
