"""What the weights of the published CALM-PDE program are called there, and which of ours each is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import torch

from calm_pde.models import Model
from calm_pde.types import Tensor

Shape = tuple[int, ...]

_LAYER = {
    "queries": "query_pos",
    "kernel.scale": "query_modulation_weight",
    "kernel.shift": "query_modulation_offset",
    "kernel.fourier.frequencies": "B",
    "kernel.hidden": "linear1",
    "mix": "linear",
    "bias": "bias",
    "mlp.expand": "mlp.0",
    "mlp.reduce": "mlp.3",
}
_PROCESSOR = {"fourier.frequencies": "B", "to_in": "in_linear", "to_out": "out_linear"}
_BLOCK = {
    "attention.to_qkv": "self_attn_{}.in_proj",
    "attention.norm_query": "self_attn_{}.q_norm",
    "attention.norm_key": "self_attn_{}.k_norm",
    "attention.to_out": "self_attn_{}.out_proj",
    "mlp.expand": "mlp_{}.0",
    "mlp.reduce": "mlp_{}.2",
}
_FILTERS, _BASE = "linear2.weight", "filter"
_PREFIXES = ("module.", "model.", "_orig_mod.")  # of wrappers around the model that was saved
_EMBEDDING = "embed"
NODE_TYPES = f"…{_EMBEDDING}….weight"
"""The node types' vectors, whose name nobody has told us: the one weight beside all others with this in its name."""


class Role(NamedTuple):
    """Where a published weight goes: one of ours, or a part of it, in the shape that it has there."""

    ours: str
    shape: Shape


def roles(model: Model) -> tuple[dict[str, Role], list[str]]:
    """By published name, and those of our names that the published program has nothing for."""
    found, unknown = {}, []
    for name, value in model.state_dict().items():
        shape = tuple(value.shape)
        theirs = published_name(name)
        if theirs is None:
            unknown.append(name)
        elif theirs.endswith(_FILTERS):
            hidden, filters = shape[0] - 1, shape[1] * shape[2]
            found[theirs] = Role(name, (filters, hidden))
            found[theirs.removesuffix(_FILTERS) + _BASE] = Role(name, (filters,))
        else:
            found[theirs] = Role(name, shape)
    return found, unknown


def published_name(name: str) -> str | None:
    """Of one of our weights; of filters the name of all but the base filter; None where there is none."""
    if name == "node_types.weight":
        return NODE_TYPES
    if layer := re.fullmatch(r"(encoder|decoder)\.(\d+)\.(.+)", name):
        part, depth, rest = layer.groups()
        theirs = _FILTERS if rest == "kernel.filters" else _named(rest, _LAYER)
        return theirs and f"{part}{depth}.{theirs}"
    if block := re.fullmatch(r"processor\.blocks\.(\d+)\.(.+)", name):
        theirs = _named(block[2], _BLOCK)
        return theirs and "neural_ode." + theirs.format(int(block[1]) + 1)
    theirs = _named(name.removeprefix("processor."), _PROCESSOR) if name.startswith("processor.") else None
    return theirs and f"neural_ode.{theirs}"


def _named(name: str, known: Mapping[str, str]) -> str | None:
    """A parameter by its whole name, or weight and bias of a module by the module's."""
    if name in known:
        return known[name]
    module, _, last = name.rpartition(".")
    return f"{known[module]}.{last}" if module in known and last in ("weight", "bias") else None


def bare(name: str) -> str:
    """A name without what wrappers put before it."""
    while name.startswith(_PREFIXES):
        name = name.partition(".")[2]
    return name


def embedding(names: Iterable[str]) -> str | None:
    """The name of the node types' vectors among those that are otherwise unknown."""
    found = [name for name in names if _EMBEDDING in name.lower() and name.endswith("weight")]
    return found[0] if len(found) == 1 else None


def ours(model: Model, published: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights of the model from published ones, of which none is missing and all have the shape of their role."""
    known, _ = roles(model)
    found: dict[str, Tensor] = {}
    for theirs, (name, _) in known.items():
        value = published[theirs]
        if theirs.endswith(_FILTERS):
            base = published[theirs.removesuffix(_FILTERS) + _BASE]
            shape = model.state_dict()[name].shape
            found[name] = torch.cat([value.mT, base[None]]).reshape(shape)
        elif name not in found:
            found[name] = value
    return {name: value.to(torch.float32, copy=True).contiguous() for name, value in found.items()}


def sizes(published: Mapping[str, Tensor]) -> dict[str, object]:
    """What the shapes say of a configuration, by the names of its settings; nothing of what they do not tell."""
    shapes = {name: tuple(value.shape) for name, value in published.items()}
    found: dict[str, object] = {}
    for part in ("encoder", "decoder"):
        depths = sorted({int(layer[1]) for name in shapes if (layer := re.match(rf"{part}(\d+)\.", name))})
        own = [depth for depth in depths if len(shapes.get(f"{part}{depth}.query_pos", ())) == 2]
        found[f"{part}.num_queries"] = tuple(shapes[f"{part}{depth}.query_pos"][0] for depth in own)
        biases = [shapes.get(f"{part}{depth}.bias", ()) for depth in own]
        found[f"{part}.channels"] = tuple(shape[0] for shape in biases if len(shape) == 1)
    found["processor.blocks"] = len({block[1] for name in shapes if (block := re.match(r"neural_ode\.mlp_(\d+)\.0", name))})
    for setting, name, axis, times in (
        ("dim", "encoder0.query_pos", 1, 1),
        ("kernel_width", "encoder0.linear1.weight", 0, 1),
        ("fourier_width", "encoder0.B", 1, 2),
        ("processor.width", "neural_ode.in_linear.weight", 0, 1),
        ("processor.fourier_width", "neural_ode.B", 1, 2),
    ):
        if len(shapes.get(name, ())) == 2:
            found[setting] = times * shapes[name][axis]
    return {name: value for name, value in found.items() if value}
