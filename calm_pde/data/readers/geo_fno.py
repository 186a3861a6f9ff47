"""Geo-FNO's steady sets: flow around airfoils on C-grids, and stress in unit cells with a void."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import NonNegativeInt, PositiveInt

from calm_pde.data.readers.base import PublishedReader, check_parts, existing_folder, whole
from calm_pde.data.readers.stored import StoredArray, npy_array
from calm_pde.errors import FileError
from calm_pde.geometry import Box, tensor_grid
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Split, Trajectory, published_split

_COORDINATES = (Field(name="x"), Field(name="y"))
_FLOW = ("density", "velocity_x", "velocity_y", "pressure", "mach")
_STEADY = np.zeros(1)


class SteadyAirfoil(PublishedReader):
    """The folder of NACA_Cylinder_X.npy, _Y.npy and _Q.npy; given the coordinates, a model learns the Mach number."""

    train: PositiveInt = 1000
    """How many samples, from the first on, are the training part, whose last tenth is the validation part."""

    test: NonNegativeInt = 200
    """How many samples right after them are the test part."""

    coordinates: Literal["physical", "index"] = "physical"
    """Where the points are: in space, or at (i/220, j/50) of the grid, where the airfoil is not a speck in the far field."""

    def source(self) -> Source:
        existing_folder(self.path, "NACA_Cylinder_X.npy, NACA_Cylinder_Y.npy and NACA_Cylinder_Q.npy")
        x = self._array("X").expect({"sample": None, "around": None, "outward": None})
        count, around, outward = x.shape
        y = self._array("Y").expect({"sample": count, "around": around, "outward": outward})
        flow = self._array("Q").expect({"sample": count, "channel": len(_FLOW), "around": around, "outward": outward})
        check_parts(x.path, count, train=self.train, test=self.test)
        picked = self.chosen([*published_split(self.train), *whole("test", self.test)])
        index = tensor_grid(np.linspace(0, 1, around), np.linspace(0, 1, outward)) if self.coordinates == "index" else None
        description = Description(
            name="steady_airfoil",
            fields=tuple(Field(name=name) for name in _FLOW),
            box=_bounding_box((x, y), picked) if index is None else Box((0, 0), (1, 1)),
            times=_STEADY,
            points=index,
            features=_COORDINATES,
            targets=("mach",),
            grid_shape=(around, outward),
            provenance=self.provenance(),
        )
        return Source(description, self._trajectories(x, y, flow, picked), len(picked))

    def _array(self, letter: str) -> StoredArray:
        return npy_array(self.path / f"NACA_Cylinder_{letter}.npy")

    def _trajectories(
        self, x: StoredArray, y: StoredArray, flow: StoredArray, picked: list[tuple[int, Split]]
    ) -> Iterator[Trajectory]:
        for index, split in picked:
            places = np.stack([x.read(index).ravel(), y.read(index).ravel()], axis=-1)
            fields = np.ascontiguousarray(flow.read(index).reshape(len(_FLOW), -1).T)
            yield Trajectory(fields[None], split, places if self.coordinates == "physical" else None, features=places)


class Elasticity(PublishedReader):
    """The folder of Random_UnitCell_XY_10.npy and _sigma_10.npy; given the coordinates, a model learns the stress."""

    train: PositiveInt = 1000
    """How many samples, from the first on, are the training part, whose last tenth is the validation part."""

    test: NonNegativeInt = 200
    """How many samples, the last of the file, are the test part."""

    def source(self) -> Source:
        folder = self._folder()
        places = npy_array(folder / "Random_UnitCell_XY_10.npy").expect({"point": None, "dim": 2, "sample": None})
        num_points, _, count = places.shape
        stress = npy_array(folder / "Random_UnitCell_sigma_10.npy").expect({"point": num_points, "sample": count})
        shapes = self._shape_parameters(folder, count)
        check_parts(places.path, count, train=self.train, test=self.test)
        left_over: list[Split | None] = [None] * (count - self.train - self.test)
        picked = self.chosen([*published_split(self.train), *left_over, *whole("test", self.test)])
        description = Description(
            name="elasticity",
            fields=(Field(name="stress"),),
            box=Box((0, 0), (1, 1)),
            times=_STEADY,
            features=_COORDINATES,
            parameters=tuple(f"{name}_{i}" for name, values in shapes.items() for i in range(values.shape[1])),
            provenance=self.provenance(),
        )
        return Source(description, self._trajectories(places, stress, shapes, picked), len(picked))

    def _folder(self) -> Path:
        existing_folder(self.path, "Random_UnitCell_XY_10.npy and Random_UnitCell_sigma_10.npy")
        return self.path / "Meshes" if (self.path / "Meshes").is_dir() else self.path

    def _shape_parameters(self, folder: Path, count: int) -> dict[str, np.ndarray]:
        """(sample, number) of the radii and the coefficients of the void, where their files are there."""
        radius, theta = folder / "Random_UnitCell_rr_10.npy", folder / "Random_UnitCell_theta_10.npy"
        found = {}
        if radius.exists():
            found["radius"] = npy_array(radius).expect({"angle": None, "sample": count}).read().T
        if theta.exists():
            found["theta"] = npy_array(theta).expect({"sample": count, "coefficient": None}).read()
        return found

    def _trajectories(
        self, places: StoredArray, stress: StoredArray, shapes: dict[str, np.ndarray], picked: list[tuple[int, Split]]
    ) -> Iterator[Trajectory]:
        for index, split in picked:
            points = places.read((..., index))
            parameters = np.concatenate([values[index] for values in shapes.values()]) if shapes else None
            fields = stress.read((..., index))[None, :, None]
            yield Trajectory(fields, split, points, features=points, parameters=parameters)


def _bounding_box(axes: tuple[StoredArray, ...], picked: list[tuple[int, Split]]) -> Box:
    """The smallest box around the points of all samples that are read."""
    lower, upper = [], []
    for axis in axes:
        ends = [(part.min(), part.max()) for part in (axis.read(index) for index, _ in picked)]
        lower.append(float(min(low for low, _ in ends)))
        upper.append(float(max(high for _, high in ends)))
        if not np.isfinite([lower[-1], upper[-1]]).all() or lower[-1] >= upper[-1]:
            raise FileError(axis.path, f"expected coordinates that span a domain, got {lower[-1]} to {upper[-1]}")
    return Box(lower, upper)
