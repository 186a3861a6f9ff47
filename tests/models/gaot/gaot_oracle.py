"""GAOT written out in float64 with loops, for one sample: it shares no code with the package."""

from __future__ import annotations

import itertools
import math

import numpy as np

from tests.oracle import difference, gelu_all, norm_squared, softmax

Weights = dict[str, np.ndarray]


def part(w: Weights, name: str) -> Weights:
    return {key.removeprefix(name): value for key, value in w.items() if key.startswith(name)}


def layers(w: Weights, x: np.ndarray, relu: bool = False) -> np.ndarray:
    """Layers 0, 2, 4, … with GELU or ReLU between them."""
    last = max(int(name.split(".")[0]) for name in w)
    for layer in range(0, last + 1, 2):
        x = w[f"{layer}.weight"] @ x + w[f"{layer}.bias"]
        if layer < last:
            x = np.maximum(x, 0) if relu else gelu_all(x)
    return x


def near(points: np.ndarray, place: np.ndarray, radius: float, periodic, fewest: int = 0) -> list[int]:
    away = [math.sqrt(norm_squared(difference(p, place, periodic))) for p in points]
    reach = radius
    if fewest and min(away) > (1 + 1e-5) * radius:
        reach = sorted(away)[min(fewest, len(away)) - 1]
    return [j for j in range(len(points)) if away[j] <= (1 + 1e-5) * reach]


def statistics(displacements: list[np.ndarray], dim: int) -> np.ndarray:
    if not displacements:
        return np.zeros(3 + 2 * dim)
    d = np.array(displacements)
    away = np.array([math.sqrt(norm_squared(row)) for row in d])
    covariance = np.atleast_2d(np.cov(d.T, bias=True))
    rising = np.linalg.eigvalsh(covariance)
    return np.concatenate([[math.log(1 + len(d)), away.mean(), away.var()], d.mean(axis=0), rising[::-1]])


def logit(v: Weights, x: np.ndarray, d: np.ndarray, radius: float, config) -> float:
    if config.positions == "relative":
        first, second = np.array([1.0]), np.append(d / radius, 1.0)
    else:
        first, second = x, x + d
    if config.attention == "projected":
        projected = v["vectors.of_place.weight"] @ first, v["vectors.of_point.weight"] @ second
        return float(projected[0] @ projected[1]) / math.sqrt(len(projected[0]))
    if config.positions == "relative":
        first = np.append(np.zeros(len(d)), 1.0)
    return float(first @ second) / math.sqrt(float(first @ first) * float(second @ second))


def scale(
    w: Weights, f: np.ndarray, points, places, radius: float, config, periodic, fewest: int, compared: bool
) -> np.ndarray:
    """One scale of the operator: (point, channel) -> (place, channel)."""
    neighbors = [near(points, place, radius, periodic, fewest) for place in places]
    shifts = [[np.array(difference(points[j], x, periodic)) for j in js] for x, js in zip(places, neighbors, strict=True)]
    looks = np.array([statistics([d / radius for d in ds], config.dim) for ds in shifts])
    if compared:
        some = np.array([len(js) > 0 for js in neighbors])
        looks = (looks - looks[some].mean(axis=0)) / np.sqrt(looks[some].var(axis=0) + 1e-4)
    out = []
    for x, js, ds, look in zip(places, neighbors, shifts, looks, strict=True):
        if not js:
            out.append(np.zeros(config.width))
            continue
        total = np.zeros(config.width)
        for share, j, d in zip(softmax([logit(w, x, d, radius, config) for d in ds]), js, ds, strict=True):
            seen = d / radius if config.positions == "relative" else np.concatenate([x, x + d])
            total += share * layers(part(w, "kernel."), seen) * f[j]
        said = np.concatenate([total, layers(part(w, "look."), look, relu=True)])
        out.append(w["join.weight"] @ said + w["join.bias"])
    return np.array(out)


def operator(w: Weights, f: np.ndarray, points, places, config, fewest: int = 0, compared: bool = False) -> np.ndarray:
    periodic = config.periodic if isinstance(config.periodic, tuple) else (config.periodic,) * config.dim
    said = [
        scale(part(w, f"scales.{n}."), f, points, places, s * config.radius, config, periodic, fewest, compared)
        for n, s in enumerate(config.scales)
    ]
    shares = [[1 / len(said)] * len(said)] * len(places)
    if config.scale_weights == "learned":
        shares = [softmax(layers(part(w, "weigh."), x).tolist()) for x in places]
    return np.array([sum(share * one[p] for share, one in zip(shares[p], said, strict=True)) for p in range(len(places))])


