"""Values as named arrays over the points, under names that files can hold."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from calm_pde.errors import InputError
from calm_pde.records.description import Description
from calm_pde.records.trajectory import Trajectory

TYPES = {"float32": "Float32", "float64": "Float64", "int32": "Int32", "int64": "Int64", "uint8": "UInt8"}
"""The numbers that files hold, by NumPy's name, with VTK's."""


def named_arrays(description: Description, trajectory: Trajectory, truth: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Each field, (time, point) in float32; with the truth also `<name>_truth` and `<name>_error` = prediction − truth.

    Node types come along as they are, (point,).
    """
    found = trajectory.fields.astype(np.float32, copy=False)
    if truth is not None and truth.shape != found.shape:
        raise InputError("truth", expected=f"shape {found.shape}", got=f"shape {truth.shape}", fix="Choose the same frames.")
    known = None if truth is None else truth.astype(np.float32, copy=False)
    node_type = trajectory.node_type if description.points is None else description.node_type
    names = [field.name for field in description.fields]
    arrays = list(zip(names, np.moveaxis(found, -1, 0), strict=True))
    if known is not None:
        for channel, name in enumerate(names):
            arrays.append((f"{name}_truth", known[..., channel]))
            arrays.append((f"{name}_error", found[..., channel] - known[..., channel]))
    if node_type is not None:
        arrays.append(("node_type", np.asarray(node_type, dtype=np.int32)))
    return dict(zip(file_names([name for name, _ in arrays]), (values for _, values in arrays), strict=True))


def file_names(names: Sequence[str]) -> list[str]:
    """The names without slashes (groups, in HDF5) and control characters (illegal, in XML); what then meets is numbered."""
    found: list[str] = []
    for name in names:
        plain = re.sub(r"[/\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "_", name)
        plain = "_" if plain.strip(".") == "" else plain
        count = 1
        while (unused := plain if count == 1 else f"{plain}_{count}") in found:
            count += 1
        found.append(unused)
    return found


def check_arrays(arrays: dict[str, np.ndarray], num_points: int, num_steps: int | None) -> None:
    """Every array has a value per point, once or at every step, and a name that a file can hold."""
    for name, plain in zip(arrays, file_names(list(arrays)), strict=True):
        if name != plain:
            raise InputError("arrays", expected=f"a name like {plain!r}", got=repr(name), fix="Use file_names.")
    for name, values in arrays.items():
        allowed = [(num_points,)] + ([] if num_steps is None else [(num_steps, num_points)])
        if values.shape not in allowed:
            raise InputError(
                f"arrays[{name!r}]",
                expected=" or ".join(map(str, allowed)),
                got=str(values.shape),
                fix="Give (point,) for what stays, (time, point) for what moves.",
            )
        if values.dtype.name not in TYPES:
            raise InputError(f"arrays[{name!r}]", expected=", ".join(TYPES), got=str(values.dtype), fix="Convert it.")
