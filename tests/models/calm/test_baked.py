"""A baked model answers as the plain one, and refuses once the weights have moved."""

from __future__ import annotations

import pytest
import torch

from calm_pde.models.calm.model import CalmConfig
from tests.clouds import relative_error
from tests.models.calm.test_detail import DETAIL
from tests.models.calm.test_model import perturbed, small
from tests.models.calm.test_place import PLACE


@pytest.mark.parametrize("own_meshes", [False, True])
@pytest.mark.parametrize("own_queries", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kernel": "distance"},
        {"node_types": (0, 4)},
        {"integrator": "rk4"},
        {"processor": {"heads": 2, "fourier_width": 6, "damping": "full"}},
        {"detail": DETAIL},
        {"place": PLACE},
        {"place": PLACE, "node_types": (0, 4)},
        {"place": PLACE, "node_types": (0, 4), "detail": DETAIL},
    ],
    ids=str,
)
def test_baked_equals_plain(own_meshes, own_queries, changes):
    model = perturbed(small(**changes).build())
    points, values = torch.rand(2, 20, 2), torch.randn(2, 20, 2)
    mask = torch.arange(20) < torch.tensor([[20], [11]]) if own_meshes else None
    points = points if own_meshes else points[0]
    queries = torch.rand(6, 2) if own_queries else None
    kinds = torch.tensor([0, 4])[torch.arange(20) % 2] if "node_types" in changes else None
    baked = model.bake(points, queries, mask, kinds)
    for num_steps in (1, 5):
        plain = model(values, points, num_steps, queries, mask, kinds)
        assert relative_error(baked(values, num_steps), plain) < 1e-5
    plain = model(values, points, None, queries, mask, kinds, times=[0.5, 2.0])
    assert relative_error(baked(values, times=[0.5, 2.0]), plain) < 1e-5


def test_one_mesh_serves_any_batch():
    model = small().build()
    points = torch.rand(20, 2)
    baked = model.bake(points)
    for batch in (1, 3, 40):
        values = torch.randn(batch, 20, 2)
        assert relative_error(baked(values, 2), model(values, points, 2)) < 1e-5


@pytest.mark.parametrize("task", ["steady", "autoencoder"])
def test_tasks_without_time(task):
    model = small(task=task).build()
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    assert relative_error(model.bake(points)(values), model(values, points)) < 1e-5


def test_the_papers_preset_in_every_order():
    """At this size the layers take all three orders."""
    model = CalmConfig.preset("navier_stokes_2d").build()
    axis = torch.arange(64) / 64
    points, values = torch.cartesian_prod(axis, axis), torch.randn(2, 4096, 1)
    baked = model.bake(points)
    with torch.no_grad():
        plain = model(values, points, 10)
    assert relative_error(baked(values, 10), plain) < 1e-5
    assert {str(order) for layer in (*baked.encoder, *baked.decoder) for order in layer.frozen} == {"kernel", "pool", "push"}


def test_it_keeps_its_weights_whatever_happens_to_the_model():
    model = small().build()
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    with torch.no_grad():
        expected = {batch: model(values[:batch], points, 2) for batch in (1, 2)}
    baked = model.bake(points)
    assert relative_error(baked(values, 2), expected[2]) < 1e-5
    for parameter in model.parameters():
        parameter.data.mul_(1.5)
    first = next(iter(model.parameters())).detach().numpy()
    first += 1
    assert relative_error(baked(values, 2), expected[2]) < 1e-5
    assert relative_error(baked(values[:1], 2), expected[1]) < 1e-5  # kernels that are frozen only now
    model.load_state_dict(small().build(seed=2).state_dict())
    assert relative_error(baked(values, 2), expected[2]) < 1e-5


@pytest.mark.parametrize("own", [False, True], ids=["points", "queries"])
def test_it_keeps_its_mesh_whatever_happens_to_the_tensors(own):
    model = small().build()
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    queries = torch.rand(7, 2) if own else None
    with torch.no_grad():
        expected = model(values, points, 2, queries=queries)
    baked = model.bake(points, queries)
    points.add_(0.3).remainder_(1)
    if queries is not None:
        queries.add_(0.3).remainder_(1)
    assert relative_error(baked(values, 2), expected) < 1e-5


def test_a_gradient_is_refused_rather_than_missing():
    baked = small().build().bake(torch.rand(20, 2))
    with pytest.raises(ValueError, match="values: expected plain numbers, since a baked model knows no derivatives"):
        baked(torch.randn(1, 20, 2, requires_grad=True), 1)
    with pytest.raises(ValueError, match="traced or transformed"):
        torch.func.vmap(lambda values: baked(values, 1))(torch.randn(3, 1, 20, 2))


def test_wrong_values_are_named():
    baked = small().build().bake(torch.rand(20, 2))
    with pytest.raises(ValueError, match="values: expected one row for each of the 20 points"):
        baked(torch.randn(1, 19, 2), 1)
    with pytest.raises(ValueError, match="num_steps: expected either"):
        baked(torch.randn(1, 20, 2))


def test_baked_in_mixed_precision():
    model = CalmConfig.preset("navier_stokes_2d").build()
    axis = torch.arange(32) / 32
    points, values = torch.cartesian_prod(axis, axis), torch.randn(2, 1024, 1)
    baked = model.bake(points)
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        plain, fast = model(values, points, 3), baked(values, 3)
    assert fast.dtype == torch.float32
    assert relative_error(fast, plain) < 3e-2
