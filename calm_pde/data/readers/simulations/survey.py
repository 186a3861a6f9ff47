"""All samples looked at before any is read: their frames, meshes, fields and signals must fit together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from calm_pde.data.readers.simulations.channels import NODE_TYPE, Channels, channels_of, physics
from calm_pde.data.readers.simulations.frames import Choice, Look, frames_of, look, read_frame
from calm_pde.data.readers.simulations.process import ReadingProcess
from calm_pde.data.readers.simulations.samples import SampleFiles
from calm_pde.errors import FileError

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Seen:
    """What is kept of a sample until it is read: little, since there may be many.

    Args:
        corners: (2, dim), the extent of its points.
        kind: of its numbers.
        types: what tells its node types from others; empty without any.
    """

    sample: SampleFiles
    mesh: str
    corners: np.ndarray
    num_points: int
    cells: bool
    kind: np.dtype
    types: str
    codes: dict[int, str]


@dataclass(frozen=True)
class Survey:
    """The samples, and what they have in common."""

    first: Look
    seen: tuple[Seen, ...]
    fields: Channels
    features: Channels

    @property
    def shared(self) -> bool:
        """Whether all live on one mesh."""
        return len({(one.mesh, one.types) for one in self.seen}) == 1

    @property
    def cells(self) -> bool:
        return all(one.cells for one in self.seen)

    @property
    def node_type(self) -> bool:
        return bool(self.seen[0].types)

    @property
    def kind(self) -> np.dtype:
        return np.result_type(np.float32, *(one.kind for one in self.seen))


def survey(
    process: ReadingProcess,
    samples: Sequence[SampleFiles],
    choice: Choice,
    fields: Sequence[str],
    features: Sequence[str],
    frames: slice,
    progress: Progress,
) -> Survey:
    """Look at the first frame of every sample.

    Args:
        frames: those that are kept.
        progress: called with the number of samples looked at, and of all.
    """
    first, seen, chosen = None, [], (Channels(), Channels())
    for number, sample in enumerate(samples):
        found = look_at(process, sample, choice, frames, first)
        wanted = fields or [name for name in physics(found.offered) if name not in features]
        if not wanted:
            raise _no_fields(found, choice)
        mine = tuple(_channels(found, names) for names in (wanted, features))
        first, chosen = first or found, chosen if first else (mine[0], mine[1])
        _check_alike(first, found, chosen, (mine[0], mine[1]))
        _check_numbers(found)
        types = node_type(process, found, choice)
        told = "" if types is None else hashlib.sha256(types.tobytes()).hexdigest()
        codes = (
            found.space.codes or {}
            if types is None or found.space.codes
            else {int(code): f"type {code}" for code in np.unique(types)}
        )
        points = found.space.points
        corners = np.stack([points.min(axis=0), points.max(axis=0)])
        kind = np.result_type(np.float32, *(found.offered[name].kind for name in mine[0].arrays))
        seen.append(Seen(sample, found.mesh, corners, len(points), found.space.cells is not None, kind, told, codes))
        progress(number + 1, len(samples))
    if first is None:
        raise FileError("", "there are no samples")
    return Survey(first, tuple(seen), *chosen)


def look_at(process: ReadingProcess, sample: SampleFiles, choice: Choice, kept: slice, known: Look | None) -> Look:
    """A sample with the frames that are kept."""
    frames = frames_of(process, sample, choice.foam)[kept]
    if not frames:
        raise FileError(sample.place, "holds no frames that are kept", fix="Lower --skip.")
    return look(process, sample, frames, choice, known)


def node_type(process: ReadingProcess, seen: Look, choice: Choice) -> np.ndarray | None:
    """Codes (point,) of a sample, by the patches of its boundary or as its files say."""
    if seen.space.code is not None or NODE_TYPE not in seen.offered:
        return seen.space.code
    path, part = seen.frames[0].path, f"{seen.part(0)}, field {NODE_TYPE!r}"
    found = read_frame(process, seen, 0, choice, _channels(seen, [NODE_TYPE]))[0][NODE_TYPE]
    if found.ndim != 1 or (found != np.round(found)).any():
        raise FileError(path, "expected one whole number per point", part=part, fix="Name it otherwise, or give integers.")
    return found.astype(np.int32)


def _channels(seen: Look, wanted: Sequence[str]) -> Channels:
    return channels_of(seen.frames[0].path, seen.part(0), seen.offered, wanted, seen.space.axes)


def _no_fields(seen: Look, choice: Choice) -> FileError:
    where, there = ("cells", "points") if choice.cells else ("points", "cells")
    fix = f"There are fields at {there}: {', '.join(seen.other)}; see --cells." if seen.other else "Write fields into it."
    return FileError(seen.frames[0].path, f"holds no fields at {where}", part=seen.part(0), fix=fix)


def _check_alike(first: Look, seen: Look, chosen: tuple[Channels, Channels], mine: tuple[Channels, Channels]) -> None:
    """Samples of one data set have the same fields, number of frames and dimension."""
    path, name = seen.frames[0].path, first.sample.name
    for one, other in zip(mine, chosen, strict=True):
        if one != other:
            there = f"sample {name!r} ({first.frames[0].path.name}) has {', '.join(other.names)}"
            problem = f"has the fields {', '.join(one.names)}, and {there}"
            raise FileError(path, problem, part=seen.part(0), fix="Choose those that all have by --fields.")
    if len(seen.frames) != len(first.frames):
        problem = f"sample {seen.sample.name!r} has {len(seen.frames)} frames, and sample {name!r} has {len(first.frames)}"
        raise FileError(seen.sample.place, problem, fix="All samples need the same times; take out what is too much.")
    if seen.space.axes != first.space.axes:
        problem = f"is {len(seen.space.axes)}-D, and sample {name!r} is {len(first.space.axes)}-D, or lies in another plane"
        raise FileError(path, problem, part=seen.part(0), fix="Convert them one by one.")
    if (NODE_TYPE in seen.offered) != (NODE_TYPE in first.offered):
        problem = f"is in some samples and not in others, such as {name!r}"
        raise FileError(path, problem, part=f"{seen.part(0)}, field {NODE_TYPE!r}", fix="Give it to all or to none.")


def _check_numbers(look: Look) -> None:
    """Frames that tell no time are numbered without gaps."""
    if look.time is not None or look.frames[0].time is not None:
        return
    numbers = look.sample.numbers
    gaps = np.diff(numbers)
    if len(gaps) and gaps.max() != gaps.min():
        place = int(np.argmax(gaps))
        problem = f"there is none between {numbers[place]} and {numbers[place + 1]}, while others are {gaps.min()} apart"
        fix = "Copy the sample completely, or list its frames with their times in a .pvd file."
        raise FileError(look.sample.paths[place + 1], problem, part="number of the frame", fix=fix)
