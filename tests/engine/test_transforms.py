"""torch.func's transforms and dual numbers: the same numbers as ordinary gradients, or a refusal by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.functional import hessian as ordinary_hessian
from torch.autograd.functional import jacobian as ordinary_jacobian

import calm_pde as cp
from calm_pde.engine import receptive_fields
from calm_pde.engine.receptive_fields import FIELDS, TREES
from tests.clouds import random_cloud, relative_error
from tests.engine.derivatives import (
    POINTS,
    VALUES,
    Function,
    differences,
    directions,
    gradients,
    jit_deprecated,
    small_layer,
    small_model,
    stirred,
    worst,
)

pytestmark = jit_deprecated

CLOUD, FEATURES = random_cloud(40, 2), random_cloud(80, 2, seed=3).view(2, 40, 2) - 0.5


@pytest.fixture(autouse=True)
def _nothing_known() -> Iterator[None]:
    """No tree and no list is found again from another test."""
    for cache in (TREES, FIELDS):
        cache.entries.clear()
    yield
    for _, kept in FIELDS.entries.values():
        assert not any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in kept)


@pytest.fixture
def trees(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many points the trees have that were asked for."""
    asked: list[int] = []
    plain = receptive_fields.tree_of

    def counted(points: Tensor, periodic: tuple[bool, ...]):
        asked.append(len(points))
        return plain(points, periodic)

    monkeypatch.setattr(receptive_fields, "tree_of", counted)
    return asked


def layer_on(points: int, **options) -> cp.CalmLayer:
    """A layer whose receptive field is small enough for the tree, or so large that all distances are looked at."""
    layer = small_layer(receptive_field=0.2 if points == 40 else 0.4, num_queries=5, **options)
    stirred(layer)
    return layer


def functions(layer: cp.CalmLayer, by: str) -> tuple[Function, Tensor]:
    """The layer's answer as a function of one thing alone, and where it is taken."""
    if by == "features":
        return lambda x: layer(x, CLOUD)[0], FEATURES
    if by == "points":
        return lambda points: layer(FEATURES, points)[0], CLOUD
    weights = dict(layer.named_parameters())
    return (
        lambda value: torch.func.functional_call(layer, weights | {by: value}, (FEATURES, CLOUD))[0],
        weights[by].detach().clone(),
    )


def modes(layer: cp.CalmLayer, mode: str) -> AbstractContextManager:
    if mode == "frozen":
        layer.requires_grad_(False)
    return torch.no_grad() if mode == "no_grad" else nullcontext()


every_mode = pytest.mark.parametrize("mode", ["learning", "no_grad", "frozen"])
by_everything = pytest.mark.parametrize("by", ["features", "points", "queries", "kernel.filters"])


@every_mode
@by_everything
def test_jacobians_where_a_tree_finds_the_neighbors(by, mode, trees):
    layer = layer_on(40)
    f, at = functions(layer, by)
    expected = ordinary_jacobian(f, at)
    assert float(expected.abs().max()) > 1e-3
    way, ahead = torch.randn_like(at), torch.randn_like(f(at))
    leading = (*range(expected.ndim - at.ndim),)
    along = torch.tensordot(expected, way, dims=at.ndim)
    back = torch.tensordot(ahead, expected, dims=(leading, leading))
    for cache in (TREES, FIELDS):
        cache.entries.clear()
    trees.clear()
    with modes(layer, mode):
        assert relative_error(torch.func.jacrev(f)(at), expected) < 1e-10
        assert relative_error(torch.func.jacfwd(f)(at), expected) < 1e-10
        answer, slope = torch.func.jvp(f, (at,), (way,))
        assert relative_error(answer, f(at)) < 1e-12
        assert relative_error(slope, along) < 1e-10
        answer, pull = torch.func.vjp(f, at)
        assert relative_error(answer, f(at)) < 1e-12
        assert relative_error(pull(ahead)[0], back) < 1e-10
        assert relative_error(torch.func.grad(lambda value: (f(value) * ahead).sum())(at), back) < 1e-10
        with forward_ad.dual_level():
            dual = forward_ad.unpack_dual(f(forward_ad.make_dual(at, way)))
        assert relative_error(dual.tangent, along) < 1e-10
    assert 40 in trees


@every_mode
@by_everything
def test_hessians_where_a_tree_finds_the_neighbors(by, mode, trees):
    layer = layer_on(40)
    f, at = functions(layer, by)

    def number(value: Tensor) -> Tensor:
        return f(value).square().sum()

    expected = ordinary_hessian(number, at)
    with modes(layer, mode):
        assert relative_error(torch.func.hessian(number)(at), expected) < 1e-10
        assert relative_error(torch.func.jacrev(torch.func.grad(number))(at), expected) < 1e-10
    (way,) = directions([at])
    found = [torch.tensordot(expected, way, dims=at.ndim)]
    assert worst(found, differences(lambda value: gradients(number, value), [at], [way])) < 1e-5
    assert 40 in trees


