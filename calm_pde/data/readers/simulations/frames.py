"""One sample of a simulation, read frame by frame through the process that reads; every frame is checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from calm_pde.data.readers.simulations.channels import Channels, Offered
from calm_pde.data.readers.simulations.lengths import check_length
from calm_pde.data.readers.simulations.meshes import Block, Space, chosen_blocks, space_of
from calm_pde.data.readers.simulations.process import ReadingProcess
from calm_pde.data.readers.simulations.samples import STEPS, SampleFiles
from calm_pde.errors import FileError, InputError

_SAME = 1e-6  # of a field's size: what values may differ where they are one and the same
_INNER = "internalMesh"  # VTK's name of what is no patch of an OpenFOAM case


class Frame(NamedTuple):
    """Where a frame is: its files, and the time to ask them for."""

    time: float | None
    parts: tuple[str, ...]
    step: float | None

    @property
    def path(self) -> Path:
        return Path(self.parts[0])


@dataclass(frozen=True)
class Choice:
    """What to read of every file.

    Args:
        foam: OpenFOAM cases, else VTK's files.
        cells: values at the centers of cells, else at points.
        patches: of the boundary too, as points with node types.
        region: bounds along each axis; empty for all.
    """

    foam: bool = False
    cells: bool = False
    patches: bool = False
    region: tuple[float, ...] = ()


@dataclass(frozen=True)
class Look:
    """What the first frame of a sample shows, and where all are."""

    sample: SampleFiles
    frames: tuple[Frame, ...]
    mesh: str
    """What tells it from other meshes."""
    space: Space
    blocks: tuple[int, ...]
    """Those that are read, by their places in the file; patches last."""
    counts: tuple[int, ...]
    """Values of each."""
    offered: dict[str, Offered]
    """Arrays that all of them have."""
    time: float | None
    other: tuple[str, ...]
    """Names of arrays at points where cells are read, and the other way round."""

    def part(self, frame: int) -> str:
        """For messages."""
        return f"frame {frame} of sample {self.sample.name!r}"


def frames_of(process: ReadingProcess, sample: SampleFiles, foam: bool) -> list[Frame]:
    """All frames of a sample; files with one frame each are not opened for it."""
    if sample.numbers or not (foam or sample.place.suffix in STEPS):
        return [Frame(None, (str(path),), None) for path in sample.paths]
    each = []
    for path in sample.paths:
        check_length(path)
        facts, _ = process.ask(path, "", {"frames": {"path": str(path), "foam": foam}})
        each.append([Frame(one["time"], tuple(one["parts"]), one["step"]) for one in facts["frames"]])
    first = each[0]
    for path, frames in zip(sample.paths, each, strict=True):
        if [frame.time for frame in frames] != [frame.time for frame in first]:
            problem = f"has {len(frames)} times, {sample.place.name} has {len(first)}, or others"
            raise FileError(path, problem, fix="Take out the times that are not complete.")
    return [
        Frame(frame.time, tuple(part for frames in each for part in frames[place].parts), frame.step)
        for place, frame in enumerate(first)
    ]


def look(
    process: ReadingProcess, sample: SampleFiles, frames: Sequence[Frame], choice: Choice, known: Look | None = None
) -> Look:
    """The first frame; of a mesh that is `known` the points are not sent again."""
    first, part = frames[0], f"frame 0 of sample {sample.name!r}"
    facts, arrays = _asked(process, first, part, choice, [], known.mesh if known else "")
    if known is not None and facts["mesh"] == known.mesh:
        blocks, counts, space = known.blocks, known.counts, known.space
    else:
        blocks, counts, space = _space(first.path, part, facts["blocks"], arrays, choice)
    about = [facts["blocks"][place] for place in blocks]
    common = [name for name in about[0]["offered"] if all(name in one["offered"] for one in about)]
    offered = {}
    for name in common:
        for count, one in zip(counts, about, strict=True):
            shape, kind = one["offered"][name]
            if shape[0] != count or len(shape) > 2 or shape[1:] != about[0]["offered"][name][0][1:]:
                fix = "The file was not written completely, or says the field's kind wrongly."
                raise FileError(first.path, f"has shape {shape} for {count} points", part=f"{part}, field {name!r}", fix=fix)
            offered[name] = Offered(tuple(shape), kind)
    other = tuple(about[0]["other"])
    return Look(sample, tuple(frames), facts["mesh"], space, blocks, counts, offered, facts["time"], other)


def time_value(process: ReadingProcess, look: Look, place: int, choice: Choice) -> float | None:
    """What a frame says of its time, where it is a file of its own."""
    return _asked(process, look.frames[place], look.part(place), choice, [], look.mesh)[0]["time"]


def read_frame(
    process: ReadingProcess, look: Look, place: int, choice: Choice, channels: Channels
) -> tuple[dict[str, np.ndarray], float | None]:
    """The arrays of a frame at the points that are left, all of them finite; and the time that the frame tells."""
    frame, part = look.frames[place], look.part(place)
    facts, arrays = _asked(process, frame, part, choice, channels.arrays, look.mesh)
    if facts["mesh"] != look.mesh:
        here, first = (sum(found["points"] for found in facts["blocks"]), len(look.space.kept))
        problem = f"the mesh is another one than in frame 0 ({look.frames[0].path.name}): {here} points in the file"
        fix = f"A sample lives on one mesh (frame 0 gave {first} points). Interpolate to one, or take these frames out."
        raise FileError(frame.path, problem, part=part, fix=fix)
    found = {name: _row(frame.path, part, name, look, facts, arrays) for name in channels.arrays}
    return {name: _left(frame.path, f"{part}, field {name!r}", values, look.space) for name, values in found.items()}, facts[
        "time"
    ]


def check_across(frame: Frame, part: str, channels: Channels, values: dict[str, np.ndarray]) -> None:
    """A vector's component across the plane is left out only while it is zero."""
    for channel in channels.across:
        found, size = np.abs(channel.of(values)), np.abs(values[channel.array]).max(initial=0)
        if found.max(initial=0) > _SAME * size:
            problem = f"is up to {found.max():g}, across the plane of the points"
            fix = f"Name the components that you want, like --fields {channel.name}."
            raise FileError(frame.path, problem, part=f"{part}, field {channel.name!r}", fix=fix)


