"""The vorticity of the Fourier neural operator's Navier-Stokes sets: .mat files old and new, and their .npy copies."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from pydantic import NonNegativeInt, PositiveInt
from scipy.io import loadmat

from calm_pde.data.readers.base import (
    DOWNLOAD_AGAIN,
    PublishedReader,
    check_parts,
    damage_named,
    existing_file,
    looks_like,
    whole,
)
from calm_pde.data.readers.stored import StoredArray, hdf5_array, npy_array, opened_hdf5
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Split, Trajectory, published_split
from calm_pde.solvers.problems.navier_stokes import SYMMETRIES

_BLOCK_BYTES = 64 * 2**20  # samples stand last on disk: reading them one by one would go through the whole file for each
_AXES = ("sample", "x", "y", "time")


class FNOVorticity(PublishedReader):
    """ns_V1e-4_N10000_T30 or NavierStokes_V1e-5_N1200_T20; the last samples are the test part."""

    first_frame: NonNegativeInt | None = None
    """Index of the first frame kept; by default 10 in files of 30 frames and 0 else, as in the paper."""

    frames: PositiveInt | None = None
    """How many frames are kept; all that follow by default."""

    test: NonNegativeInt = 200
    """How many samples, the last of the file, are the test part."""

    def source(self) -> Source:
        with self._opened() as (array, reverse):
            shape = array.shape[::-1] if reverse else array.shape
            count, num_x, num_y, num_frames = shape
            check_parts(self.path, count, test=self.test)
            kept = self._kept(num_frames)
            description = Description(
                name=self.path.stem,
                fields=(Field(name="vorticity"),),
                box=Box((0, 0), (1, 1), True),
                times=np.arange(1.0, num_frames + 1)[kept],  # frame k is the state at t = k + 1; t = 0 is not in `u`
                points=tensor_grid(np.arange(num_x) / num_x, np.arange(num_y) / num_y),
                symmetries=SYMMETRIES,
                grid_shape=(num_x, num_y),
                provenance=self.provenance(),
            )
        picked = self.chosen([*published_split(count - self.test), *whole("test", self.test)])
        return Source(description, self._trajectories(picked, kept), len(picked))

    def _trajectories(self, picked: list[tuple[int, Split]], kept: slice) -> Iterator[Trajectory]:
        with self._opened() as (array, reverse):
            for indices, splits in _blocks(picked, array, reverse):
                between = slice(indices[0], indices[-1] + 1)
                block = array.read((..., between)).T if reverse else array.read(between)
                for index, split in zip(indices, splits, strict=True):
                    yield Trajectory(_frames(block[index - indices[0]], kept), split)
                del block  # before the next one is read

    def _kept(self, num_frames: int) -> slice:
        first = (10 if num_frames == 30 else 0) if self.first_frame is None else self.first_frame
        stop = num_frames if self.frames is None else first + self.frames
        if first >= stop or stop > num_frames:
            raise InputError(
                "first_frame, frames",
                expected=f"frames within the {num_frames} of {self.path.name}",
                got=f"{first} to {stop}",
                fix="Give an earlier first frame or fewer frames.",
            )
        return slice(first, stop)

    @contextmanager
    def _opened(self) -> Iterator[tuple[StoredArray, bool]]:
        """`u`, and whether its axes stand in the reverse of (sample, x, y, time)."""
        if existing_file(self.path).suffix == ".npy":
            yield npy_array(self.path).expect(dict.fromkeys(reversed(_AXES))), True
            return
        with damage_named(self.path), self.path.open("rb") as file:
            head = file.read(520)
        if head[512:520] == b"\x89HDF\r\n\x1a\n" or head[:8] == b"\x89HDF\r\n\x1a\n":
            with opened_hdf5(self.path) as file:
                yield hdf5_array(self.path, file, "u").expect(dict.fromkeys(reversed(_AXES))), True
        elif head[126:128] in (b"IM", b"MI"):
            yield self._classic().expect(dict.fromkeys(_AXES)), False
        else:
            kind = looks_like(self.path)
            raise FileError(self.path, f"is neither a .mat file nor a .npy array but {kind}", fix=DOWNLOAD_AGAIN)

    def _classic(self) -> StoredArray:
        """`u` of a .mat file before version 7.3, which can only be read whole."""
        part = "variable 'u'"
        with damage_named(self.path, part), warnings.catch_warnings():
            warnings.simplefilter("error")
            found = loadmat(self.path, variable_names=["u"]).get("u")
        if not isinstance(found, np.ndarray):
            raise FileError(self.path, "there is none", part=part, fix="Check that this is the published file.")
        if found.dtype.kind not in "fiu":
            raise FileError(self.path, f"expected numbers, got {found.dtype}", part=part)
        return StoredArray(self.path, part, found)


def _frames(sample: np.ndarray, kept: slice) -> np.ndarray:
    """(time, point, 1) of a sample (x, y, time), as an array of its own."""
    frames = np.moveaxis(sample, -1, 0)[kept]
    return np.ascontiguousarray(frames).reshape(len(frames), -1, 1)


def _blocks(
    picked: list[tuple[int, Split]], array: StoredArray, reverse: bool
) -> Iterator[tuple[tuple[int, ...], tuple[Split, ...]]]:
    """What is picked, in runs of samples that are read together, along the chunks of the file."""
    count = array.shape[-1] if reverse else array.shape[0]
    size = max(1, _BLOCK_BYTES * count // max(1, math.prod(array.shape) * array.values.dtype.itemsize))
    chunks = getattr(array.values, "chunks", None)
    if chunks:
        size = -(-size // chunks[-1]) * chunks[-1]
    run: list[tuple[int, Split]] = []
    for entry in picked:
        if run and entry[0] // size != run[0][0] // size:
            yield tuple(index for index, _ in run), tuple(split for _, split in run)
            run = []
        run.append(entry)
    if run:
        yield tuple(index for index, _ in run), tuple(split for _, split in run)
