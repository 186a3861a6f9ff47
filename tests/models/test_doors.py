"""Bad input at the public doors: the error names the argument, what was expected, what came and the fix."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import pytest
import torch

import calm_pde as cp
from calm_pde.errors import CalmError, ConfigError, InputError, OutsideBoxWarning
from tests.models.calm.test_model import small

NAN, INF = float("nan"), float("inf")


def model_call(**changes: Any):
    arguments = {"values": torch.randn(2, 20, 2), "points": torch.rand(20, 2), "num_steps": 2} | changes
    return small(**({"node_types": (0, 4)} if "node_type" in changes else {})).build()(**arguments)


def layer_call(external: bool = False, **changes: Any):
    layer = cp.CalmLayer(2, 3, 2, num_queries=None if external else 5, receptive_field=0.2)
    return layer(**({"x": torch.randn(2, 20, 2), "points": torch.rand(20, 2)} | changes))


def with_bad(shape: tuple[int, ...], place: tuple[int, ...], value: float) -> torch.Tensor:
    tensor = torch.rand(shape)
    tensor[place] = value
    return tensor


CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"points": torch.rand(19, 2)}, "values", "one row for each of the 19 points, got 20 rows"),
    ({"points": torch.rand(20, 3)}, "points", r"expected shape \(point, 2\) or \(batch, point, 2\), got shape \(20, 3\)"),
    ({"points": torch.rand(20)}, "points", r"got shape \(20,\)"),
    ({"points": torch.rand(3, 20, 2)}, "points", r"as many clouds as values has samples \(2\), got 3 clouds"),
    ({"points": torch.rand(20, 2).double()}, "points", "expected a tensor of torch.float32.*got torch.float64"),
    ({"points": torch.rand(0, 2), "values": torch.rand(2, 0, 2)}, "points", "at least one point"),
    ({"points": with_bad((20, 2), (7, 1), NAN)}, "points", r"NaN or infinity in 1 of 20 places, first at index \(7,\)"),
    ({"points": with_bad((20, 2), (7, 1), INF)}, "points", "NaN or infinity"),
    ({"values": with_bad((2, 20, 2), (1, 3, 0), NAN)}, "values", r"1 of 40 places, first at index \(1, 3\)"),
    ({"values": with_bad((2, 20, 2), (1, 3, 0), -INF)}, "values", "NaN or infinity"),
    ({"values": torch.rand(2, 20, 3)}, "values", "2 channels on the last axis"),
    ({"values": torch.rand(20, 2)}, "values", r"shape \(batch, point, channel\), got shape \(20, 2\).*values\[None\]"),
    ({"values": torch.rand(0, 20, 2)}, "values", "at least one sample"),
    ({"queries": torch.rand(5, 3)}, "queries", r"got shape \(5, 3\)"),
    ({"queries": torch.rand(0, 2)}, "queries", "at least one point"),
    ({"queries": with_bad((5, 2), (0, 0), NAN)}, "queries", "NaN or infinity"),
    ({"queries": torch.rand(3, 5, 2)}, "queries", "as many clouds as zs has samples"),
    ({"mask": torch.ones(2, 20)}, "mask", "a boolean tensor, True where a point is real, got torch.float32"),
    ({"mask": torch.ones(2, 19, dtype=torch.bool)}, "mask", r"shape \(2, 20\).*got shape \(2, 19\)"),
    (
        {"mask": torch.arange(20) < torch.tensor([[20], [0]])},
        "mask",
        "at least one real point in every sample, got none in sample 1",
    ),
    ({"num_steps": None}, "num_steps", "either num_steps or times, got neither"),
    ({"times": [1.0]}, "num_steps", "either num_steps or times, got both"),
    ({"num_steps": 0}, "num_steps", "at least 1, got 0"),
    ({"num_steps": -1}, "num_steps", "whole number ≥ 0, got -1"),
    ({"num_steps": None, "times": [1.0, 1.0]}, "times", "strictly increasing"),
    ({"num_steps": None, "times": [2.0, 1.0]}, "times", r"strictly increasing numbers > 0.*got \[2.0, 1.0\]"),
    ({"num_steps": None, "times": [0.0, 1.0]}, "times", "> 0"),
    ({"num_steps": None, "times": [NAN]}, "times", "finite"),
    ({"node_type": torch.full((20,), 5)}, "node_type", r"expected codes of \(0, 4\), got 5 at 20 points"),
    ({"node_type": torch.zeros(20)}, "node_type", "expected integers of shape"),
    ({"node_type": torch.zeros(19, dtype=torch.int64)}, "node_type", r"got torch.int64 of shape \(19,\)"),
    ({"node_type": None}, "node_type", r"a code of \(0, 4\) per point, got none"),
]


@pytest.mark.parametrize(("changes", "argument", "message"), CASES)
def test_model_refuses(changes, argument, message):
    with pytest.raises(InputError, match=message) as error:
        model_call(**changes)
    assert str(error.value).startswith(f"{argument}: expected ")
    assert error.value.argument == argument
    assert isinstance(error.value, CalmError)
    assert isinstance(error.value, ValueError)


def test_model_without_node_types_refuses_them():
    with pytest.raises(InputError, match="node_type: expected none, since the config has no node_types"):
        small().build()(torch.randn(1, 20, 2), torch.rand(20, 2), 1, node_type=torch.zeros(20, dtype=torch.int64))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": torch.rand(2, 20, 5)}, "x: expected 2 channels"),
        ({"x": torch.rand(2, 19, 2)}, "x: expected one row for each of the 20 points"),
        ({"x": torch.rand(20, 2), "points": torch.rand(1, 20, 2)}, "points: expected .*without a batch axis"),
        ({"x": with_bad((2, 20, 2), (0, 0, 0), NAN)}, "x: expected finite"),
        ({"queries": torch.rand(3, 2)}, "queries: expected none, since the layer owns its queries, got some"),
        ({"external": True}, "queries: expected the points to answer at, got none"),
        ({"mask": torch.ones(20, dtype=torch.bool)}, r"mask: expected shape \(2, 20\)"),
    ],
)
def test_layer_refuses(changes, message):
    with pytest.raises(InputError, match=message):
        layer_call(**changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"receptive_field": 0.0}, "receptive_field: expected a share"),
        ({"receptive_field": 1.1}, "receptive_field: expected a share"),
        ({"temperature": 0.0}, "temperature: expected a finite number > 0"),
        ({"num_queries": 0}, "num_queries: expected a whole number ≥ 1, got 0"),
        ({"in_channels": -1}, "in_channels: expected a whole number"),
        ({"fourier_width": 3}, "fourier_width: expected an even number"),
        ({"kernel": "distance", "weighting": "none"}, "itself a softmax"),
    ],
)
def test_layer_sizes_are_checked(options, message):
    sizes = {"in_channels": 1, "out_channels": 1, "dim": 1, "num_queries": 3, "receptive_field": 0.5}
    with pytest.raises(ConfigError, match=message):
        cp.CalmLayer(**(sizes | options))


def test_stale_neighbors_of_other_points_are_refused():
    model = small().build()
    values = torch.randn(1, 20, 2)
    found = model.neighbors(torch.rand(30, 2))
    with pytest.raises(InputError, match="neighbors: expected neighbors of 9 queries among 20 points"):
        model(values, torch.rand(20, 2), 1, neighbors=found)


@pytest.mark.parametrize("door", ["bake", "neighbors"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"points": torch.rand(20, 3)}, "points: expected shape"),
        ({"points": with_bad((20, 2), (3, 0), NAN)}, "points: expected finite numbers"),
        ({"points": torch.rand(20, 2), "queries": with_bad((5, 2), (3, 0), INF)}, "queries: expected finite numbers"),
        ({"points": torch.rand(20, 2), "queries": torch.rand(5, 1)}, "queries: expected shape"),
        ({"points": torch.rand(2, 20, 2), "queries": torch.rand(3, 5, 2)}, "queries: expected as many clouds"),
        ({"points": torch.rand(2, 20, 2), "mask": torch.ones(2, 19, dtype=torch.bool)}, "mask: expected shape"),
    ],
)
def test_a_mesh_alone_is_checked_too(door, arguments, message):
    with pytest.raises(InputError, match=message):
        getattr(small().build(), door)(**arguments)


def test_baking_needs_the_node_types():
    model = small(node_types=(0, 4)).build()
    with pytest.raises(InputError, match=r"node_type: expected a code of \(0, 4\) per point, got none"):
        model.bake(torch.rand(20, 2))
    with pytest.raises(InputError, match="node_type: expected codes"):
        model.bake(torch.rand(20, 2), node_type=torch.full((20,), 7))


def test_latents_without_a_time_axis():
    model = small().build()
    z, p = model.encode(torch.randn(1, 20, 2), torch.rand(20, 2))
    with pytest.raises(InputError, match=r"zs: expected shape \(batch, time, token, channel\).*z\[:, None\]"):
        model.decode(z, p, torch.rand(3, 2))


def test_mesh_of_another_dimension():
    with pytest.raises(InputError, match="mesh: expected"):
        small().build(mesh=torch.rand(10, 3))


def test_outside_the_box_is_counted_and_said_once():
    model = small().build()  # periodic in x, open in y
    points, values = torch.rand(20, 2), torch.randn(1, 20, 2)
    points[:3, 1] += 2
    points[5:9, 0] -= 3  # wraps: not outside
    with pytest.warns(OutsideBoxWarning, match="points: 3 of 20 lie outside the unit box") as heard:
        model(values, points, 1, torch.rand(4, 2))
    assert len(heard) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model(values, points, 1, torch.rand(4, 2))
    with pytest.warns(OutsideBoxWarning, match="queries: 4 of 4"):
        model(values, torch.rand(20, 2), 1, torch.rand(4, 2) - 1)


def test_masked_points_outside_the_box_are_not_counted():
    model = small().build()
    points = torch.rand(1, 20, 2)
    points[0, 15:] = 9
    model(torch.randn(1, 20, 2), points, 1, torch.rand(4, 2), mask=torch.arange(20)[None] < 15)


def test_periodic_axes_wrap():
    model = small(periodic=True).build().double()
    points, values = torch.rand(20, 2).double(), torch.randn(1, 20, 2).double()
    moved = points + torch.randint(-3, 4, (20, 2))
    a, b = (
        model(values, where, 1, torch.rand(4, 2, generator=torch.Generator().manual_seed(0)).double())
        for where in (points, moved)
    )
    assert torch.allclose(a, b, atol=1e-12)


def test_what_is_no_tensor_is_named():
    """Outside the test run's type checks, as a user would meet it."""
    script = """
import numpy as np, torch, calm_pde as cp
layer = cp.CalmLayer(2, 3, 2, num_queries=5, receptive_field=0.2)
good = torch.rand(4, 2)
for x, points in ((np.zeros((4, 2)), good), (good, [[0.1, 0.2]]), (good.long(), good)):
    try:
        layer(x, points)
    except cp.errors.InputError as error:
        print(error)
layer(good, good + 2)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["x", "points", "x"]
    assert "got ndarray" in lines[0]
    assert "got list" in lines[1]
    assert "got torch.int64" in lines[2]
    assert "<string>:10: OutsideBoxWarning: points: 4 of 4 lie outside" in run.stderr  # at the user's own line
