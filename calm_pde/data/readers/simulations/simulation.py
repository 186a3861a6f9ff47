"""What readers of simulations share: all samples are looked at first, then read one after the other, a frame at a time."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from pydantic import NonNegativeInt, PositiveFloat, PositiveInt

from calm_pde.data.readers.arrays import given_pairs, with_names
from calm_pde.data.readers.base import Reader
from calm_pde.data.readers.simulations.conditions import fitted, signals_of
from calm_pde.data.readers.simulations.frames import Choice, Look, check_across, read_frame
from calm_pde.data.readers.simulations.process import ReadingProcess, check_installed
from calm_pde.data.readers.simulations.samples import SampleFiles
from calm_pde.data.readers.simulations.survey import Progress, Survey, look_at, node_type, survey
from calm_pde.data.readers.simulations.tables import SampleTable, SignalTable
from calm_pde.data.readers.simulations.times import Times, check_time, times_of
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import Box
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Split, Trajectory, generated_split


class Simulation(Reader):
    """A folder with a folder or a file per sample."""

    path: tyro.conf.Positional[Path]
    """The folder with all samples, or what one sample is alone."""
    fields: tuple[str, ...] = ()
    """Names of the fields to read, or of components like U_x; by default all that are real numbers."""
    features: tuple[str, ...] = ()
    """Names of fields that do not change in time; they are given to a model at each point and not predicted."""
    every: PositiveInt = 1
    """Keep every so many-th frame."""
    skip: NonNegativeInt = 0
    """Leave out so many frames at the start."""
    region: tuple[float, ...] = ()
    """Keep what lies in it: xmin xmax ymin ymax, and in space zmin zmax."""
    units: dict[str, str] = {}  # noqa: RUF012 - pydantic copies it
    """Of fields, features, parameters and signals by name."""
    node_types: dict[int, str] = {}  # noqa: RUF012
    """Names of the codes in the array node_type."""
    prescribed: tuple[str, ...] = ()
    """Fields known in advance at all times: `T` everywhere, `T=wall,inlet` at points of these types."""
    time_step: PositiveFloat | None = None
    """Time between the frames that are kept, where the files do not tell it."""
    periodic: tuple[bool, ...] = (False,)
    """One flag for all axes, or one per axis; then give the corners too."""
    lower: tuple[float, ...] = ()
    """Corner of the domain; by default the points' own extent."""
    upper: tuple[float, ...] = ()
    """The opposite corner."""
    patience: PositiveFloat = 300.0
    """Seconds after which a file that is still being read counts as damaged."""

    @abstractmethod
    def samples(self) -> tuple[list[SampleFiles], SampleTable | None]:
        """Which there are."""

    @property
    @abstractmethod
    def choice(self) -> Choice:
        """What to read of every file."""

    def source(self) -> Source:
        return self.surveyed(lambda done, total: None)

    def surveyed(self, progress: Progress) -> Source:
        check_installed(self.path)
        samples, table = self.samples()
        signals = signals_of(samples)
        process = ReadingProcess(self.patience)  # closed with the last trajectory, or when nobody wants one any more
        found = survey(process, samples, self.choice, self.fields, self.features, self._kept, progress)
        times = times_of(process, found.first, self.choice, self.time_step)
        signals = fitted(samples, signals, times.values)
        types = node_type(process, found.first, self.choice) if found.shared else None
        described = self._description(found, times, table, signals, types)
        described = with_names(described, described.units | self.units, given_pairs(self.prescribed))
        return Source(described, self._trajectories(process, found, times, table, signals), len(samples))

    @property
    def _kept(self) -> slice:
        return slice(self.skip, None, self.every)

    def _box(self, found: Survey) -> Box:
        periodic = self.periodic[0] if len(self.periodic) == 1 else self.periodic
        if self.lower or self.upper:
            return Box(self.lower, self.upper, periodic)
        if any(self.periodic):
            fix = "Give --lower and --upper: a period is longer than the points' extent."
            raise InputError("periodic", expected="the corners of the domain beside it", got="none", fix=fix)
        corners = np.stack([one.corners for one in found.seen])
        return Box(tuple(corners[:, 0].min(axis=0).tolist()), tuple(corners[:, 1].max(axis=0).tolist()))

    def _description(
        self, found: Survey, times: Times, table: SampleTable | None, signals: list[SignalTable], types: np.ndarray | None
    ) -> Description:
        space, known = found.first.space, signals[0] if signals else None
        mesh: dict[str, Any] = {}
        if found.shared:
            mesh = {"points": space.points, "cells": space.cells, "node_type": types}
        return Description(
            name=self.path.stem,
            fields=tuple(Field(name=name) for name in found.fields.names),
            box=self._box(found),
            times=times.values,
            node_types={code: self.node_types.get(code, name) for one in found.seen for code, name in one.codes.items()},
            features=tuple(Field(name=name) for name in found.features.names),
            parameters=() if table is None else table.names,
            signals=() if known is None else known.names,
            units=({} if table is None else table.units) | ({} if known is None else known.units),
            provenance=self._provenance(found, times),
            **mesh,
        )

    def _provenance(self, found: Survey, times: Times) -> dict[str, object]:
        """Where it is from, and in `notes` what a user should hear."""
        where = "centers of cells" if self.choice.cells else "points"
        sizes = [one.num_points for one in found.seen]
        size = f"{min(sizes):,}" if min(sizes) == max(sizes) else f"{min(sizes):,} to {max(sizes):,}"
        mesh = "one mesh for all" if found.shared else "a mesh each"
        notes = [f"{len(sizes)} samples with {len(times.values)} frames at {size} {where}, {mesh}.", *found.first.space.said]
        notes.append(f"Fields: {', '.join(found.fields.names)}.")
        if found.fields.across:
            notes.append(f"{', '.join(channel.name for channel in found.fields.across)}: zero across the plane, and left out.")
        if times.counted and len(times.values) > 1:
            notes.append("The files tell no times: frames are at 0, 1, 2, …; --time-step says how far apart they are.")
        if not found.cells and any(one.cells for one in found.seen):
            notes.append("Cells are not kept, since not all samples have them.")
        options = self.model_dump(mode="json", exclude={"path"})
        samples = [one.sample.name for one in found.seen]
        return {"reader": type(self).__name__, "file": self.path.name, "options": options, "samples": samples, "notes": notes}

    def _trajectories(
        self, process: ReadingProcess, found: Survey, times: Times, table: SampleTable | None, signals: list[SignalTable]
    ) -> Iterator[Trajectory]:
        seen: Look = found.first
        with process:
            for index, one in enumerate(found.seen):
                seen = look_at(process, one.sample, self.choice, self._kept, seen)
                if seen.mesh != one.mesh:
                    raise FileError(seen.frames[0].path, "has changed since it was looked at", fix="Convert it again.")
                known, mesh = signals[index] if signals else None, {}
                if not found.shared:
                    mesh = {"points": seen.space.points, "cells": seen.space.cells if found.cells else None}
                    mesh["node_type"] = node_type(process, seen, self.choice)
                yield Trajectory(
                    fields=self._read(process, found, times, seen),
                    split=_part(table, index, len(found.seen)),
                    features=self._features(process, found, seen),
                    parameters=table.parameters[index] if table is not None and table.names else None,
                    signals=None if known is None else known.values,
                    signal_times=None if known is None else known.times,
                    **mesh,
                )

    def _read(self, process: ReadingProcess, found: Survey, times: Times, seen: Look) -> np.ndarray:
        """(time, point, channel), frame by frame."""
        values = np.empty((len(times.values), len(seen.space.points), len(found.fields.read)), dtype=found.kind)
        for place, frame in enumerate(seen.frames):
            arrays, told = read_frame(process, seen, place, self.choice, found.fields)
            check_time(frame.path, seen.part(place), frame.time if told is None else told, times, place)
            check_across(frame, seen.part(place), found.fields, arrays)
            for channel, wanted in enumerate(found.fields.read):
                values[place, :, channel] = wanted.of(arrays)
        return values

    def _features(self, process: ReadingProcess, found: Survey, seen: Look) -> np.ndarray | None:
        if not found.features.read:
            return None
        arrays, _ = read_frame(process, seen, 0, self.choice, found.features)
        return np.stack([wanted.of(arrays) for wanted in found.features.read], axis=-1).astype(np.float32)


def _part(table: SampleTable | None, index: int, count: int) -> Split:
    return table.split[index] if table is not None and table.split else generated_split(index, count)
