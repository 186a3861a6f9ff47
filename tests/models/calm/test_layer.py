"""The CALM layer against the oracle, its gradients, and its construction."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

import calm_pde as cp
from tests import oracle
from tests.clouds import grid, random_cloud, relative_error

SWITCHES = {
    "plain": {},
    "fixed queries": {"learnable_queries": False},
    "mesh prior": {"mesh": random_cloud(9, 1).expand(9, 3)},
    "no modulation": {"modulation": False},
    "1/M weighting": {"weighting": "mean"},
    "no weighting": {"weighting": "none"},
    "distance kernel": {"kernel": "distance", "temperature": 0.7},
    "low temperature": {"temperature": 0.1},
    "in radii": {"displacements": "relative", "fourier_std": 1.0},
    "other widths": {"kernel_width": 5, "fourier_width": 8, "fourier_std": 2.0},
}
PERIODIC = {"open": lambda axis: False, "periodic": lambda axis: True, "mixed": lambda axis: axis == 0}


def build(dim: int, periodic: tuple[bool, ...], external: bool, **switches) -> cp.CalmLayer:
    options = {"temperature": 1.0} | switches
    if "mesh" in options:
        options["mesh"] = options["mesh"][:, :dim]
    return cp.CalmLayer(
        in_channels=3,
        out_channels=2,
        dim=dim,
        periodic=periodic,
        num_queries=None if external else 5,
        receptive_field=0.3,
        generator=torch.Generator().manual_seed(1),
        **options,
    )


def perturb(layer: torch.nn.Module) -> None:
    """Move every parameter, so that zeros at the start (bias, shift) do not hide a mistake."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("external", [False, True], ids=["learned", "external"])
@pytest.mark.parametrize("own_meshes", [False, True], ids=["shared", "own-meshes"])
@pytest.mark.parametrize("axes", PERIODIC)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_layer_equals_the_oracle(dim, axes, own_meshes, external, switch, dtype):
    periodic = tuple(PERIODIC[axes](axis) for axis in range(dim))
    layer = build(dim, periodic, external, **SWITCHES[switch])
    perturb(layer)
    layer.to(dtype)
    batch, num_points = 2, 13
    points = torch.stack([random_cloud(num_points, dim, seed) for seed in range(batch)]).to(dtype)
    points = points if own_meshes else points[0]
    x = random_cloud(batch * num_points, 3, seed=7).view(batch, num_points, 3).to(dtype) - 0.5
    mask = torch.ones(batch, num_points, dtype=torch.bool)
    if own_meshes:
        mask[0, [1, 8]] = False
        mask[1, 9:] = False
    queries = random_cloud(6, dim, seed=3).to(dtype) if external else None
    queries = torch.stack([queries, queries.flip(0)]) if queries is not None and own_meshes else queries

    y, q = layer(x, points, queries=queries, mask=mask if own_meshes else None)

    for sample in range(batch):
        where = q[sample] if q.ndim == 3 else q
        expected = oracle.layer(
            oracle.weights_of(layer),
            x[sample].double().numpy(),
            (points[sample] if own_meshes else points).double().numpy(),
            where.detach().double().numpy(),
            percentile=0.3,
            temperature=SWITCHES[switch].get("temperature", 1.0),
            periodic=periodic,
            real=mask[sample].nonzero().flatten().tolist(),
            weighting=SWITCHES[switch].get("weighting", "softmax"),
            external=external,
            displacements=SWITCHES[switch].get("displacements", "absolute"),
        )
        error = relative_error(y[sample].detach(), torch.from_numpy(expected))
        assert error < (1e-12 if dtype == torch.float64 else 1e-5), error


def test_layer_equals_the_oracle_where_neighbors_tie():
    layer = build(2, (True, True), external=True).double()
    points, queries = grid(6, 2), grid(12, 2)[::7]
    x = random_cloud(36, 3, seed=5)
    y, _ = layer(x, points, queries=queries)
    expected = oracle.layer(
        oracle.weights_of(layer),
        x.numpy(),
        points.numpy(),
        queries.numpy(),
        percentile=0.3,
        temperature=1.0,
        periodic=(True, True),
        external=True,
    )
    assert relative_error(y.detach(), torch.from_numpy(expected)) < 1e-12


@pytest.mark.parametrize(
    ("lead", "own_meshes"), [((), False), ((3,), False), ((2, 3), False), ((3,), True), ((2, 3), True), ((2, 2, 2), True)]
)
def test_leading_axes_are_rows_of_their_sample(lead, own_meshes):
    layer = build(2, (True, False), external=False).double()
    points = random_cloud(17, 2)
    if own_meshes:
        points = torch.stack([random_cloud(17, 2, seed) for seed in range(lead[0])])
    x = random_cloud(int(np.prod(lead)) * 17, 3, seed=4).view(*lead, 17, 3)
    y, q = layer(x, points)
    assert y.shape == (*lead, 5, 2)
    assert q.shape == (5, 2)
    for place in itertools.product(*map(range, lead)):
        alone, _ = layer(x[place], points[place[0]] if own_meshes else points)
        assert relative_error(y[place], alone) < 1e-12


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a direction", "every entry"])
@pytest.mark.parametrize("switch", ["plain", "distance kernel", "1/M weighting"])
@pytest.mark.parametrize("external", [False, True], ids=["learned", "external"])
def test_gradients(external, switch, whole):
    """With respect to features, points, queries, modulation and all kernel weights, at neighbors that stay the same."""
    layer = build(2, (True, False), external, **SWITCHES[switch]).double()
    perturb(layer)
    points = random_cloud(12, 2, seed=11)
    queries = random_cloud(4, 2, seed=12) if external else None
    neighbors = layer.neighbors(points, queries)
    names = [name for name, _ in layer.named_parameters()]
    x = random_cloud(2 * 12, 3, seed=13).view(2, 12, 3)

    def output(x, points, queries, *parameters):
        arguments = (x, points, queries if external else None, None, neighbors)
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), arguments)[0]

    dummy = queries if queries is not None else torch.zeros(1, dtype=torch.float64)
    inputs = [x, points, dummy, *(parameter.detach() for parameter in layer.parameters())]
    assert {"mix.weight", "bias"} <= set(names)
    assert torch.autograd.gradcheck(output, [value.clone().requires_grad_() for value in inputs], fast_mode=not whole)


