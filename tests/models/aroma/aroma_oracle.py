"""AROMA written out with loops over heads, bands and samples, in numpy and float64."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import erf

Weights = dict[str, np.ndarray]


def part(w: Weights, prefix: str) -> Weights:
    return {name.removeprefix(prefix): value for name, value in w.items() if name.startswith(prefix)}


def affine(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0.0)


def norm(x: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + eps)


def learned_norm(w: Weights, name: str, x: np.ndarray) -> np.ndarray:
    return norm(x) * w[f"{name}.weight"] + w[f"{name}.bias"]


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int) -> np.ndarray:
    found = []
    for head in range(heads):
        size = q.shape[-1] // heads
        mine = slice(head * size, (head + 1) * size)
        logits = q[:, mine] @ k[:, mine].T / math.sqrt(size)
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        found.append(weights / weights.sum(axis=1, keepdims=True) @ v[:, mine])
    return np.concatenate(found, axis=1)


def cross(w: Weights, q: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int) -> np.ndarray:
    read = attend(affine(w, "to_query", q), affine(w, "to_key", k), affine(w, "to_value", v), heads)
    return affine(w, "to_out", read)


def feed_forward(w: Weights, x: np.ndarray) -> np.ndarray:
    hidden = affine(w, "mlp.expand", learned_norm(w, "norm_mlp", x))
    return x + affine(w, "mlp.reduce", 0.5 * hidden * (1 + erf(hidden / math.sqrt(2))))


def read(w: Weights, x: np.ndarray, k: np.ndarray, v: np.ndarray, heads: int) -> np.ndarray:
    names = ("norm_query", "norm_key", "norm_value")
    normed = [learned_norm(w, name, part) for name, part in zip(names, (x, k, v), strict=True)]
    return feed_forward(w, x + cross(part(w, "attention."), *normed, heads))


def places(points: np.ndarray, low: float, high: float, count: int) -> np.ndarray:
    phases = []
    for axis in range(points.shape[1]):
        for exponent in np.linspace(low, high, count):
            phases.append(math.pi * 2**exponent * (2 * points[:, axis] - 1))
    return np.stack([*(np.sin(phase) for phase in phases), *(np.cos(phase) for phase in phases)], axis=1)


def encode(w: Weights, values: np.ndarray, points: np.ndarray, *, heads: int, count: int, high: float) -> np.ndarray:
    where, x = places(points, 0.0, high, count), w["tokens"]
    if "read_geometry.norm_query.weight" in w:
        x = read(part(w, "read_geometry."), x, where, where, heads)
    x = read(part(w, "read_field."), x, where, affine(w, "lift", values), heads)
    return affine(w, "to_mean", x)


def decode(
    w: Weights,
    z: np.ndarray,
    queries: np.ndarray,
    *,
    heads: int,
    count: int,
    depth: int,
    bands: tuple[tuple[float, float], ...],
) -> np.ndarray:
    x, block = affine(w, "lift", z), part(w, "block.")
    for _ in range(depth):
        normed = learned_norm(block, "norm_attention", x)
        q, k, v = np.split(affine(block, "to_qkv", normed), 3, axis=1)
        x = feed_forward(block, x + affine(block, "to_out", attend(q, k, v, heads)))
    x = learned_norm(w, "norm_tokens", x)
    found = []
    for low, high in bands:
        asked = learned_norm(w, "norm_query", places(queries, low, high, count))
        found.append(cross(part(w, "attention."), asked, x, x, heads))
    u = np.concatenate(found, axis=1)
    layers = sorted({name.split(".")[1] for name in w if name.startswith("field.")}, key=int)
    for layer in layers[:-1]:
        u = np.maximum(affine(w, f"field.{layer}", u), 0.0)
    return affine(w, f"field.{layers[-1]}", u)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def velocity(w: Weights, z: np.ndarray, y: np.ndarray, time: float, *, heads: int) -> np.ndarray:
    rates = np.array([1e4 ** (-index / 128) for index in range(128)])
    signal = np.concatenate([np.cos(time * rates), np.sin(time * rates)])
    c = silu(affine(w, "time_out", silu(affine(w, "time_in", signal))))
    x = affine(w, "to_in", np.concatenate([z, y])) + w["place"]
    for depth in sorted({int(name.split(".")[1]) for name in w if name.startswith("blocks.")}):
        b = part(w, f"blocks.{depth}.")
        shift, scale, gate, shift_mlp, scale_mlp, gate_mlp = np.split(affine(b, "modulation", c), 6)
        q, k, v = np.split(affine(b, "to_qkv", norm(x, 1e-6) * (1 + scale) + shift), 3, axis=1)
        x = x + gate * affine(b, "to_out", attend(q, k, v, heads))
        h = affine(b, "expand", norm(x, 1e-6) * (1 + scale_mlp) + shift_mlp)
        h = 0.5 * h * (1 + np.tanh(math.sqrt(2 / math.pi) * (h + 0.044715 * h**3)))
        x = x + gate_mlp * affine(b, "reduce", h)
    shift, scale = np.split(affine(w, "modulation", c), 2)
    return affine(w, "to_out", norm(x, 1e-6) * (1 + scale) + shift)[len(z) :]


def following(
    w: Weights, z: np.ndarray, noise: np.ndarray, *, minimum: float, heads: int, residual: float | None
) -> np.ndarray:
    """The published sampler of K = 3 steps, as its formulas stand."""
    beta = np.array([minimum, minimum ** (2 / 3), minimum ** (1 / 3), 1.0])
    kept = np.cumprod(1 - beta)
    y = noise[0]
    for k in (3, 2, 1, 0):
        before = kept[k - 1] if k else 1.0
        clean = np.sqrt(kept[k]) * y - np.sqrt(1 - kept[k]) * velocity(w, z, y, k * 1000 / 3, heads=heads)
        y = np.sqrt(before) * beta[k] / (1 - kept[k]) * clean + np.sqrt(1 - beta[k]) * (1 - before) / (1 - kept[k]) * y
        if k > 0:
            y = y + np.sqrt((1 - before) * beta[k] / (1 - kept[k])) * noise[4 - k]
    return y if residual is None else z + y / residual
