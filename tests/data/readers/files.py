"""Small files in the published formats, written by code that shares nothing with the readers."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import h5py
import numpy as np


def bitwise_crc32c(data: bytes) -> int:
    """The definition: the message divided by the polynomial, bit by bit."""
    state = 0xFFFFFFFF
    for octet in data:
        state ^= octet
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = bitwise_crc32c(data)
    return struct.pack("<I", (((crc >> 15) | (crc << 17) & 0xFFFFFFFF) + 0xA282EAD8) % 2**32)


def _number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value % 128 + 128)
        value //= 128
    return bytes([*out, value])


def delimited(number: int, content: bytes) -> bytes:
    return _number(number * 8 + 2) + _number(len(content)) + content


def example(features: dict[str, bytes]) -> bytes:
    entries = b"".join(
        delimited(1, delimited(1, name.encode()) + delimited(2, delimited(1, delimited(1, octets))))
        for name, octets in features.items()
    )
    return delimited(1, entries)


def framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + _masked(length) + payload + _masked(payload)


def random(seed: int, *shape: int, dtype: str = "float32") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def mesh_sample(seed: int, frames: int, nodes: int, density: bool) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    mesh = np.random.default_rng(0 if density else seed)  # the airfoil's mesh is one for all
    sample = {
        "cells": mesh.integers(0, nodes, (1, nodes + 2, 3)).astype("<i4"),
        "mesh_pos": mesh.uniform(0, 0.4, (1, nodes, 2)).astype("<f4"),
        "node_type": mesh.choice([0, 4, 5, 6], (1, nodes, 1)).astype("<i4"),
        "velocity": draw.normal(size=(frames, nodes, 2)).astype("<f4"),
        "pressure": draw.normal(size=(frames, nodes, 1)).astype("<f4"),
    }
    return sample | ({"density": draw.normal(size=(frames, nodes, 1)).astype("<f4")} if density else {})


def mesh_meta(frames: int, density: bool) -> dict:
    def told(kind: str, last: int, dtype: str) -> dict:
        return {"type": kind, "shape": [1 if kind == "static" else frames, -1, last], "dtype": dtype}

    features = {
        "cells": told("static", 3, "int32"),
        "mesh_pos": told("static", 2, "float32"),
        "node_type": told("static", 1, "int32"),
        "velocity": told("dynamic", 2, "float32"),
        "pressure": told("dynamic", 1, "float32"),
    }
    if density:
        features["density"] = told("dynamic", 1, "float32")
    return {
        "simulator": "comsol",
        "dt": 0.01,
        "collision_radius": None,
        "field_names": list(features),
        "features": features,
        "trajectory_length": frames,
    }


def write_meshgraphnets(folder: Path, frames: int = 81, density: bool = False) -> dict[str, list[dict[str, np.ndarray]]]:
    """Three training, one validation and two test records; the samples by file."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "meta.json").write_text(json.dumps(mesh_meta(frames, density)))
    samples, seed = {}, 1
    for name, count in (("train", 3), ("valid", 1), ("test", 2)):
        samples[name] = [mesh_sample(seed + i, frames, 4 if density else 3 + i, density) for i in range(count)]
        seed += count
        records = [framed(example({key: array.tobytes() for key, array in sample.items()})) for sample in samples[name]]
        (folder / f"{name}.tfrecord").write_bytes(b"".join(records))
    return samples


def cell_coordinates(count: int, lower: float = 0.0, length: float = 1.0) -> np.ndarray:
    return (lower + length * (np.arange(count) + 0.5) / count).astype(np.float32)


def write_burgers(path: Path, count: int = 20, frames: int = 11, points: int = 16, lower: float = 0.0, length: float = 1.0):
    values = random(1, count, frames, points)
    with h5py.File(path, "w") as file:
        file["tensor"] = values
        file["x-coordinate"] = cell_coordinates(points, lower, length)
        file["t-coordinate"] = (np.arange(frames + 1) * 0.01).astype(np.float32)
        file.attrs["Nu"] = 0.001
    return values