def test_every_parameter_gets_a_gradient():
    layer = build(2, (True, True), external=False)
    y, _ = layer(torch.rand(2, 30, 3), torch.rand(30, 2))
    y.square().sum().backward()
    assert {name for name, value in layer.named_parameters() if value.grad is None or not value.grad.any()} == set()


def test_queries_start_uniform_or_on_the_mesh():
    def start(**options):
        layer = cp.CalmLayer(
            1, 1, 2, num_queries=40, receptive_field=0.1, generator=torch.Generator().manual_seed(0), **options
        )
        assert layer.queries is not None
        return layer.queries.detach()

    uniform = start()
    assert float(uniform.min()) >= 0
    assert float(uniform.max()) < 1
    assert 0.3 < float(uniform.mean()) < 0.7
    mesh = torch.rand(50, 2)
    chosen = start(mesh=mesh)
    assert len(torch.unique(chosen, dim=0)) == 40  # without repetition while the mesh lasts
    assert all((mesh == row).all(dim=1).any() for row in chosen)
    few = start(mesh=mesh[:15])
    assert torch.unique(few, dim=0).shape == (15, 2)
    assert torch.equal(start(mesh=mesh), chosen)


def test_construction_leaves_the_global_random_state_alone():
    before = torch.get_rng_state()
    first = build(2, (True, True), external=False).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    second = build(2, (True, True), external=False).state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


@torch.no_grad()
def test_starting_values_follow_the_paper():
    layer = cp.CalmLayer(48, 32, 2, num_queries=2000, receptive_field=0.1, generator=torch.Generator().manual_seed(3))
    kernel = layer.kernel
    assert isinstance(kernel.filters, torch.Tensor)
    base, residual = kernel.filters[-1], kernel.filters[:-1]
    for values, bound in ((base, (3 / 48) ** 0.5), (residual, 32**-0.5), (layer.mix.weight, 48**-0.5)):
        largest = float(values.detach().abs().max())
        assert bound * 0.99 < largest <= bound
        assert float(values.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.05)
    assert float(kernel.scale.detach().min()) >= 0
    assert float(kernel.scale.detach().mean()) == pytest.approx(0.5, abs=0.01)
    assert not kernel.shift.any()
    assert not layer.bias.any()
    assert not kernel.fourier.frequencies.requires_grad
    wide = cp.CalmLayer(
        1, 1, 3, num_queries=1, receptive_field=0.1, fourier_width=20000, generator=torch.Generator().manual_seed(3)
    )
    assert float(wide.kernel.fourier.frequencies.std()) == pytest.approx(6.0, rel=0.02)


def test_one_channel_is_never_hidden_at_the_start():
    factors = {
        float(
            cp.CalmLayer(
                1, 4, 2, num_queries=3, receptive_field=0.5, generator=torch.Generator().manual_seed(seed)
            ).mix.weight.detach()
        )
        for seed in range(20)
    }
    assert factors == {-1.0, 1.0}


def test_dropout_acts_in_training_only():
    layer = cp.CalmLayer(1, 8, 1, num_queries=4, receptive_field=0.5, dropout=0.5)
    x, points = torch.rand(10, 1), torch.rand(10, 1)
    assert not torch.equal(layer(x, points)[0], layer(x, points)[0])
    layer.eval()
    assert torch.equal(layer(x, points)[0], layer(x, points)[0])


def test_queries_are_streamed_where_no_gradient_is_asked(monkeypatch):
    layer = cp.CalmLayer(3, 2, 2, num_queries=None, receptive_field=0.2).double()
    x, points, queries = random_cloud(2 * 40, 3).view(2, 40, 3), random_cloud(40, 2), random_cloud(100, 2, seed=1)
    whole, _ = layer(x, points, queries)
    monkeypatch.setattr(layer, "_streamed_queries", lambda *arguments: 7)
    with torch.no_grad():
        streamed, _ = layer(x, points, queries)
    assert relative_error(streamed, whole) < 1e-12


def test_float16_weights_are_refused_by_name():
    layer = build(2, (False, False), False).half()
    told = r"weights: expected float32, float64 or bfloat16 in a CalmLayer, got float16, in which .*\.float\(\)"
    with pytest.raises(ValueError, match=told):
        layer(torch.rand(1, 20, 3).half(), torch.rand(20, 2).half())
