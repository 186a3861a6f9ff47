"""Supernodes: points of a mesh that stand for their neighborhoods, as dense as its points are."""

from __future__ import annotations

import torch

from calm_pde.engine.receptive_fields import equally_wide
from calm_pde.engine.transforms import bare, untransformed
from calm_pde.geometry import inside
from calm_pde.types import Bool, Float, Int, Tensor

_BITS = 20  # of a coordinate; three of them fit one integer


@torch.no_grad()
def supernodes(
    points: Float[Tensor, "#cloud point dim"],
    mask: Bool[Tensor, "#cloud point"] | None,
    count: int,
    periodic: tuple[bool, ...],
) -> tuple[Int[Tensor, "cloud supernode"], Bool[Tensor, "cloud supernode"]]:
    """Up to `count` real points of each cloud, evenly spaced along a curve through it, and which of them are any.

    The curve visits the points in the order of their Morton codes. So the choice is a function of the points alone: of no
    other cloud, of no padding and not of their order. A cloud with fewer points has all of them, and then its first again.
    """
    with untransformed():
        points, mask = bare("points", points), None if mask is None else bare("mask", mask)
        found = []
        for cloud in range(max(len(points), 1 if mask is None else len(mask))):
            own = points[min(cloud, len(points) - 1)].double()
            real = torch.arange(len(own), device=own.device)
            if mask is not None:
                real = real[mask[min(cloud, len(mask) - 1)]]
            order = along_curve(inside(own[real], periodic))
            chosen = min(count, len(real))
            places = (2 * torch.arange(chosen, device=own.device) + 1) * len(real) // (2 * chosen)
            found.append((real[order[places]][None], torch.ones(1, chosen, dtype=torch.bool, device=own.device)))
        indices, valid = equally_wide(found)
        return torch.cat(indices), torch.cat(valid)


def along_curve(points: Float[Tensor, "point dim"]) -> Int[Tensor, "point"]:
    """Their indices in the order of Morton codes: bits of all coordinates in turns, the highest first.

    Points with one code go by their coordinates; only points that coincide stay as they are given.
    """
    cells = (points * 2**_BITS).floor().clamp(0, 2**_BITS - 1).to(torch.int64)
    code, dim = torch.zeros_like(cells[:, 0]), points.shape[1]
    for bit in range(_BITS):
        for axis in range(dim):
            code |= ((cells[:, axis] >> bit) & 1) << (bit * dim + dim - 1 - axis)
    order = torch.arange(len(points), device=points.device)
    for key in (*points.flip(-1).unbind(dim=-1), code):  # stable, so that the last key counts most
        order = order[key[order].argsort(stable=True)]
    return order