@every_mode
@pytest.mark.parametrize("points", [12, 40], ids=["all distances", "tree"])
def test_vmap_over_features_and_gradients(points, mode, trees):
    layer = layer_on(points)
    cloud, many = CLOUD[:points], torch.stack([FEATURES[:, :points], 2 * FEATURES[:, :points]])

    def number(x: Tensor) -> Tensor:
        return layer(x, cloud)[0].square().sum()

    expected = torch.stack([gradients(number, [x])[0] for x in many])
    with modes(layer, mode):
        both = torch.func.vmap(lambda x: layer(x, cloud)[0])(many)
        assert relative_error(both, torch.stack([layer(x, cloud)[0] for x in many])) < 1e-12
        assert relative_error(torch.func.vmap(torch.func.grad(number))(many), expected) < 1e-10
        neighbors = layer.neighbors(cloud)
        found = torch.func.vmap(torch.func.grad(lambda x: layer(x, cloud, neighbors=neighbors)[0].square().sum()))(many)
        assert relative_error(found, expected) < 1e-10
    assert (40 in trees) == (points == 40)


@every_mode
def test_masks_and_clouds_of_their_own(mode, trees):
    layer = layer_on(40)
    points = torch.stack([CLOUD, random_cloud(40, 2, seed=8)])
    mask = torch.arange(40) < torch.tensor([[40], [33]])

    def number(x: Tensor, points: Tensor, mask: Tensor = mask) -> Tensor:
        return layer(x, points, mask=mask)[0].square().sum()

    expected = gradients(number, [FEATURES, points])
    with modes(layer, mode):
        found = torch.func.grad(number, argnums=(0, 1))(FEATURES, points, mask)  # the mask is wrapped as well
        assert worst(found, expected) < 1e-10
        ways = directions([FEATURES, points])
        slope = torch.func.jvp(number, (FEATURES, points), tuple(ways))[1]
    assert float(slope.detach()) == pytest.approx(sum(float((a * b).sum()) for a, b in zip(expected, ways, strict=True)))
    assert {33, 40} <= set(trees)


@every_mode
@pytest.mark.parametrize("by", ["values", "points"])
def test_the_model_where_trees_find_the_neighbors(by, mode, trees):
    model = small_model("heun", periodic=(True, False))
    stirred(model)
    values, queries = random_cloud(80, 1, seed=3).view(2, 40, 1), random_cloud(6, 2, seed=4)
    model.encoder[0].receptive_field = 0.2

    def output(given: Tensor) -> Tensor:
        state, points = (given, CLOUD) if by == "values" else (values, given)
        return model(state, points, queries=queries, times=[0.5, 2.0])

    at = values if by == "values" else CLOUD
    expected, (way,) = ordinary_jacobian(output, at), directions([at])
    if mode == "frozen":
        model.requires_grad_(False)
    with torch.no_grad() if mode == "no_grad" else nullcontext():
        assert relative_error(torch.func.jacrev(output)(at), expected) < 1e-10
        slope = torch.func.jvp(output, (at,), (way,))[1]
        assert relative_error(slope, torch.tensordot(expected, way, dims=at.ndim)) < 1e-10
    assert 40 in trees


def test_the_preset_on_a_mesh_of_its_size(trees):
    """1,024 points, single precision; what the transforms leave in the caches serves a training step."""
    model = cp.CalmConfig.preset("navier_stokes_2d").build()
    points, values = random_cloud(1024, 2).float(), random_cloud(1024, 1, seed=1)[None].float()

    def number(values: Tensor) -> Tensor:
        return model(values, points, 1).square().sum()

    found = torch.func.grad(number)(values)
    (way,) = directions([values])
    with torch.no_grad():
        slope = torch.func.jvp(number, (values,), (way,))[1]
    leaf = values.clone().requires_grad_()
    number(leaf).backward()
    assert leaf.grad is not None
    assert relative_error(found, leaf.grad) < 1e-4
    assert float(slope.detach()) == pytest.approx(float((leaf.grad * way).sum()), rel=1e-3)
    assert 1024 in trees


def test_an_ordinary_step_after_transforms_is_the_same_to_the_bit():
    def step(layer: cp.CalmLayer) -> list[Tensor]:
        return list(torch.autograd.grad(layer(FEATURES, CLOUD)[0].square().sum(), list(layer.parameters())))

    expected, layer = step(layer_on(40)), layer_on(40)
    f, at = functions(layer, "points")
    torch.func.jacfwd(f)(at)
    torch.func.vmap(lambda x: layer(x, CLOUD)[0])(torch.stack([FEATURES, FEATURES]))
    assert all(torch.equal(a, b) for a, b in zip(step(layer), expected, strict=True))