def rms(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return x / math.sqrt(float(np.mean(x**2)) + np.finfo(np.float64).eps) * weight


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def block(w: Weights, x: list[np.ndarray], c: np.ndarray, heads: int) -> list[np.ndarray]:
    width = len(x[0])
    scale_, shift, late_scale, late_shift = (w["modulation.weight"] @ c + w["modulation.bias"]).reshape(4, width)
    qkv = [w["to_qkv.weight"] @ rms(row, w["norm.weight"]) + w["to_qkv.bias"] for row in x]
    size, out = width // heads, []
    for i, row in enumerate(x):
        mixed = np.zeros(width)
        for h in range(heads):
            span = slice(h * size, (h + 1) * size)
            shares = softmax([float(qkv[i][:width][span] @ k[width : 2 * width][span]) / math.sqrt(size) for k in qkv])
            mixed[span] = sum(share * k[2 * width :][span] for share, k in zip(shares, qkv, strict=True))
        y = row + (1 + scale_) * (w["to_out.weight"] @ mixed + w["to_out.bias"]) + shift
        gate, passed = np.split(w["gate.weight"] @ rms(y, w["norm_mlp.weight"]) + w["gate.bias"], 2)
        out.append(y + (1 + late_scale) * (w["reduce.weight"] @ (silu(gate) * passed) + w["reduce.bias"]) + late_shift)
    return out


def sinusoids(position: tuple[int, ...], width: int) -> np.ndarray:
    half, found = width // (2 * len(position)), []
    for p in position:
        found += [math.sin(p / 10_000 ** (i / half)) for i in range(half)]
        found += [math.cos(p / 10_000 ** (i / half)) for i in range(half)]
    return np.array(found + [0.0] * (width - len(found)))


def processor(w: Weights, tokens: np.ndarray, lead: float, config) -> np.ndarray:
    """(token, channel) -> (token, channel); lead in horizons."""
    c = silu(w["told.weight"][:, 0] * lead + w["told.bias"])
    grid, p = config.grid, config.patch
    numbers = np.arange(math.prod(grid)).reshape(grid)
    patches = {
        corner: numbers[tuple(slice(p * i, p * (i + 1)) for i in corner)].ravel()
        for corner in itertools.product(*(range(size // p) for size in grid))
    }
    x = [
        w["bring.weight"] @ np.concatenate([tokens[n] for n in inside]) + w["bring.bias"] + sinusoids(corner, len(c))
        for corner, inside in patches.items()
    ]
    passed = []
    for n in range(config.depth):
        x = block(part(w, f"first.{n}."), x, c, config.heads)
        passed.append(x)
    x = block(part(w, "middle."), x, c, config.heads)
    for n in range(config.depth):
        both = [np.concatenate([a, b]) for a, b in zip(x, passed.pop(), strict=True)]
        x = [w[f"joins.{n}.weight"] @ row + w[f"joins.{n}.bias"] for row in both]
        x = block(part(w, f"second.{n}."), x, c, config.heads)
    out = np.zeros_like(tokens)
    for row, inside in zip(x, patches.values(), strict=True):
        said = (w["last.weight"] @ rms(row, w["norm.weight"]) + w["last.bias"]).reshape(len(inside), -1)
        for n, token in zip(inside, said, strict=True):
            out[n] = token
    return out


def network(w: Weights, read: np.ndarray, points, queries, lead: float, config) -> np.ndarray:
    """What the network says at the queries, of what is read at the points; lead in frames."""
    tokens = np.array(list(itertools.product(*([(i + 0.5) / size for i in range(size)] for size in config.grid))))
    f = np.array([w["lift.weight"] @ row + w["lift.bias"] for row in read])
    z = operator(part(w, "encoder."), f, points, tokens, config, compared=True)
    z = processor(part(w, "processor."), z, lead / config.horizon, config)
    said = operator(part(w, "decoder."), z, tokens, queries, config, fewest=4)
    return np.array([layers(part(w, "head."), row) for row in said])
