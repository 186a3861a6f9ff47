"""UPT written out in float64 with loops, for one sample: it shares no code with the package."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tests.oracle import difference, gelu_all, layer_norm, norm_squared, softmax

Weights = dict[str, np.ndarray]


def part(w: Weights, name: str) -> Weights:
    return {key.removeprefix(name): value for key, value in w.items() if key.startswith(name)}


def sinusoids(p: Sequence[float], width: int) -> np.ndarray:
    """Of 200 times the coordinates."""
    half = width // (2 * len(p))
    found = []
    for coordinate in p:
        found += [math.sin(200 * coordinate / 10_000 ** (i / half)) for i in range(half)]
        found += [math.cos(200 * coordinate / 10_000 ** (i / half)) for i in range(half)]
    return np.array(found + [0.0] * (width - len(found)))


def mlp(w: Weights, x: np.ndarray) -> np.ndarray:
    """Layers 0, 2, 4, … with GELU between them."""
    last = max(int(name.split(".")[0]) for name in w)
    for layer in range(0, last + 1, 2):
        x = w[f"{layer}.weight"] @ x + w[f"{layer}.bias"]
        x = x if layer == last else gelu_all(x)
    return x


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def told(w: Weights, known: np.ndarray) -> np.ndarray:
    return w["join.weight"] @ silu(w["expand.weight"] @ known + w["expand.bias"]) + w["join.bias"]


def block(w: Weights, x: np.ndarray, heads: int, c: np.ndarray | None = None, context: np.ndarray | None = None) -> np.ndarray:
    """(token, channel) -> (token, channel); context (key, channel)."""
    width = x.shape[1]
    changes = np.zeros((2, 3, width))
    if c is not None:
        changes = (w["modulation.weight"] @ silu(c) + w["modulation.bias"]).reshape(2, 3, width)
    (gain, scale, shift), (late_gain, late_scale, late_shift) = changes
    seen = [(1 + scale) * layer_norm(row, w["norm.weight"], w["norm.bias"]) + shift for row in x]
    keys = seen
    if context is not None:
        keys = [layer_norm(row, w["norm_context.weight"], w["norm_context.bias"]) for row in context]
    queries = [w["to_query.weight"] @ row + w["to_query.bias"] for row in seen]
    both = [w["to_key_value.weight"] @ row + w["to_key_value.bias"] for row in keys]
    size, out = width // heads, []
    for i, row in enumerate(x):
        mixed = np.zeros(width)
        for h in range(heads):
            span = slice(h * size, (h + 1) * size)
            shares = softmax([float(queries[i][span] @ key[:width][span]) / math.sqrt(size) for key in both])
            mixed[span] = sum(share * key[width:][span] for share, key in zip(shares, both, strict=True))
        y = row + (1 + gain) * (w["to_out.weight"] @ mixed + w["to_out.bias"])
        normed = (1 + late_scale) * layer_norm(y, w["norm_mlp.weight"], w["norm_mlp.bias"]) + late_shift
        hidden = gelu_all(w["mlp.expand.weight"] @ normed + w["mlp.expand.bias"])
        out.append(y + (1 + late_gain) * (w["mlp.reduce.weight"] @ hidden + w["mlp.reduce.bias"]))
    return np.array(out)


def blocks(w: Weights, name: str, x: np.ndarray, heads: int, c: np.ndarray | None) -> np.ndarray:
    count = 0
    while f"{name}.{count}.norm.weight" in w:
        x = block(part(w, f"{name}.{count}."), x, heads, c)
        count += 1
    return x


def along_curve(points: np.ndarray) -> list[int]:
    """By the words of their binary digits in turns."""
    words = []
    for index, p in enumerate(points):
        digits = [format(int(coordinate * 2**20), "020b") for coordinate in p]
        words.append(("".join("".join(bits) for bits in zip(*digits, strict=True)), index))
    return [index for _, index in sorted(words)]


def chosen(points: np.ndarray, count: int) -> list[int]:
    order, n = along_curve(points), len(points)
    k = min(count, n)
    return [order[((2 * i + 1) * n) // (2 * k)] for i in range(k)]


def messages(w: Weights, x: list[np.ndarray], points: np.ndarray, nodes: list[int], radius: float, most: int, periodic):
    """The mean over near points j of m(x_j ‖ x_s) at each supernode s."""
    found = []
    for s in nodes:
        away = [math.sqrt(norm_squared(difference(points[j], points[s], periodic))) for j in range(len(points))]
        reach = min(radius, sorted(away)[min(most, len(away)) - 1])
        near = [j for j in range(len(points)) if away[j] <= (1 + 1e-5) * reach]
        total = 0
        for j in near:
            hidden = gelu_all(w["meet.weight"] @ np.concatenate([x[j], x[s]]) + w["meet.bias"])
            hidden = gelu_all(w["narrow.weight"] @ hidden + w["narrow.bias"])
            total = total + (w["last.weight"] @ hidden + w["last.bias"]) / len(near)
        found.append(total)
    return found


def encode(w: Weights, read: np.ndarray, points: np.ndarray, config, c: np.ndarray | None = None) -> np.ndarray:
    """Tokens of what is read at the points, (point, in); config as the model has it."""
    nodes, width = config.supernodes, config.width
    if nodes is None:
        v = part(w, "encoder.reader.")
        tokens = [mlp(part(v, "mlp."), sinusoids(p, width) + v["lift.weight"] @ x) for x, p in zip(read, points, strict=True)]
    else:
        v, g = part(w, "encoder.reader."), nodes.feature_width
        x = [mlp(part(v, "lift."), row) + sinusoids(p, g) for row, p in zip(read, points, strict=True)]
        periodic = config.periodic if isinstance(config.periodic, tuple) else (config.periodic,) * config.dim
        means = messages(v, x, points, chosen(points, nodes.count), nodes.radius, nodes.most_neighbors, periodic)
        tokens = np.array([v["widen.weight"] @ mean + v["widen.bias"] for mean in means])
        tokens = blocks(v, "blocks", tokens, nodes.heads, c)
    brought = np.array([w["encoder.bring.weight"] @ row + w["encoder.bring.bias"] for row in tokens])
    return block(part(w, "encoder.pool."), w["encoder.tokens"], config.heads, c, brought)


def decode(w: Weights, z: np.ndarray, queries: np.ndarray, config, c: np.ndarray | None = None) -> np.ndarray:
    v = part(w, "decoder.")
    z = blocks(v, "blocks", z, config.heads, c)
    asked = np.array([mlp(part(v, "query."), sinusoids(q, config.width)) for q in queries])
    found = block(part(v, "read."), asked, config.heads, c, z)
    return np.array([v["last.weight"] @ layer_norm(row, v["norm.weight"], v["norm.bias"]) + v["last.bias"] for row in found])
