"""GAOT: counts, the model written out, the way to a time, pairs of frames in training, a state between its points."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from calm_pde.errors import ConfigError
from calm_pde.metrics.relative_l2 import relative_l2
from calm_pde.models.gaot.config import GaotConfig
from calm_pde.models.gaot.interpolation import interpolated, interpolation
from calm_pde.models.gaot.model import Gaot
from calm_pde.models.gaot.steps import Step, steps_to
from calm_pde.models.size import num_parameters
from calm_pde.records.inputs import Frames
from tests.clouds import grid, random_cloud, relative_error
from tests.models.gaot import gaot_oracle as oracle
from tests.models.gaot.test_operator import SIZES, config
from tests.oracle import weights_of
from tests.train.test_lead_times import first, trainer


def stirred(config: GaotConfig, dtype: torch.dtype = torch.float64) -> Gaot:
    """What starts at zero or one moved away from it."""
    model, generator = config.build(seed=3), torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model.to(dtype)


def states(count: int = 14, dim: int = 2, batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    points = torch.stack([random_cloud(count, dim, seed) for seed in range(batch)])
    return random_cloud(batch * count, 2, seed=7).view(batch, count, 2) - 0.5, points


def closed_form(config: GaotConfig) -> int:
    c, d, w, s = config.width, config.dim, config.processor_width, config.statistics_width

    def linear(i: int, o: int) -> int:
        return i * o + o

    seen = d if config.positions == "relative" else 2 * d
    kernel = linear(seen, config.kernel_width) + linear(config.kernel_width, c)
    kernel += (config.kernel_layers - 1) * linear(config.kernel_width, config.kernel_width)
    vectors = (d + 2 if config.positions == "relative" else 2 * d) * config.attention_width
    scale = kernel + vectors * (config.attention == "projected") + linear(3 + 2 * d, s) + linear(s, c) + linear(2 * c, c)
    operator = len(config.scales) * scale
    operator += (linear(d, s) + linear(s, len(config.scales))) * (config.scale_weights == "learned")
    block = 2 * w + linear(w, 3 * w) + linear(w, w) + linear(w, 2 * config.expansion * w) + linear(config.expansion * w, w)
    block += linear(w, 4 * w)
    read = c * config.patch**d
    processor = linear(1, w) + linear(read, w) + linear(w, read) + w
    processor += (2 * config.depth + 1) * block + config.depth * linear(2 * w, w)
    kinds = len(config.node_types) * config.node_type_width
    given = config.in_channels + config.features + config.parameters + 2 * config.signals + 1
    lift = linear(given + (config.node_type_width if kinds else 0), c)
    return kinds + lift + 2 * operator + processor + linear(c, c) + linear(c, config.out_channels)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"attention": "projected", "scale_weights": "learned"},
        {"positions": "absolute", "attention": "projected", "parameters": 2, "features": 1, "signals": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", GaotConfig.presets)
def test_parameter_counts(name, changes):
    chosen = GaotConfig.preset(name, **changes)
    assert num_parameters(chosen.build()) == closed_form(chosen)
    if name.endswith("_small") and not changes:
        assert closed_form(chosen) <= 500_000


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "changes",
    [
        {"periodic": (True, False), "node_types": (0, 4, 6), "features": 1},
        {"dim": 1, "latent_size": 6, "depth": 2, "answer": "residual", "parameters": 2, "signals": 1},
        {"dim": 2, "latent_size": (2, 4), "positions": "absolute", "attention": "projected", "answer": "state"},
        {"dim": 3, "scale_weights": "learned", "patch": 4},
    ],
    ids=["mesh", "told", "grid of two sizes", "3d"],
)
def test_a_step_equals_the_oracle(changes, dtype):
    """Of a frame and a half: u + τ·net, u + net, or net, with signals at both of its ends."""
    chosen = config(stride=None, horizon=3.0, **changes)
    model, (values, points) = stirred(chosen, dtype), states(dim=chosen.dim)
    model.deviation.copy_(torch.tensor([0.5, 2.0]))
    mask, deviation = torch.arange(14) < torch.tensor([[14], [9]]), np.array([0.5, 2.0])
    codes = torch.tensor(chosen.node_types)[torch.arange(14) % 3].expand(2, -1) if chosen.node_types else None
    told = {"parameters": random_cloud(2, 2, seed=3)} if chosen.parameters else {}
    told |= {"signals": random_cloud(6, 1, seed=4).view(2, 3, 1)} if chosen.signals else {}
    told |= {"features": random_cloud(28, 1, seed=5).view(2, 14, 1)} if chosen.features else {}
    given = {"values": values, "points": points} | told
    given = {name: value.to(dtype) for name, value in given.items()}
    found = model(**given, times=[1.5], mask=mask, node_type=codes)
    w = weights_of(model)
    for sample in range(2):
        real = mask[sample].nonzero().flatten().tolist()
        u, where = values[sample, real].numpy(), points[sample, real].numpy()
        beside = [told["features"][sample, real].numpy()] if chosen.features else []
        if told.get("parameters") is not None:
            signals = told["signals"][sample].flatten().numpy()
            known = [*told["parameters"][sample].tolist(), signals[0], (signals[1] + signals[2]) / 2]
            beside.append(np.tile(known, (len(u), 1)))
        beside.append(np.full((len(u), 1), 0.5))
        if codes is not None:
            beside.append(w["node_types.weight"][[chosen.node_types.index(int(k)) for k in codes[sample, real]]])
        said = oracle.network(w, np.concatenate([u, *beside], axis=1), where, where, 1.5, chosen)
        wanted = {"derivative": u + 1.5 * deviation * said, "residual": u + deviation * said, "state": said}[chosen.answer]
        bar = 1e-11 if dtype == torch.float64 else 1e-4
        assert relative_error(found[sample, 0][real], torch.from_numpy(wanted)) < bar


def test_the_way_to_a_time():
    """Whole strides, and at last a shorter step; what is a whole frame but for rounding is one."""
    assert steps_to(3.0, 1) == [Step(0.0, 1.0), Step(1.0, 1.0), Step(2.0, 1.0)]
    assert steps_to(2.25, 1) == [Step(0.0, 1.0), Step(1.0, 1.0), Step(2.0, 0.25)]
    assert steps_to(0.5, 1) == [Step(0.0, 0.5)]
    assert steps_to(2.0000001, 1) == [Step(0.0, 1.0), Step(1.0, 1.0)]
    assert steps_to(7.0, 3) == [Step(0.0, 3.0), Step(3.0, 3.0), Step(6.0, 1.0)]
    assert steps_to(6.0, 3) == [Step(0.0, 3.0), Step(3.0, 3.0)]
    assert steps_to(7.5, None) == [Step(0.0, 7.5)]


@pytest.mark.parametrize("stride", [1, 2, None])
def test_an_answer_depends_on_no_other_time_that_is_asked(stride):
    model, (values, points) = stirred(config(stride=stride)), states()
    asked, times = random_cloud(5, 2, seed=9), [0.5, 1.0, 2.0, 2.75, 4.0]
    for queries in (None, asked):
        together = model(values, points, times=times, queries=queries)
        for place, time in enumerate(times):
            assert relative_error(model(values, points, times=[time], queries=queries), together[:, place : place + 1]) < 1e-12


def test_a_time_between_is_a_shorter_step_from_the_frame_before():
    direct, steps = stirred(config(stride=None)), stirred(config())
    values, points = states()
    two = steps(values, points, 2)
    between = steps(values, points, times=[2.25])
    assert relative_error(direct(two[:, 1], points, times=[0.25]), between) < 1e-12
    assert relative_error(direct(direct(values, points, 1)[:, 0], points, 1), two[:, 1:]) < 1e-12
    large = stirred(config(stride=3))(values, points, times=[3.0, 4.0])
    assert relative_error(direct(values, points, times=[3.0]), large[:, :1]) < 1e-12
    assert relative_error(direct(large[:, 0], points, 1), large[:, 1:]) < 1e-12


def test_all_pairs_of_frames_are_learned(tmp_path: Path):
    """With all lead times the loss is the mean over all pairs (s, t), t after s, of one step of t − s frames from s."""
    sizes = {name: value for name, value in SIZES.items() if name not in ("dim", "in_channels", "out_channels")}
    run = trainer(tmp_path, model={"kind": "gaot"} | sizes)
    batch = first(run)
    truth, points = run.surrogate.card.statistics.normalized(batch.fields.double()), batch.points.double()
    direct = GaotConfig.model_validate(run.model.config.model_dump() | {"stride": None}).build().double()
    direct.load_state_dict(run.model.state_dict())
    errors, frames = [], truth.shape[1]
    for s in range(frames - 1):
        for t in range(s + 1, frames):
            said = direct(truth[:, s], points, times=[float(t - s)])
            errors.append(relative_l2(said, truth[:, t : t + 1]))
    assert len(errors) == frames * (frames - 1) // 2
    torch.testing.assert_close(run.objective.losses(batch), torch.cat(errors, dim=1).mean(dim=(1, 2)))
    rolled = run.model.training_answer(Frames(truth, points), [1.0, 2.0]).predicted
    assert relative_error(rolled[:, 2:], run.model(truth[:, 0], points, times=[2.0])) > 1e-6


def test_changes_are_told_in_deviations_of_the_training_data(tmp_path: Path):
    """Gathered once before a training, kept with the weights, and what `train.error: difference` measures by."""
    sizes = {name: value for name, value in SIZES.items() if name not in ("dim", "in_channels", "out_channels")}
    run = trainer(tmp_path, model={"kind": "gaot"} | sizes, error="difference")
    truth = torch.stack([run.data[place]["fields"] for place in range(len(run.data))])
    normalized = run.surrogate.card.statistics.normalized(truth.double())
    wanted = normalized.diff(dim=1).flatten(0, 2).std(dim=0)
    assert isinstance(run.model, Gaot)
    torch.testing.assert_close(run.model.deviation, wanted, rtol=1e-6, atol=0)
    assert torch.equal(run.model.state_dict()["deviation"], run.model.difference_deviation)
    assert bool(torch.isfinite(run.objective.losses(first(run))).all())


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("wraps", [False, True])
def test_a_state_between_its_points_is_that_of_planes(dim, wraps):
    """Exact at the points and where the state is linear nearby, in any order of points; of masked ones nothing is read."""
    points = random_cloud(400 if wraps else 60, dim)[None]
    slope = torch.tensor([2.0, -1.0, 0.5]).double()[:dim]
    queries = 0.3 + 0.4 * random_cloud(9, dim, seed=1)[None] if wraps else random_cloud(9, dim, seed=1)[None]
    periodic, u = (wraps,) * dim, (points @ slope)[..., None] + 3
    near, weights = interpolation(points, queries, None, periodic)
    torch.testing.assert_close(interpolated(u, near, weights)[0, :, 0], (queries @ slope)[0] + 3, rtol=1e-6, atol=1e-6)
    points, noise = points[:, :60], random_cloud(60, 1, seed=2)[None]
    near, weights = interpolation(points, points[:, :7], None, periodic)
    torch.testing.assert_close(interpolated(noise, near, weights), noise[:, :7], rtol=1e-12, atol=1e-12)
    order = torch.randperm(60, generator=torch.Generator().manual_seed(0))
    found = [
        interpolated(noise[:, which], *interpolation(points[:, which], queries, None, periodic))
        for which in (order, torch.arange(60))
    ]
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
    mask = torch.arange(60)[None] < 40
    hidden = noise.masked_fill(~mask[..., None], 1e9)
    alone = interpolated(noise[:, :40], *interpolation(points[:, :40], queries, None, periodic))
    found = interpolated(hidden, *interpolation(points, queries, mask, periodic))
    torch.testing.assert_close(found, alone, rtol=1e-12, atol=1e-12)


def test_a_smooth_state_between_points_is_off_by_the_square_of_their_spacing():
    errors = []
    for side in (16, 32):
        points, queries = grid(side, 2)[None], random_cloud(200, 2, seed=1)[None]
        u, wanted = (torch.sin(2 * math.pi * where).prod(dim=-1, keepdim=True) for where in (points, queries))
        found = interpolated(u, *interpolation(points, queries, None, (True, True)))
        errors.append(float((found - wanted).square().mean().sqrt()))
    assert errors[1] < 0.01
    assert math.log2(errors[0] / errors[1]) > 1.7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"latent_size": (4, 4, 4)}, "latent_size needs one number, or 2 of them"),
        ({"latent_size": 5}, "patch must divide the .5, 5. tokens along each axis, got 2"),
        ({"heads": 5}, "heads must divide processor_width 12, got 5"),
        ({"processor_width": 3}, "processor_width must be at least 4"),
        ({"out_channels": 1}, "out_channels must be 2, got 1"),
        ({"scales": ()}, "scales"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        config(**changes)
