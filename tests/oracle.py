"""The paper's equations written out in float64 with loops: an independent oracle that shares no code with the package."""

from __future__ import annotations

import math

import numpy as np
import torch


def weights_of(module: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in module.state_dict().items()}


def gelu(x: float) -> float:
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def gelu_all(x: np.ndarray) -> np.ndarray:
    return np.array([gelu(v) for v in x.ravel()]).reshape(x.shape)


def difference(a, b, periodic) -> list[float]:
    """a − b per axis, periodic axes wrapped to [−1/2, 1/2)."""
    result = []
    for axis, wraps in enumerate(periodic):
        d = float(a[axis]) - float(b[axis])
        if wraps:
            while d >= 0.5:
                d -= 1.0
            while d < -0.5:
                d += 1.0
        result.append(d)
    return result


def norm_squared(d) -> float:
    return sum(v * v for v in d)


def receptive_field(query, points, real, percentile, periodic) -> list[int]:
    """Every real point within (1 + 1e-5) of the k-th nearest distance, k = floor(p (N - 1)) + 1."""
    distances = {j: math.sqrt(norm_squared(difference(query, points[j], periodic))) for j in real}
    k = math.floor(percentile * (len(real) - 1)) + 1
    reach = (1 + 1e-5) * sorted(distances.values())[k - 1]
    return [j for j in sorted(real) if distances[j] <= reach]


def fourier(d, frequencies: np.ndarray) -> np.ndarray:
    phases = [2 * math.pi * sum(d[axis] * frequencies[axis, f] for axis in range(len(d))) for f in range(frequencies.shape[1])]
    return np.array([math.sin(v) for v in phases] + [math.cos(v) for v in phases])


def relative(query, points, field, periodic) -> list[float]:
    squared = [norm_squared(difference(query, points[j], periodic)) for j in field]
    shifted = [s - min(squared) for s in squared]
    return [s / (max(shifted) + 1e-8) for s in shifted]


def softmax(logits: list[float]) -> list[float]:
    top = max(logits)
    exponentials = [math.exp(v - top) for v in logits]
    return [v / sum(exponentials) for v in exponentials]


def layer(
    w: dict[str, np.ndarray],
    x: np.ndarray,
    points: np.ndarray,
    queries: np.ndarray,
    *,
    percentile: float,
    temperature: float,
    periodic,
    real=None,
    weighting: str = "softmax",
    external: bool = False,
    displacements: str = "absolute",
    parameters: np.ndarray | None = None,
) -> np.ndarray:
    """One cloud, one row of features: (point, in) -> (query, out). Kernels that see parameters are modulated by these too."""
    real = list(range(len(points))) if real is None else real
    distance_only = "kernel.log_temperature" in w
    mixed = {j: w["mix.weight"] @ x[j] + w["mix.bias"] for j in real}
    out_channels = len(w["bias"])
    gain, more = 0.0, 0.0
    if parameters is not None:
        inner = gelu_all(w["kernel.modulator.expand.weight"] @ parameters + w["kernel.modulator.expand.bias"])
        gain, more = np.split(w["kernel.modulator.reduce.weight"] @ inner + w["kernel.modulator.reduce.bias"], 2)
    answers = []
    for a, query in enumerate(queries):
        field = receptive_field(query, points, real, percentile, periodic)
        away = relative(query, points, field, periodic)
        total = np.zeros(out_channels)
        if distance_only:
            log_t = w["kernel.log_temperature"]
            for i in range(log_t.shape[0]):
                for o in range(out_channels):
                    shares = softmax([-r / math.exp(log_t[i, o]) for r in away])
                    total[o] += sum(share * mixed[j][i] for share, j in zip(shares, field, strict=True))
        else:
            if weighting == "softmax":
                shares = softmax([-r / temperature for r in away])
            else:
                shares = [1 / len(field) if weighting == "mean" else 1.0] * len(field)
            radius = max(math.sqrt(norm_squared(difference(query, points[j], periodic))) for j in field)
            unit = radius if displacements == "relative" and radius > 0 else 1.0
            for share, j in zip(shares, field, strict=True):
                seen = [d / unit for d in difference(query, points[j], periodic)]
                rff = fourier(seen, w["kernel.fourier.frequencies"])
                hidden = w["kernel.hidden.weight"] @ rff + w["kernel.hidden.bias"]
                if "kernel.scale" in w:
                    hidden = hidden * (1 + gain) * w["kernel.scale"][a] + w["kernel.shift"][a] + more
                hidden = gelu_all(hidden)
                kernel = w["kernel.filters"][-1].copy()  # the base filter
                for h in range(len(hidden)):
                    kernel += hidden[h] * w["kernel.filters"][h]
                total += share * (mixed[j] @ kernel)
        y = total + w["bias"]
        if not external:
            y = gelu_all(y)
            inner = gelu_all(w["mlp.expand.weight"] @ y + w["mlp.expand.bias"])
            y = y + w["mlp.reduce.weight"] @ inner + w["mlp.reduce.bias"]
        answers.append(y)
    return np.array(answers)


