"""The Well's HDF5 files: uniform Cartesian grids with scalar, vector and tensor fields."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from pydantic import PositiveInt

from calm_pde.data.readers.base import PublishedReader, existing, existing_folder
from calm_pde.data.readers.stored import opened_hdf5
from calm_pde.data.readers.well_layout import Layout, read_layout
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import SPLITS, Source, Split, Trajectory, generated_split

_FOLDERS: dict[Split, str] = {"train": "train", "validation": "valid", "test": "test"}
_SUFFIXES = (".hdf5", ".h5")


class TheWell(PublishedReader):
    """A folder of The Well with train, valid and test inside, or one of its files, which is then split 80/10/10."""

    frame_stride: PositiveInt = 1
    """Keep every so many-th frame."""

    space_stride: PositiveInt = 1
    """Keep every so many-th point of each axis."""

    skip: tuple[str, ...] = ()
    """Names of fields and scalars to leave out."""

    def source(self) -> Source:
        files = self._files()
        description: Description | None = None
        first: Layout | None = None
        splits: list[Split] = []
        origins: list[tuple[Path, int]] = []
        for path, split in files:
            with opened_hdf5(path) as file:
                layout = read_layout(path, file, self.skip)
                first, description = first or layout, description or self._description(layout)
                if problem := first.difference(layout):
                    raise FileError(path, f"differs from {files[0][0].name} in {problem}", fix="Convert it on its own.")
            splits.extend(split or generated_split(index, layout.count) for index in range(layout.count))
            origins.extend((path, index) for index in range(layout.count))
        if description is None:
            raise FileError(self.path, "holds no files")
        picked: list[tuple[Path, int, Split]] = [(*origins[index], split) for index, split in self.chosen(splits)]
        return Source(description, self._trajectories(picked), len(picked))

    def _files(self) -> list[tuple[Path, Split | None]]:
        if existing(self.path).is_file():
            return [(self.path, None)]
        root = self.path / "data" if (self.path / "data").is_dir() else self.path
        files: list[tuple[Path, Split | None]] = []
        for split in SPLITS:
            folder = existing_folder(root / _FOLDERS[split], "the .hdf5 files of one split")
            found = sorted(path for path in folder.iterdir() if path.suffix in _SUFFIXES)
            if not found:
                raise FileError(folder, "holds no .hdf5 files", fix="Download the files of this split.")
            files.extend((path, split) for path in found)
        return files

    def _description(self, layout: Layout) -> Description:
        stride = self.space_stride
        for (name, axis), periodic in zip(layout.axes.items(), layout.periodic, strict=True):
            if periodic and len(axis) % stride:
                raise InputError(
                    "space_stride",
                    expected=f"a divisor of the {len(axis)} points of the periodic axis '{name}'",
                    got=str(stride),
                    fix="Give another stride.",
                )
        axes = [axis[::stride] for axis in layout.axes.values()]
        return Description(
            name=layout.name,
            fields=tuple(Field(name=name) for name in layout.fields),
            box=layout.box,
            times=layout.times[:: self.frame_stride],
            points=tensor_grid(*axes),
            parameters=tuple(layout.scalars),
            grid_shape=tuple(len(axis) for axis in axes),
            provenance=self.provenance(dataset=layout.name),
        )

    def _trajectories(self, picked: list[tuple[Path, int, Split]]) -> Iterator[Trajectory]:
        for path, samples in itertools.groupby(picked, key=lambda entry: entry[0]):
            with opened_hdf5(path) as file:
                layout = read_layout(path, file, self.skip)
                strides = (self.frame_stride, *(self.space_stride,) * len(layout.axes))
                axes = (layout.times, *layout.axes.values())
                lengths = tuple(len(axis[::stride]) for axis, stride in zip(axes, strides, strict=True))
                for _, index, split in samples:
                    parts = [channels.read(index, lengths, strides) for channels in layout.channels]
                    parameters = np.array([values[index] for values in layout.scalars.values()]) if layout.scalars else None
                    yield Trajectory(np.concatenate(parts, axis=-1), split, parameters=parameters)
