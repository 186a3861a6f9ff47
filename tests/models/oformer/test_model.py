"""OFormer: counts, an oracle of loops for its three layouts, memory of a rollout, what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.models.calm.memory import LiveBytes
from calm_pde.models.oformer.model import OFormerConfig
from calm_pde.models.size import num_parameters
from tests.clouds import random_cloud, relative_error
from tests.models.oformer.test_linear_attention import attention, gated, normalized
from tests.oracle import fourier, gelu_all, weights_of

COUNTS = {
    "burgers_1d": (231_742, 428_977, 660_719),
    "navier_stokes_2d": (298_560, 1_551_937, 1_850_497),
    "compressible_3d": (133_824, 691_333, 825_157),
    "airfoil_2d": (480_128, 887_684, 1_367_812),
    "cylinder_2d": (482_176, 888_195, 1_370_371),
}
STEADY = ("steady_airfoil", "elasticity")


def tiny(**changes: Any) -> OFormerConfig:
    base = {"dim": 2, "in_channels": 2, "out_channels": 2, "encoder_width": 6, "rotary_scales": (4.0, 1.0), "latent_width": 8}
    more = {"propagator_width": 12, "heads": 2, "cross_scale": 2.0, "resolution": 10.0, "fourier_std": 1.0}
    return OFormerConfig.model_validate(base | more | changes)


BARE = {"layout": "bare", "attention": "fourier", "propagator_width": 8, "propagator_layers": 2}
MESH = {"layout": "mesh", "node_types": (0, 4, 6), "coordinate_scale": 3.0, "dropout": 0.5}


def closed_form(config: OFormerConfig) -> tuple[int, int]:
    """Encoder and decoder, with the feed-forward block as 3d² + 3d."""
    e, latent, wide = config.encoder_width, config.latent_width, config.propagator_width
    c, s, blocks, heads = config.out_channels, config.dim, len(config.rotary_scales), config.heads
    given = config.in_channels + s

    def ff(d: int) -> int:
        return 3 * d**2 + 3 * d

    cross = 4 * heads * latent**2 + latent + ff(latent)
    if config.layout == "bare":
        encoder = given * (e - s) + blocks * (3 * e**2 + ff(e)) + e * latent
        head = latent**2 // 2 + latent * c // 2 + c
        return encoder, 2 * latent**2 + cross + 3 * config.propagator_layers * latent**2 + head
    if config.layout == "grid":
        encoder = given * e + blocks * (3 * e**2 + ff(e) + 4 * e) + e * latent
        decoder = wide**2 + wide * latent + cross + latent * wide + wide
        decoder += 2 * wide + (wide + s) * wide + 2 * wide**2
        return encoder, decoder + 2 * wide + wide * latent + latent**2 + latent * c + c
    kinds = len(config.node_types)
    encoder = given * e + 3 * e**2 + kinds * e + blocks * (3 * e**2 + ff(e) + 4 * e) + 2 * e + 2 * e**2
    decoder = kinds * e + 4 * e**2 + cross + 3 * e**2 + 2 * e**2 + 4 * e + (3 * e + s) * 2 * e + 12 * e**2
    affine = config.norm == "affine"
    return encoder + affine * blocks * 4 * e, decoder + 4 * e + 8 * e**2 + e * c + c + affine * 4 * e


@pytest.mark.parametrize("name", OFormerConfig.presets)
def test_parameter_counts(name):
    config = OFormerConfig.preset(name)
    model = config.build()
    counts = num_parameters(model.encoder), num_parameters(model.decoder)
    assert counts == closed_form(config)
    assert num_parameters(model) == sum(counts)
    if name not in STEADY:
        assert (*counts, sum(counts)) == COUNTS[name] if name in COUNTS else sum(counts) <= 500_000
    problems = (*COUNTS, *STEADY)
    assert set(OFormerConfig.presets) == {*problems, *(f"{name}_small" for name in problems)}


class Oracle:
    """The formulas of the three layouts in numpy, of one sample.

    Args:
        kinds: node types of its points.
    """

    def __init__(self, model: Any, kinds: list[int] | None) -> None:
        self.w, self.config, self.kinds = weights_of(model), model.config, kinds

    def answers(self, u: np.ndarray, points: np.ndarray, queries: np.ndarray, steps: int) -> np.ndarray:
        """Frames of a state (point, channel), (time, query, channel)."""
        z = self.decoded(self.encoded(u, points), points, queries)
        layout = self.config.layout
        told = [self.embedded("decoder")] if self.kinds else []
        known = {"bare": [], "grid": [queries], "mesh": [*told, queries]}[layout]
        frames = []
        for _ in range(steps):
            for layer in range(self.config.propagator_layers):
                normed = self.ln(f"decoder.propagators.{layer}.norm", z)
                z = z + self.chained(f"decoder.propagators.{layer}.mlp", np.hstack([normed, *known]), gelu_all)
            answer = self.ln("decoder.norm", z)
            answer = np.hstack([answer, self.embedded("decoder")]) if layout == "mesh" else answer
            frames.append(self.chained("decoder.head", answer, relu if layout == "mesh" else gelu_all))
        return np.stack(frames)

    def encoded(self, u: np.ndarray, points: np.ndarray) -> np.ndarray:
        w, layout = self.w, self.config.layout
        x = self.chained("encoder.lift", np.hstack([u, points]), gelu_all)
        x = np.hstack([x, points]) if layout == "bare" else x
        if layout == "mesh":
            x = np.hstack([x, self.embedded("encoder")]) @ w["encoder.join.weight"].T
        skip = x
        for b, scale in enumerate(self.config.rotary_scales):
            x = self.ln(f"encoder.blocks.{b}.norm_attention", x)
            x = x + self.attend(f"encoder.blocks.{b}.attention", x, points, x, points, scale)
            x = self.ln(f"encoder.blocks.{b}.norm_mlp", x)
            x = x + gated(self.part(f"encoder.blocks.{b}.mlp."), x)
        return self.chained("encoder.out", self.ln("encoder.norm", x + skip) if layout == "mesh" else x, relu)

    def decoded(self, x: np.ndarray, points: np.ndarray, queries: np.ndarray) -> np.ndarray:
        """The latent state at the queries, before the first step."""
        w, config, layout = self.w, self.config, self.config.layout
        z = np.stack([fourier(config.coordinate_scale * q, w["decoder.fourier.frequencies"]) for q in queries])
        embed = "decoder.embed"
        z = gelu_all(z) @ w[f"{embed}.1.weight"].T if layout == "bare" else self.chained(embed, z, gelu_all)
        if layout == "mesh":
            z = np.hstack([z, self.embedded("decoder")]) @ w["decoder.join.weight"].T
        z = z + self.attend("decoder.attention", z, queries, x, points, config.cross_scale, config.heads)
        z = z + gated(self.part("decoder.mlp."), z)
        if layout == "mesh":
            norm = "token" if config.norm == "affine" else config.norm
            z = z + self.attend("decoder.mixing", z, queries, z, queries, config.cross_scale, norm=norm)
        return z if layout == "bare" else z @ w["decoder.widen.weight"].T + w.get("decoder.widen.bias", 0.0)

    def part(self, prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): value for name, value in self.w.items() if name.startswith(prefix)}

    def chained(self, name: str, x: np.ndarray, activation: Any) -> np.ndarray:
        keys = sorted(key for key in self.part(f"{name}.") if key.endswith("weight"))
        for place, key in enumerate(keys):
            x = x @ self.w[f"{name}.{key}"].T + self.w.get(f"{name}.{key.replace('weight', 'bias')}", 0.0)
            x = activation(x) if place < len(keys) - 1 else x
        return x

    def ln(self, name: str, x: np.ndarray) -> np.ndarray:
        w = self.w
        return normalized(x, "token", w[f"{name}.weight"], w[f"{name}.bias"]) if f"{name}.weight" in w else x

    def embedded(self, name: str) -> np.ndarray:
        codes = self.config.node_types
        return np.stack([self.w[f"{name}.node_types.weight"][codes.index(kind)] for kind in self.kinds or ()])

    def attend(self, name, x, where, context, elsewhere, scale, heads=1, norm=None) -> np.ndarray:
        config = self.config
        frequency = scale * config.resolution * config.coordinate_scale
        options = {"heads": heads, "kind": config.attention, "norm": norm or config.norm, "frequency": frequency}
        return attention(self.part(f"{name}."), x, where, context, elsewhere, **options)


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"dim": 3, "norm": "domain"},
        {"dim": 1, "propagator_layers": 2},
        BARE | {"dim": 1},
        BARE | {"norm": "domain"},
        MESH | {"latent_width": 6},
        MESH | {"latent_width": 6, "norm": "affine"},
    ],
)
def test_equals_the_oracle(changes, dtype):
    config = tiny(**changes)
    model = config.build(seed=1)
    with torch.no_grad():
        for parameter in model.parameters():  # the affine maps of the norms start at 1 and 0, some weights near 0
            parameter += 0.2 * torch.randn(parameter.shape)
    model = model.to(dtype).eval()
    points = random_cloud(20, config.dim, seed=2).view(2, 10, config.dim).to(dtype)
    values = (random_cloud(20, 2, seed=3).view(2, 10, 2) - 0.5).to(dtype)
    queries, mask = random_cloud(5, config.dim, seed=4).to(dtype), torch.arange(10) < torch.tensor([[10], [6]])
    kinds = torch.tensor(config.node_types)[torch.arange(10) % 3] if config.node_types else None
    here = model(values, points, 2, mask=mask, node_type=kinds)
    there = None if config.answers_meet else model(values, points, 2, queries, mask)
    bar = 1e-11 if dtype == torch.float64 else 5e-5
    for sample in range(2):
        real = mask[sample].nonzero().flatten().tolist()
        u, where = values[sample, real].double().numpy(), points[sample, real].double().numpy()
        codes = None if kinds is None else kinds[real].tolist()
        expected = Oracle(model, codes).answers(u, where, where, 2)
        assert relative_error(here[sample][:, real], torch.from_numpy(expected)) < bar
        if there is not None:
            expected = Oracle(model, None).answers(u, where, queries.double().numpy(), 2)
            assert relative_error(there[sample], torch.from_numpy(expected)) < bar


def test_a_step_of_a_rollout_keeps_its_state_only():
    model = tiny(propagator_width=64).build()
    values, points = torch.rand(1, 2000, 2), torch.rand(2000, 2)
    peaks = []
    for num_steps in (2, 22):
        with LiveBytes() as live:
            model(values, points, num_steps).square().mean().backward()
        peaks.append(live.peak)
    state = 2000 * 64 * 4
    assert (peaks[1] - peaks[0]) / 20 < 1.2 * state  # about ten times as much otherwise


def test_the_bare_latent_flow_starts_near_identity():
    model = OFormerConfig.preset("burgers_1d").build()
    points = torch.arange(64)[:, None] / 64
    u = model(torch.sin(2 * torch.pi * points)[None], points, 40)[0]
    assert 0 < relative_error(u[-1], u[0]) < 0.01


def test_dropout_acts_in_training_only():
    model = tiny(**MESH, encoder_width=32).build()
    values, points, kinds = torch.rand(1, 10, 2), torch.rand(10, 2), torch.zeros(10, dtype=torch.int64)
    assert not torch.equal(model(values, points, 1, node_type=kinds), model(values, points, 1, node_type=kinds))
    model.eval()
    assert torch.equal(model(values, points, 1, node_type=kinds), model(values, points, 1, node_type=kinds))


def test_fourier_frequencies_are_saved_and_not_trained():
    model = tiny().build()
    assert "decoder.fourier.frequencies" in model.state_dict()
    assert not any("frequencies" in name for name, _ in model.named_parameters())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_types": (0, 4)}, "node_types need layout: mesh, got grid"),
        (BARE | {"propagator_width": 10}, "propagator_width must equal latent_width 8"),
        ({"encoder_width": 4, "dim": 3}, "encoder_width must be at least 6"),
        ({"encoder_width": 7}, "encoder_width: "),
        ({"norm": "layer"}, "norm: "),
        ({"rotary_scales": ()}, "rotary_scales: "),
        ({"out_channels": 3}, "out_channels must be 2, got 3"),
    ],
)
def test_mistakes_are_named(changes, message):
    with pytest.raises(ConfigError) as error:
        tiny(**changes)
    assert message in str(error.value)
