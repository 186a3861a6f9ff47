"""PDEBench's HDF5 files of one layout: scalar 1-D problems, and compressible flow in one to three dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator

import h5py
import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from calm_pde.data.readers.base import PublishedReader, check_parts, whole
from calm_pde.data.readers.stored import StoredArray, hdf5_array, hdf5_attributes, hdf5_names, opened_hdf5
from calm_pde.errors import FileError, InputError
from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.symmetry import Symmetry, isotropic
from calm_pde.records.trajectory import Source, Split, Trajectory, published_split

_AXES = ("x", "y", "z")
_SCALAR = {"tensor": "u"}
_FLOW = {"density": "density", "pressure": "pressure", "Vx": "velocity_x", "Vy": "velocity_y", "Vz": "velocity_z"}
_PAPER_STRIDE = 5  # of the frames of Burgers' equation
_SNAP = 4 * float(np.finfo(np.float32).eps)


class PDEBench(PublishedReader):
    """One file of PDEBench; its first tenth is the test part, the last tenth of the rest the validation part."""

    frame_stride: PositiveInt | None = None
    """Keep every so many-th frame; by default 5 for scalar files and 1 for flow, as in the paper."""

    space_stride: PositiveInt | None = None
    """Keep every so many-th point of each axis; by default 2 in three dimensions and 1 else, as in the paper."""

    test: NonNegativeInt | None = None
    """How many samples, from the first on, are the test part; a tenth by default."""

    periodic: bool | None = None
    """Whether the domain is periodic; by default it is, but for files with `_trans_` (outflow) in their name."""

    def source(self) -> Source:
        with opened_hdf5(self.path) as file:
            arrays, scalar = self._arrays(file)
            count, frames, *shape = arrays[0].shape
            test = round(count / 10) if self.test is None else self.test
            check_parts(self.path, count, test=test)
            stride = self._space_stride(shape)
            frame_stride = self.frame_stride or (_PAPER_STRIDE if scalar else 1)
            axes = [hdf5_array(self.path, file, f"{_AXES[i]}-coordinate").uniform(n) for i, n in enumerate(shape)]
            edges = [_cell_edges(axis) for axis in axes]
            periodic = "_trans_" not in self.path.name if self.periodic is None else self.periodic
            names = _names(len(shape), scalar)
            box = Box([low for low, _ in edges], [high for _, high in edges], periodic)
            known = not scalar or "Burgers" in self.path.name  # other scalars may flow in a direction of their own
            description = Description(
                name=self.path.stem,
                fields=tuple(Field(name=name) for name in names.values()),
                box=box,
                times=self._times(file, frames)[::frame_stride],
                points=tensor_grid(*(axis[::stride] for axis in axes)),
                grid_shape=tuple(n // stride for n in shape),
                symmetries=_symmetries(box, list(names.values())) if periodic and known else (),
                conserved=("density",) if periodic and stride == 1 and "density" in names else (),
                provenance=self.provenance(attributes=hdf5_attributes(self.path, file)),
            )
        picked = self.chosen([*whole("test", test), *published_split(count - test)])
        return Source(description, self._trajectories(picked, frame_stride, stride), len(picked))

    def _trajectories(self, picked: list[tuple[int, Split]], frame_stride: int, stride: int) -> Iterator[Trajectory]:
        with opened_hdf5(self.path) as file:
            arrays, _ = self._arrays(file)
            dim = len(arrays[0].shape) - 2
            kept = (slice(None, None, frame_stride), *(slice(None, None, stride),) * dim)
            for index, split in picked:
                # whole samples are read and strided in memory: HDF5 gathers single numbers far slower
                channels = [array.read(index)[kept] for array in arrays]
                yield Trajectory(np.stack([channel.reshape(len(channel), -1) for channel in channels], axis=-1), split)

    def _arrays(self, file: h5py.File) -> tuple[list[StoredArray], bool]:
        """The channels in order, all of one shape (sample, time, x, …), and whether this is a scalar file."""
        known = hdf5_names(self.path, file)
        scalar = "tensor" in known
        if not scalar and "density" not in known:
            raise FileError(
                self.path,
                f"expected the dataset 'tensor' (scalar) or 'density' (flow); it holds {', '.join(known) or 'nothing'}",
                fix="Of PDEBench the 1-D scalar files and the compressible flow files are read.",
            )
        first = hdf5_array(self.path, file, "tensor" if scalar else "density")
        dim = 1 if scalar else len(first.shape) - 2
        if not 1 <= dim <= 3:
            raise FileError(self.path, f"expected rank 3, 4 or 5, got shape {first.shape}", part=first.name)
        names = ["sample", "time", *_AXES[:dim]]
        first.expect(dict.fromkeys(names))
        axes = dict(zip(names, first.shape, strict=True))
        return [hdf5_array(self.path, file, name).expect(axes) for name in _names(dim, scalar)], scalar

    def _space_stride(self, shape: list[int]) -> int:
        stride = self.space_stride or (2 if len(shape) == 3 else 1)
        if any(length % stride for length in shape):
            raise InputError(
                "space_stride",
                expected=f"a divisor of the {' × '.join(map(str, shape))} points: the grid must stay uniform across the seam",
                got=str(stride),
                fix="Give another stride.",
            )
        return stride

    def _times(self, file: h5py.File, frames: int) -> np.ndarray:
        """The stored times, of which there is one more than there are frames."""
        stored = hdf5_array(self.path, file, "t-coordinate")
        times = stored.increasing()
        if len(times) not in (frames, frames + 1):
            raise FileError(self.path, f"expected {frames} or {frames + 1} times, got {len(times)}", part=stored.name)
        return times[:frames]


def _names(dim: int, scalar: bool) -> dict[str, str]:
    """Datasets and the names of their fields, in the order of channels."""
    return _SCALAR if scalar else dict(list(_FLOW.items())[: 2 + dim])


def _symmetries(box: Box, names: list[str]) -> tuple[Symmetry, ...]:
    """Of a gas, or of Burgers' equation, whose one field is a velocity."""
    return isotropic(box, len(names), [place for place, name in enumerate(names) if name not in ("density", "pressure")])


def _cell_edges(centers: np.ndarray) -> tuple[float, float]:
    """x₀ − dx/2 and n·dx further, where dx is the spacing of the centers."""
    half = (centers[-1] - centers[0]) / (len(centers) - 1) / 2
    scale = float(np.abs(centers[[0, -1]]).max() + half)
    return _snapped(float(centers[0] - half), scale), _snapped(float(centers[-1] + half), scale)


def _snapped(value: float, scale: float) -> float:
    """The decimal of six digits that float32 coordinates of this scale cannot tell from the value, else the value."""
    short = round(value, 5 - math.floor(math.log10(scale)))
    return short if abs(short - value) <= _SNAP * scale else value