def layer_norm(x: np.ndarray, scale: np.ndarray, shift: np.ndarray) -> np.ndarray:
    mean = sum(x) / len(x)
    variance = sum((v - mean) ** 2 for v in x) / len(x)
    return (x - mean) / math.sqrt(variance + 1e-5) * scale + shift


def modulation(w: dict[str, np.ndarray], conditions: np.ndarray, *, blocks: int) -> np.ndarray:
    """(block, sub-block, gain and scale and shift, width) of the conditions of one sample at one time."""
    hidden = gelu_all(w["modulator.expand.weight"] @ conditions + w["modulator.expand.bias"])
    found = w["modulator.reduce.weight"] @ hidden + w["modulator.reduce.bias"]
    return found.reshape(blocks, 2, 3, -1)


def linear_signal(times, values: np.ndarray, t: float) -> np.ndarray:
    """Level before the first knot and behind the last, straight lines between."""
    if t <= times[0]:
        return values[0]
    for k in range(1, len(times)):
        if t <= times[k]:
            share = (t - times[k - 1]) / (times[k] - times[k - 1])
            return (1 - share) * values[k - 1] + share * values[k]
    return values[-1]


def processor(
    w: dict[str, np.ndarray], z: np.ndarray, positions: np.ndarray, *, heads: int, blocks: int, periodic, changes=None
) -> np.ndarray:
    """psi(Z, P) for one sample: (token, channel) -> (token, channel).

    With changes (block, sub-block, 3, width), each sub-block x + f(x) is x + (1 + g) f((1 + s) x + b).
    """
    tokens = range(len(z))
    none = np.zeros((blocks, 2, 3, len(w["to_in.bias"])))
    changes = none if changes is None else changes
    x = [
        w["to_in.weight"] @ np.concatenate([z[t], fourier(positions[t], w["fourier.frequencies"])]) + w["to_in.bias"]
        for t in tokens
    ]
    width = len(x[0])
    size = width // heads
    for b in range(blocks):
        v = {name.removeprefix(f"blocks.{b}."): value for name, value in w.items() if name.startswith(f"blocks.{b}.")}
        (gain, scale, shift), (late_gain, late_scale, late_shift) = changes[b]
        seen = [(1 + scale) * x[t] + shift for t in tokens]
        qkv = [v["attention.to_qkv.weight"] @ seen[t] + v["attention.to_qkv.bias"] for t in tokens]
        mixed = np.zeros((len(z), width))
        for h in range(heads):
            part = slice(h * size, (h + 1) * size)
            q = [
                layer_norm(qkv[t][:width][part], v["attention.norm_query.weight"], v["attention.norm_query.bias"])
                for t in tokens
            ]
            k = [
                layer_norm(qkv[t][width : 2 * width][part], v["attention.norm_key.weight"], v["attention.norm_key.bias"])
                for t in tokens
            ]
            for i in tokens:
                logits = [
                    float(q[i] @ k[j]) / math.sqrt(size) - norm_squared(difference(positions[i], positions[j], periodic))
                    for j in tokens
                ]
                for share, j in zip(softmax(logits), tokens, strict=True):
                    mixed[i, part] += share * qkv[j][2 * width :][part]
        x = [x[t] + (1 + gain) * (v["attention.to_out.weight"] @ mixed[t] + v["attention.to_out.bias"]) for t in tokens]
        seen = [(1 + late_scale) * x[t] + late_shift for t in tokens]
        inner = [gelu_all(v["mlp.expand.weight"] @ seen[t] + v["mlp.expand.bias"]) for t in tokens]
        x = [x[t] + (1 + late_gain) * (v["mlp.reduce.weight"] @ inner[t] + v["mlp.reduce.bias"]) for t in tokens]
    return np.array([w["to_out.weight"] @ x[t] + w["to_out.bias"] for t in tokens])
