"""What every model checks at its door: the state on its points, node types, times, the mesh of a prior."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from calm_pde.errors import InputError
from calm_pde.models.checks import check_coordinates, check_finite, check_mask, check_one_per_sample, check_values
from calm_pde.models.contract import Mesh
from calm_pde.types import Float, Tensor


def check_state(values: Tensor, points: Tensor, mask: Tensor | None, dim: int, channels: int, dtype: torch.dtype) -> None:
    """values (batch, point, channel) on points (point, dim) or (batch, point, dim), finite wherever they are real."""
    check_coordinates("points", points, dim, dtype)
    check_values("values", values, channels, points.shape[-2], dtype)
    if values.ndim != 3:
        raise InputError(
            "values",
            expected="shape (batch, point, channel)",
            got=f"shape {tuple(values.shape)}",
            fix="Add a batch axis with values[None] for one sample.",
        )
    check_one_per_sample("points", points, tuple(values.shape[:1]), "values")
    if mask is not None:
        check_mask(mask, tuple(values.shape[:1]), points.shape[-2])
    check_finite("points", points, mask)
    check_finite("values", values, mask)


def check_mesh(points: Tensor, queries: Tensor | None, mask: Tensor | None, dim: int, dtype: torch.dtype) -> tuple[int, ...]:
    """Points, queries and mask without values: the batch that they speak of, or nothing where all samples share them."""
    check_coordinates("points", points, dim, dtype)
    lead = (len(points),) if points.ndim == 3 else ()
    if mask is not None:
        lead = lead or (len(mask),)
        check_mask(mask, lead, points.shape[-2])
    check_finite("points", points, mask)
    if queries is not None:
        check_coordinates("queries", queries, dim, dtype)
        check_finite("queries", queries)
        if lead:
            check_one_per_sample("queries", queries, lead, "points")
    return lead


def check_node_type(node_type: Tensor | None, known: tuple[int, ...], values: Tensor, mask: Tensor | None) -> None:
    """One known code per real point, exactly where the model has node types."""
    if (node_type is None) == bool(known):
        raise InputError(
            "node_type",
            expected=f"a code of {known} per point" if known else "none, since the config has no node_types",
            got="none" if node_type is None else "some",
            fix="Set node_types in the config to the codes of the data, and pass node_type exactly then.",
        )
    if node_type is None:
        return
    if tuple(node_type.shape) not in (tuple(values.shape[1:2]), tuple(values.shape[:2])) or node_type.is_floating_point():
        raise InputError(
            "node_type",
            expected=f"integers of shape {tuple(values.shape[1:2])} or {tuple(values.shape[:2])}",
            got=f"{node_type.dtype} of shape {tuple(node_type.shape)}",
            fix="Give one code per point, or per point of each sample.",
        )
    unknown = torch.isin(node_type, torch.tensor(known, device=node_type.device), invert=True)
    unknown = unknown if mask is None else unknown & mask
    if bool(unknown.any()):
        raise InputError(
            "node_type",
            expected=f"codes of {known}",
            got=f"{int(node_type.expand(unknown.shape)[unknown][0])} at {int(unknown.sum())} points",
            fix="Add the code to node_types in the config, or map it to a known one.",
        )


def frames(num_steps: int | None, times: Sequence[float] | None) -> list[float]:
    """The times to visit, in frames."""
    if (num_steps is None) == (times is None):
        raise InputError(
            "num_steps",
            expected="either num_steps or times",
            got="neither" if times is None else "both",
            fix="Give one of them.",
        )
    if times is None:
        if not isinstance(num_steps, int) or num_steps < 0:
            raise InputError("num_steps", expected="a whole number ≥ 0", got=repr(num_steps), fix="One step is one frame.")
        return [float(step) for step in range(1, num_steps + 1)]
    times = [float(time) for time in times]
    if not all(map(math.isfinite, times)) or any(late <= early for early, late in zip([0.0, *times], times, strict=False)):
        raise InputError(
            "times",
            expected="finite, strictly increasing numbers > 0, in frames from the initial state",
            got=str(times),
            fix="Sort them, drop repetitions and leave out 0: the state at 0 is z itself.",
        )
    return times


def check_timeless(task: str, only: int, num_steps: int | None, times: Sequence[float] | None = None) -> None:
    """A model of a task without time is asked for nothing, or for its `only` step."""
    if times is not None or num_steps not in (None, only):
        raise InputError(
            "num_steps",
            expected=f"{only} (or nothing) of a model with task={task!r}",
            got=f"times={times}" if times is not None else str(num_steps),
            fix="Such a model has one answer, without time.",
        )


def mesh_union(mesh: Mesh, dim: int) -> Float[Tensor, "point dim"]:
    """All points of one or several meshes, in unit coordinates."""
    parts = [mesh] if hasattr(mesh, "shape") else list(mesh)
    clouds = [torch.as_tensor(part).to(torch.get_default_dtype()) for part in parts]
    for cloud in clouds:
        check_coordinates("mesh", cloud, dim, cloud.dtype)
        check_finite("mesh", cloud)
    if not clouds:
        raise InputError("mesh", expected="at least one mesh", got="an empty list", fix="Pass None to start uniformly.")
    return torch.cat([cloud.reshape(-1, dim) for cloud in clouds])
