"""How large a CALM-PDE is by the rule: query points, receptive fields and channels, from what the data are."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from calm_pde.train.rule.survey import Survey, groups

ALIKE = {"alike everywhere": "relative", "alike in part": "both"}
"""Layouts without a place of their own, or with less of one, and how tokens know there where they are."""
TOKENS, TOKENS_3D, STEADY_TOKENS = 16, 27, 32
_MOST_QUERIES, _FEW_POINTS = 1024, 64
_THINNER = 1.5
_WIDE_FROM = 9  # fields
_TEMPERATURE = 0.3
_DETAIL = 10  # points that a path past the bottleneck sees around a query


class Reach(NamedTuple):
    """How many points a receptive field holds, layer by layer from the input on; the first at least so many times its share.

    Args:
        overlap: how many first receptive fields a point lies in at least, on average.
    """

    encoder: tuple[int, int, int]
    decoder: tuple[int, int, int]
    overlap: int


_LINE = Reach((6, 4, 10), (5, 3, 4), 3)
_EVEN = Reach((20, 16, 18), (6, 7, 12), 3)
_EVEN_3D = Reach((20, 11, 13), (7, 8, 9), 1)
_GRADED = Reach((34, 24, 24), (16, 18, 20), 6)


def sizes(found: Survey) -> dict[str, Any]:
    """The `model` part of a recipe."""
    described, alike = found.description, found.layout in ALIKE
    queries = num_queries(found)
    layers = _kept(len(queries))
    channels = [_channels(found)[layer] for layer in layers]
    reach = reach_of(found)
    around = [found.usual, *queries]
    own = [max(reach.encoder[0], math.ceil(reach.overlap * found.usual / queries[0])), *reach.encoder[1:]]
    back = [*reversed(queries)]
    answering = [reach.decoder[layer] for layer in layers]
    encoder: dict[str, Any] = {
        "channels": channels,
        "num_queries": queries,
        "receptive_field": [share(own[layer], count) for layer, count in zip(layers, around, strict=False)],
        "temperature": [_TEMPERATURE] * len(queries),
    }
    encoder["receptive_field"][0] = max(encoder["receptive_field"][0], share(min(4, found.fewest), found.fewest))
    decoder: dict[str, Any] = {
        "channels": channels[-2::-1],
        "num_queries": back[1:],
        "receptive_field": [share(count, cloud) for count, cloud in zip(answering, back, strict=True)],
        "temperature": [_TEMPERATURE] * len(queries),
    }
    if not alike:
        encoder["mesh_prior"], decoder["mesh_prior"] = [True] * len(queries), [True] * (len(queries) - 1)
    content: dict[str, Any] = {"kind": "calm"}
    if described.steady:
        content["task"] = "steady"
    if (described.node_types and described.points is None) or described.node_type is not None:
        content["node_types"] = sorted(described.node_types)
    content |= {"kernel_width": 16, "encoder": encoder, "decoder": decoder}
    if found.scales:
        content["own_scale"] = groups(found.fields)
    if alike or found.layout == "grid":
        content["spread"] = "even"
    if found.layout == "mesh" and not described.steady and not found.level:
        content["detail"] = {"channels": 8, "receptive_field": share(min(_DETAIL, found.fewest), found.usual)}
    if found.layout == "graded mesh" and not described.steady:
        content |= {"displacements": "relative", "learnable_queries": False}
    if alike:
        content |= {"learnable_queries": False, "modulation": False, "processor": {"positions": ALIKE[found.layout]}}
    return content


def num_queries(found: Survey) -> list[int]:
    """Of each layer of the encoder, the tokens last: a geometric row from 8√N (4√N in 3-D) to 16 tokens (27 in 3-D, 32 of a
    steady problem).

    Never more than half of the points, or all where there are few; layers that hardly thin out are left out.
    """
    dim, points = found.description.box.dim, min(found.usual, found.fewest)
    room = points if points < _FEW_POINTS else points // 2
    first = min(room, _MOST_QUERIES, round((4 if dim == 3 else 8) * math.sqrt(found.usual)))
    tokens = STEADY_TOKENS if found.description.steady else TOKENS_3D if dim == 3 else TOKENS
    rounded = _lattice if found.layout in ALIKE else _plain
    first = rounded(max(1, first), dim, room)
    last = rounded(min(tokens, max(1, first // 2)), dim, room)
    row = [first, rounded(math.sqrt(first * last), dim, room), last]
    if first < _THINNER * last:
        return row[:1]
    return row if first >= _THINNER * row[1] >= _THINNER**2 * last else [first, last]


def reach_of(found: Survey) -> Reach:
    if found.description.box.dim == 1:
        return _LINE
    if found.layout == "graded mesh":
        return _GRADED
    return _EVEN_3D if found.description.box.dim == 3 else _EVEN


def share(count: int, points: int) -> float:
    """The receptive field that holds so many of a cloud of points, with two digits; never fewer."""
    if count >= points:
        return 1.0
    exact = (count - 1) / (points - 1) + 1e-9
    unit = 10.0 ** (math.floor(math.log10(exact)) - 1)
    return float(f"{min(1.0, math.ceil(exact / unit) * unit):.2g}")


def _plain(count: float | int, dim: int, room: int) -> int:
    return min(room, round(count / 16) * 16 if count >= 32 else max(1, round(count)))


def _lattice(count: float | int, dim: int, room: int) -> int:
    """mᵈ points, m a power of two in 1-D and 2-D, so that the lattices of all layers fit into one another."""
    side = count ** (1 / dim)
    even = round(side) if dim == 3 else 2 ** round(math.log2(side) - 0.01)
    while even > 1 and even**dim > room:
        even = even - 1 if dim == 3 else even // 2
    return max(1, even) ** dim


def _kept(layers: int) -> list[int]:
    """Which of the three layers there are where some are left out: the first always, then the last."""
    return {1: [0], 2: [0, 2], 3: [0, 1, 2]}[layers]


def _channels(found: Survey) -> tuple[int, int, int]:
    described = found.description
    if described.box.dim == 3 or len(found.fields) >= _WIDE_FROM:
        return (32, 64, 128)
    if described.steady:
        return (32, 48, 64)
    return (16, 32, 48) if described.box.dim == 1 else (16, 32, 64)