def _asked(
    process: ReadingProcess, frame: Frame, part: str, choice: Choice, arrays: list[str], mesh: str
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    request = {"parts": frame.parts, "step": frame.step, "foam": choice.foam, "cells": choice.cells}
    more = {"arrays": arrays, "mesh": mesh, "patches": choice.patches}
    missing = next((path for path in map(Path, frame.parts) if not path.exists()), None)
    if missing is not None:
        raise FileError(missing, "there is no such file", part=part, fix="Copy the sample completely.")
    for path in map(Path, frame.parts if frame.step is None else ()):  # each frame is in files of its own
        check_length(path)
    return process.ask(frame.path, part, {"frame": request | more})


def _space(
    path: Path, part: str, facts: list[dict[str, Any]], arrays: dict[str, np.ndarray], choice: Choice
) -> tuple[tuple[int, ...], tuple[int, ...], Space]:
    """Which blocks are read, how many values each has, and where they live."""
    names = ("points", "connectivity", "offsets", "types")
    blocks = [Block(one["name"], *(arrays[f"{place}/{name}"] for name in names)) for place, one in enumerate(facts)]
    for block in blocks:
        if problem := block.problem():
            raise FileError(path, f"is damaged: {problem}", part=part, fix="Write the file anew, or take the sample out.")
    if choice.foam:
        inner = [place for place, block in enumerate(blocks) if block.name == _INNER]
        sides = [place for place, block in enumerate(blocks) if block.name != _INNER]
    else:
        inner, sides = chosen_blocks(blocks), []
    if not inner:
        raise FileError(path, "holds no mesh of cells", part=part, fix="Take the sample out, or run it again.")
    try:
        space = space_of([blocks[place] for place in inner], choice.cells, choice.region, [blocks[place] for place in sides])
    except InputError as error:
        raise FileError(path, str(error), part=part) from None
    chosen = (*inner, *sides)
    counts = tuple(len(blocks[place].types if choice.cells else blocks[place].points) for place in chosen)
    return chosen, counts, space


def _row(path: Path, part: str, name: str, look: Look, facts: dict[str, Any], arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The values of an array in all blocks, one after the other."""
    rows = []
    for place, count in zip(look.blocks, look.counts, strict=True):
        values = arrays.get(f"{place}/values/{name}")
        if values is None:
            block = facts["blocks"][place]["name"]
            where = f" in block {block!r}" if len(look.blocks) > 1 else ""
            there = ", ".join(facts["blocks"][place]["offered"]) or "none"
            fix = f"Frame 0 of the first sample has it. Here are: {there}; choose by --fields."
            raise FileError(path, f"is not there{where}", part=f"{part}, field {name!r}", fix=fix)
        if values.shape[:1] != (count,) or values.shape[1:] != look.offered[name].shape[1:]:
            problem = f"has shape {values.shape}, and {(count, *look.offered[name].shape[1:])} was expected"
            raise FileError(path, problem, part=f"{part}, field {name!r}", fix="Write the file anew, or take the sample out.")
        rows.append(values)
    return np.concatenate(rows)


def _left(path: Path, part: str, values: np.ndarray, space: Space) -> np.ndarray:
    """Those of the points that are left; where several are one point, they must agree."""
    found = values[space.kept]
    wrong = ~np.isfinite(found)
    if wrong.any():
        problem = f"{wrong.sum()} of {found.size} numbers are not finite"
        raise FileError(path, problem, part=part, fix="Cut them out with --region, or take the sample out.")
    room = _SAME * np.abs(found).max(initial=0)
    for pairs, name in ((space.twins, "points that lie in two blocks"), (space.layers, "the two layers of the mesh")):
        if pairs is not None and pairs.size and np.abs(values[pairs[0]] - values[pairs[1]]).max() > room:
            fix = "Read the values of cells with --cells, or export one block."
            raise FileError(path, f"differs between {name}", part=part, fix=fix)
    return found
