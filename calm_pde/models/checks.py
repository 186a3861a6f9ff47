"""Checks at the public doors. Those of layers and models are skipped while torch.compile traces."""

from __future__ import annotations

import torch

from calm_pde.engine.receptive_fields import Neighbors
from calm_pde.errors import InputError, OutsideBoxWarning, warn
from calm_pde.types import Tensor


def check_weights(dtype: torch.dtype, owner: str, bfloat16: bool) -> None:
    """Weights in a type that their owner computes in."""
    if dtype in (torch.float32, torch.float64) or (bfloat16 and dtype == torch.bfloat16):
        return
    why = ", in which squared distances vanish and answers become NaN" if dtype == torch.float16 else ""
    raise InputError(
        "weights",
        expected=f"{'float32, float64 or bfloat16' if bfloat16 else 'float32 or float64'} in {owner}",
        got=f"{dtype}{why}".removeprefix("torch."),
        fix="Turn it back with .float(); for speed compute under torch.autocast, as train.precision: bfloat16 does.",
    )


def check_coordinates(name: str, coordinates: object, dim: int, dtype: torch.dtype) -> None:
    """(point, dim) or (batch, point, dim), of the model's type and not empty."""
    tensor = _floating(name, coordinates, dtype)
    if tensor.ndim not in (2, 3) or tensor.shape[-1] != dim:
        raise InputError(
            name,
            expected=f"shape (point, {dim}) or (batch, point, {dim})",
            got=f"shape {tuple(tensor.shape)}",
            fix=f"This model lives in {dim}-D; the last axis holds the {dim} unit coordinates of a point.",
        )
    if 0 in tensor.shape:
        raise InputError(
            name,
            expected="at least one point",
            got=f"shape {tuple(tensor.shape)}",
            fix="An empty cloud has no answer; leave it out.",
        )


def check_values(name: str, values: object, channels: int, num_points: int, dtype: torch.dtype) -> None:
    """(…, point, channel) with one row per point."""
    tensor = _floating(name, values, dtype)
    if tensor.ndim < 2 or tensor.shape[-1] != channels:
        raise InputError(
            name,
            expected=f"{channels} channels on the last axis, as (…, point, {channels})",
            got=f"shape {tuple(tensor.shape)}",
            fix="Check the channels and their order; the weights are made for that many.",
        )
    if tensor.shape[-2] != num_points:
        raise InputError(
            name,
            expected=f"one row for each of the {num_points} points",
            got=f"{tensor.shape[-2]} rows in shape {tuple(tensor.shape)}",
            fix="Values and points must list the same points in the same order.",
        )
    if 0 in tensor.shape:
        raise InputError(
            name,
            expected="at least one sample",
            got=f"shape {tuple(tensor.shape)}",
            fix="An empty batch has no answer; leave it out.",
        )


def check_one_per_sample(name: str, clouds: Tensor, lead: tuple[int, ...], values_name: str) -> None:
    """Clouds of their own need a batch axis of the same length in the values."""
    if clouds.ndim == 3 and (not lead or len(clouds) != lead[0]):
        raise InputError(
            name,
            expected=f"as many clouds as {values_name} has samples ({lead[0]})"
            if lead
            else "(point, dim), without a batch axis",
            got=f"{len(clouds)} clouds in shape {tuple(clouds.shape)}",
            fix=f"Pass (point, dim) where all samples share one cloud; the first axis of {values_name} counts samples.",
        )


def check_mask(mask: object, lead: tuple[int, ...], num_points: int) -> None:
    """(batch, point) booleans, with at least one real point in every sample."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        raise InputError(
            "mask",
            expected="a boolean tensor, True where a point is real",
            got=_description(mask),
            fix="Use mask.bool() if nonzero means a real point.",
        )
    if tuple(mask.shape) != (*lead[:1], num_points):
        raise InputError(
            "mask",
            expected=f"shape {(*lead[:1], num_points)}, one flag for each point of each sample",
            got=f"shape {tuple(mask.shape)}",
            fix="Build the mask beside the padded points.",
        )
    empty = (~mask.any(dim=-1)).flatten().nonzero().flatten().tolist()
    if empty:
        raise InputError(
            "mask",
            expected="at least one real point in every sample",
            got=f"none in sample {empty[0]}",
            fix="Leave empty samples out of the batch.",
        )


def check_finite(name: str, tensor: Tensor, mask: Tensor | None = None) -> None:
    """No NaN and no infinity wherever the mask is True."""
    if bool(torch.isfinite(tensor.detach().sum())):  # one pass, where a test of every number takes ten times as long
        return
    finite = torch.isfinite(tensor).all(dim=-1)
    if mask is not None:
        hidden = ~mask if finite.ndim >= mask.ndim else ~mask.any(dim=0)  # a point of a shared cloud: hidden in all samples
        finite = finite | hidden.view(*hidden.shape[:-1], *(1,) * (finite.ndim - hidden.ndim), hidden.shape[-1])
    if not bool(finite.all()):
        bad = (~finite).nonzero()
        raise InputError(
            name,
            expected="finite numbers",
            got=f"NaN or infinity in {len(bad)} of {finite.numel()} places, first at index {tuple(bad[0].tolist())}",
            fix="Repair the data, or hide padded points with mask.",
        )


def check_neighbors(neighbors: Neighbors, num_points: int, num_queries: int, lead: tuple[int, ...]) -> None:
    """Neighbors that fit these points and queries."""
    shape, highest = tuple(neighbors.indices.shape), int(neighbors.indices.max())
    if shape[1] != num_queries or shape[0] not in (1, *lead[:1]) or highest >= num_points:
        raise InputError(
            "neighbors",
            expected=f"neighbors of {num_queries} queries among {num_points} points",
            got=f"an index of shape {shape} up to {highest}",
            fix="Find them anew with neighbors(points, queries) for the same points and queries.",
        )


def warn_outside_box(
    seen: set[str], name: str, coordinates: Tensor, periodic: tuple[bool, ...], mask: Tensor | None = None
) -> None:
    """Warn once per name, with the count, of points outside [0, 1] on a non-periodic axis."""
    open_axes = [axis for axis, wraps in enumerate(periodic) if not wraps]
    if name in seen or not open_axes:
        return
    bounded = coordinates[..., open_axes]
    outside = ((bounded < 0) | (bounded > 1)).any(dim=-1)
    outside = outside if mask is None else outside & mask
    count = int(outside.sum())
    if count:
        seen.add(name)
        warn(
            f"{name}: {count} of {outside.numel()} lie outside the unit box on a non-periodic axis; the model extrapolates "
            "there. Map physical coordinates with Box.to_unit first, or widen the box. (Said once.)",
            OutsideBoxWarning,
        )


def _floating(name: str, value: object, dtype: torch.dtype) -> Tensor:
    if not isinstance(value, Tensor) or value.dtype != dtype:
        raise InputError(
            name,
            expected=f"a tensor of {dtype}, the type of the weights",
            got=_description(value),
            fix=f"Use torch.as_tensor({name}, dtype={dtype}), or .double() on the module to compute in float64.",
        )
    return value


def _description(value: object) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
