"""State dicts of the published program by its own names and shapes, its formulas in float64 loops, and data for it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from calm_pde.geometry import Box
from calm_pde.models import CalmConfig
from calm_pde.records.description import Description, Field
from calm_pde.records.trajectory import Source, Trajectory, generated_split
from tests.oracle import difference, fourier, gelu_all, layer_norm, norm_squared, receptive_field, relative, softmax

EMBEDDING = "node_type_embedding.weight"
"""Nobody has told us what it is called there."""


def shapes(config: CalmConfig) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the state dict, as they were read off it."""
    dim, hidden, rff, kinds = config.dim, config.kernel_width, config.fourier_width, config.node_types
    found: dict[str, tuple[int, ...]] = {EMBEDDING: (len(kinds), config.node_type_width)} if kinds else {}
    given = config.in_channels + (config.node_type_width if kinds else 0)
    for part, stack, last in (("encoder", config.encoder, ()), ("decoder", config.decoder, (config.out_channels,))):
        for depth, out in enumerate((*stack.channels, *last)):
            own = {
                "B": (dim, rff // 2),
                "linear1.weight": (hidden, rff),
                "linear1.bias": (hidden,),
                "linear2.weight": (given * out, hidden),
                "filter": (given * out,),
                "linear.weight": (given, given),
                "linear.bias": (given,),
                "bias": (out,),
            }
            if depth < len(stack.channels):
                queries = stack.num_queries[depth]
                own |= {"query_pos": (queries, dim)}
                own |= {f"query_modulation_{name}": (queries, hidden) for name in ("weight", "offset")}
                own |= {"mlp.0.weight": (4 * out, out), "mlp.0.bias": (4 * out,)}
                own |= {"mlp.3.weight": (out, 4 * out), "mlp.3.bias": (out,)}
            found |= {f"{part}{depth}.{name}": shape for name, shape in own.items()}
            given = out
        if part == "encoder":
            found |= {f"neural_ode.{name}": shape for name, shape in _processor(config, given).items()}
    return found


def _processor(config: CalmConfig, latent: int) -> dict[str, tuple[int, ...]]:
    width, rff, head = config.processor_width, config.processor.fourier_width, config.processor_width // config.processor.heads
    found: dict[str, tuple[int, ...]] = {"B": (config.dim, rff // 2)}

    def linear(name: str, out: int, given: int) -> None:
        found.update({f"{name}.weight": (out, given), f"{name}.bias": (out,)})

    linear("in_linear", width, latent + rff)
    for block in range(1, config.processor.blocks + 1):
        linear(f"self_attn_{block}.in_proj", 3 * width, width)
        for norm in ("q_norm", "k_norm"):
            found |= {f"self_attn_{block}.{norm}.{name}": (head,) for name in ("weight", "bias")}
        linear(f"self_attn_{block}.out_proj", width, width)
        linear(f"mlp_{block}.0", 2 * width, width)
        linear(f"mlp_{block}.2", width, 2 * width)
    linear("out_linear", latent, width)
    return found


def drawn(config: CalmConfig, seed: int = 0) -> dict[str, torch.Tensor]:
    """A state dict of these shapes; of a size with which every layer's answer is of order 1."""
    generator, found = torch.Generator().manual_seed(seed), {}
    for name, shape in shapes(config).items():
        value = torch.randn(shape, generator=generator)
        if name.endswith("query_pos"):
            value = torch.rand(shape, generator=generator)
        elif not name.endswith("B"):
            value /= math.sqrt(shape[-1]) if len(shape) > 1 else 2.0
        found[name] = value
    return found


def data(config: CalmConfig, count: int = 10, frames: int = 4, points: int = 14) -> Source:
    """Noise with a mean on clouds, in the configuration's dimension, with its fields, axes and node types."""
    lower, upper = -np.arange(1.0, 1.0 + config.dim), np.arange(1.0, 1.0 + config.dim) ** 2
    draw = np.random.default_rng(0)
    cloud = draw.uniform(lower, upper, size=(points, config.dim))
    description = Description(
        name="published",
        fields=tuple(Field(name=f"u{channel}", unit="m/s") for channel in range(config.out_channels)),
        box=Box(tuple(lower), tuple(upper), config.periodic),
        times=0.5 * np.arange(frames),
        points=cloud,
        node_type=np.array(config.node_types)[np.arange(points) % len(config.node_types)] if config.node_types else None,
        node_types={code: f"kind {code}" for code in config.node_types},
    )

    def trajectories() -> Iterator[Trajectory]:
        for index in range(count):
            fields = 3.0 + 2.0 * draw.normal(size=(frames, points, config.out_channels))
            yield Trajectory(fields.astype(np.float32), generated_split(index, count))

    return Source(description, trajectories(), count)


class Oracle:
    """The published formulas in loops, of one sample: from names and shapes of its own, whatever ours are called."""

    def __init__(self, weights: dict[str, torch.Tensor], config: CalmConfig, periodic: tuple[bool, ...]) -> None:
        self.w = {name: value.double().numpy() for name, value in weights.items()}
        self.config, self.periodic = config, periodic

    def rollout(self, u: np.ndarray, points: np.ndarray, steps: int, kinds: list[int] | None = None) -> np.ndarray:
        """Normalized frames 1 … steps at the points, (time, point, channel)."""
        config = self.config
        if kinds is not None:
            vectors = [self.w[EMBEDDING][config.node_types.index(kind)] for kind in kinds]
            u = np.hstack([u, vectors])
        z, places = u, points
        for depth in range(len(config.encoder.channels)):
            z, places = self.layer(f"encoder{depth}.", z, places, self.w[f"encoder{depth}.query_pos"], config.encoder, depth)
        frames = []
        for _ in range(steps):
            z = z + self.change(z, places)
            v, where = z, places
            for depth in range(len(config.decoder.channels)):
                queries = self.w[f"decoder{depth}.query_pos"]
                v, where = self.layer(f"decoder{depth}.", v, where, queries, config.decoder, depth)
            last = len(config.decoder.channels)
            frames.append(self.layer(f"decoder{last}.", v, where, points, config.decoder, last)[0])
        return np.stack(frames)

    def layer(self, name: str, x: np.ndarray, points: np.ndarray, queries: np.ndarray, stack: Any, depth: int) -> Any:
        w = {key.removeprefix(name): value for key, value in self.w.items() if key.startswith(name)}
        mixed = [w["linear.weight"] @ row + w["linear.bias"] for row in x]
        given, out = x.shape[1], len(w["bias"])
        answers = []
        for a, query in enumerate(queries):
            field = receptive_field(query, points, range(len(points)), stack.receptive_field[depth], self.periodic)
            shares = softmax([-away / stack.temperature[depth] for away in relative(query, points, field, self.periodic)])
            total = np.zeros(out)
            for share, j in zip(shares, field, strict=True):
                rff = fourier(difference(query, points[j], self.periodic), w["B"])
                hidden = w["linear1.weight"] @ rff + w["linear1.bias"]
                if "query_modulation_weight" in w:
                    hidden = hidden * w["query_modulation_weight"][a] + w["query_modulation_offset"][a]
                kernel = (w["linear2.weight"] @ gelu_all(hidden) + w["filter"]).reshape(given, out)
                total += share * (mixed[j] @ kernel)
            y = total + w["bias"]
            if "query_pos" in w:
                y = gelu_all(y)
                y = y + w["mlp.3.weight"] @ gelu_all(w["mlp.0.weight"] @ y + w["mlp.0.bias"]) + w["mlp.3.bias"]
            answers.append(y)
        return np.array(answers), queries

    def change(self, z: np.ndarray, places: np.ndarray) -> np.ndarray:
        w = {key.removeprefix("neural_ode."): value for key, value in self.w.items() if key.startswith("neural_ode.")}

        def affine(name: str, rows: Any) -> np.ndarray:
            return np.array([w[f"{name}.weight"] @ row + w[f"{name}.bias"] for row in rows])

        x = affine("in_linear", [np.concatenate([row, fourier(p, w["B"])]) for row, p in zip(z, places, strict=True)])
        heads, tokens = self.config.processor.heads, range(len(z))
        size = x.shape[1] // heads
        for block in range(1, self.config.processor.blocks + 1):
            attention = f"self_attn_{block}"
            q, k, v = np.split(affine(f"{attention}.in_proj", x), 3, axis=1)
            mixed = np.zeros_like(x)
            for head in range(heads):
                part = slice(head * size, (head + 1) * size)
                asked, shown = (
                    [layer_norm(row[part], w[f"{attention}.{norm}.weight"], w[f"{attention}.{norm}.bias"]) for row in rows]
                    for norm, rows in (("q_norm", q), ("k_norm", k))
                )
                for i in tokens:
                    apart = [norm_squared(difference(places[i], places[j], self.periodic)) for j in tokens]
                    logits = [float(asked[i] @ shown[j]) / math.sqrt(size) - apart[j] for j in tokens]
                    mixed[i, part] = sum(share * v[j, part] for share, j in zip(softmax(logits), tokens, strict=True))
            x = x + affine(f"{attention}.out_proj", mixed)
            x = x + affine(f"mlp_{block}.2", gelu_all(affine(f"mlp_{block}.0", x)))
        return affine("out_linear", x)