def write_flow(path: Path, shape: tuple[int, ...], count: int = 10, frames: int = 3) -> dict[str, np.ndarray]:
    names = ("density", "pressure", "Vx", "Vy", "Vz")[: 2 + len(shape)]
    values = {name: random(place, count, frames, *shape) for place, name in enumerate(names)}
    with h5py.File(path, "w") as file:
        for name in reversed(names):
            file[name] = values[name]
        for axis, length in zip("xyz", shape, strict=False):
            file[f"{axis}-coordinate"] = cell_coordinates(length)
        file["t-coordinate"] = (np.arange(frames + 1) * 0.05).astype(np.float32)
        file.attrs.update(eta=1e-8, zeta=1e-8, M=1.0)
    return values


def write_mat73(path: Path, variables: dict[str, np.ndarray], **options) -> None:
    """As MATLAB does: HDF5 behind a user block of 512 bytes, every array with its axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, values in variables.items():
            file.create_dataset(name, data=values.T, **options).attrs["MATLAB_class"] = np.bytes_("single")
    text = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2020 HDF5 schema 1.00 ."
    with path.open("r+b") as file:
        file.write(text.ljust(116) + bytes(8) + b"\x00\x02IM")


def write_airfoils(folder: Path, count: int = 12, shape: tuple[int, int] = (5, 3)) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    x, y, flow = (random(seed, count, *more, *shape, dtype="float64") for seed, more in ((1, ()), (2, ()), (3, (5,))))
    for letter, values in zip("XYQ", (x, y, flow), strict=True):
        np.save(folder / f"NACA_Cylinder_{letter}.npy", values)
    return x, y, flow


def write_elasticity(folder: Path, count: int = 15, points: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    folder.mkdir(parents=True, exist_ok=True)
    places = np.random.default_rng(1).uniform(size=(points, 2, count))
    stress, radius, theta = (
        random(seed, *shape, dtype="float64") for seed, shape in ((2, (points, count)), (3, (4, count)), (4, (count, 3)))
    )
    for name, values in (("XY", places), ("sigma", stress), ("rr", radius), ("theta", theta)):
        np.save(folder / f"Random_UnitCell_{name}_10.npy", values)
    return places, stress, radius, theta


def write_well(
    path: Path, seed: int = 0, count: int = 4, frames: int = 3, shape: tuple[int, int] = (4, 6)
) -> dict[str, np.ndarray]:
    """Two dimensions: x periodic, y between walls; a scalar, a vector and a tensor field, and one that varies along y alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = {
        "density": random(seed, count, frames, *shape),
        "profile": random(seed + 1, shape[1]),
        "velocity": random(seed + 2, count, frames, *shape, 2),
        "strain": random(seed + 3, count, frames, *shape, 2, 2),
        "viscosity": random(seed + 4),
        "forcing": random(seed + 5, count),
    }
    varies = {"density": (True, True, [True, True]), "profile": (False, False, [False, True])}
    with h5py.File(path, "w") as file:
        file.attrs.update(dataset_name="example", grid_type="cartesian", n_spatial_dims=2, n_trajectories=count)
        dimensions = file.create_group("dimensions")
        dimensions.attrs["spatial_dims"] = ["x", "y"]
        dimensions["time"] = np.arange(frames, dtype=np.float32) * 0.5
        dimensions["x"] = np.arange(shape[0], dtype=np.float32) * 0.25
        dimensions["y"] = np.linspace(-1, 1, shape[1], dtype=np.float32)
        for name in ("time", "x", "y"):
            dimensions[name].attrs.update(sample_varying=False, time_varying=False)
        for axis, kind in (("x", "PERIODIC"), ("y", "WALL")):
            boundary = file.create_group(f"boundary_conditions/{axis}_boundary")
            boundary.attrs.update(associated_dims=[axis], associated_fields=h5py.Empty("f"), bc_type=kind)
            boundary.attrs.update(sample_varying=False, time_varying=False)
            boundary["mask"] = np.arange(shape["xy".index(axis)]) % (shape["xy".index(axis)] - 1) == 0
        for order, names in enumerate((["density", "profile"], ["velocity"], ["strain"])):
            group = file.create_group(f"t{order}_fields")
            group.attrs["field_names"] = names
            for name in names:
                group[name] = values[name]
                sample, time, dims = varies.get(name, varies["density"])
                group[name].attrs.update(sample_varying=sample, time_varying=time, dim_varying=dims)
        scalars = file.create_group("scalars")
        scalars.attrs["field_names"] = ["viscosity", "forcing"]
        for name, sample in (("viscosity", False), ("forcing", True)):
            scalars[name] = values[name]
            scalars[name].attrs.update(sample_varying=sample, time_varying=False)
    return values