@pytest.mark.parametrize("transform", [torch.func.jacrev, torch.func.jacfwd], ids=["jacrev", "jacfwd"])
@pytest.mark.parametrize("by", ["values", "points"])
def test_jacobians_of_the_model(transform, by):
    model, queries = small_model(), torch.full((3, 2), 0.3, dtype=torch.float64)

    def output(given: Tensor) -> Tensor:
        values, points = (given, POINTS) if by == "values" else (VALUES, given)
        return model(values, points, 2, queries=queries)

    given = VALUES if by == "values" else POINTS
    expected = ordinary_jacobian(output, given)
    assert float(expected.abs().max()) > 1e-6
    assert relative_error(transform(output)(given), expected) < 1e-10


def test_directional_derivatives_vmap_and_dual_numbers_of_the_model():
    model, direction = small_model(), torch.linspace(-1, 1, VALUES.numel(), dtype=torch.float64).view_as(VALUES)

    def output(values: Tensor) -> Tensor:
        return model(values, POINTS, 2)

    expected = torch.einsum("btqcspd,spd->btqc", ordinary_jacobian(output, VALUES), direction)
    assert relative_error(torch.func.jvp(output, (VALUES,), (direction,))[1], expected) < 1e-10
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(output(forward_ad.make_dual(VALUES, direction))).tangent
    assert relative_error(tangent, expected) < 1e-10
    both = torch.func.vmap(output)(torch.stack([VALUES, 2 * VALUES]))
    assert relative_error(both, torch.stack([output(VALUES), output(2 * VALUES)])) < 1e-10


@pytest.mark.parametrize("integrator", ["euler", "rk4"])
def test_a_backward_over_many_gradients_at_once(integrator):
    """PyTorch's vectorized Jacobian and Hessian run a backward that was recorded in the ordinary way under a vmap."""
    model = small_model(integrator)

    def output(values: Tensor) -> Tensor:
        return model(values, POINTS, 2)

    expected = ordinary_jacobian(output, VALUES)
    found = ordinary_jacobian(output, VALUES, vectorize=True)
    assert relative_error(found, expected) < 1e-10
    assert not found.requires_grad
    leaf = VALUES.clone().requires_grad_()
    answer = output(leaf)
    one_each = torch.eye(answer.numel(), dtype=answer.dtype).view(-1, *answer.shape)
    rows = torch.func.vmap(lambda grad: torch.autograd.grad(answer, leaf, grad, retain_graph=True)[0])(one_each)
    assert relative_error(rows, expected.flatten(0, answer.ndim - 1)) < 1e-10

    def number(values: Tensor) -> Tensor:
        return output(values).square().sum()

    curved = ordinary_hessian(number, VALUES)
    assert relative_error(ordinary_hessian(number, VALUES, vectorize=True), curved) < 1e-10


def test_what_moves_the_neighbors_is_refused_under_vmap_unless_they_are_given():
    model, layer = small_model(), layer_on(40)
    clouds = torch.stack([POINTS, POINTS + 1e-9])
    vmap = torch.func.vmap
    advice = r"that torch\.func\.vmap runs over.*give the clouds as \(batch, point, dim\).*or pass neighbors"
    with pytest.raises(ValueError, match=f"points: expected points of one cloud, .*{advice}"):
        vmap(lambda points: model(VALUES, points, 2))(clouds)
    with pytest.raises(ValueError, match=f"points: expected points of one cloud, .*{advice}"):
        vmap(model.neighbors)(clouds)
    with pytest.raises(ValueError, match=f"queries: expected queries of one cloud, .*{advice}"):
        vmap(lambda queries: model(VALUES, POINTS, 2, queries=queries))(clouds)
    f, at = functions(layer, "queries")
    with pytest.raises(ValueError, match=f"queries: expected queries of one cloud, .*{advice}"):
        vmap(f)(torch.stack([at, at + 0.1]))
    masks = torch.arange(12) < torch.tensor([[[12], [9]], [[11], [12]]])
    with pytest.raises(ValueError, match=f"mask: expected mask of one cloud, .*{advice}"):
        vmap(lambda mask: model(VALUES, POINTS, 2, mask=mask))(masks)
    neighbors = model.neighbors(POINTS)
    found = vmap(lambda points: model(VALUES, points, 2, neighbors=neighbors))(clouds)
    assert relative_error(found, torch.stack([model(VALUES, points, 2, neighbors=neighbors) for points in clouds])) < 1e-12
