"""CALM-PDE as a whole: counts, oracle, gradients, invariances, time, variants, determinism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import calm_pde as cp
from calm_pde.models import MODELS
from calm_pde.models.calm.processor.processor import Processor
from tests import oracle
from tests.clouds import grid, random_cloud, relative_error

COUNTS = {
    "burgers_1d": 568_331,
    "navier_stokes_2d": 2_230_883,
    "compressible_3d": 8_367_267,
    "airfoil_2d": 2_237_240,
    "cylinder_2d": 2_239_403,
    "steady_airfoil": 4_324_615,
    "elasticity": 4_293_415,
}


def count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def small(**changes: Any) -> cp.CalmConfig:
    return cp.CalmConfig.model_validate(
        {
            "dim": 2,
            "in_channels": 2,
            "out_channels": 3,
            "periodic": (True, False),
            "encoder": {
                "channels": (4, 6),
                "num_queries": (9, 4),
                "receptive_field": (0.2, 0.5),
                "temperature": (1.0, 0.1),
            },
            "decoder": {"channels": (5,), "num_queries": (8,), "receptive_field": (0.5, 0.3), "temperature": (0.1, 1.0)},
            "processor": {"heads": 2, "fourier_width": 6},
            "kernel_width": 7,
            "fourier_width": 8,
            "fourier_std": 2.0,
        }
        | changes
    )


def perturbed(model: cp.CalmPDE) -> cp.CalmPDE:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


@pytest.mark.parametrize("name", COUNTS)
def test_parameter_counts_of_the_presets(name):
    assert count(cp.CalmConfig.preset(name).build()) == COUNTS[name]


@pytest.mark.parametrize(("name", "expected"), [("steady_airfoil", 2_939_975), ("elasticity", 2_924_135)])
def test_steady_counts_at_kernel_width_32(name, expected):
    assert count(cp.CalmConfig.preset(name, kernel_width=32, fourier_width=32).build()) == expected


def test_parameter_counts_per_module():
    model = cp.CalmConfig.preset("navier_stokes_2d").build()
    assert [count(layer) for layer in model.encoder] == [78_082, 119_744, 408_448]
    assert model.processor is not None
    assert count(model.processor) == 1_134_720
    assert [count(layer) for layer in model.decoder] == [337_952, 148_768, 3_169]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("periodic", [(False, False), (True, True), (True, False)])
def test_processor_equals_the_oracle(periodic, dtype):
    generator = torch.Generator().manual_seed(0)
    processor = Processor(
        6, 2, periodic, width=12, heads=3, blocks=2, fourier_width=8, fourier_std=6.0, generator=generator
    ).to(dtype)
    with torch.no_grad():
        for parameter in processor.parameters():  # the affine maps of the norms start at 1 and 0
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float32).to(dtype)
    z, p = random_cloud(2 * 5, 6).view(2, 5, 6).to(dtype), random_cloud(5, 2, seed=1).to(dtype)
    rate = processor(z, p)
    w = oracle.weights_of(processor)
    for sample in range(2):
        expected = oracle.processor(w, z[sample].double().numpy(), p.double().numpy(), heads=3, blocks=2, periodic=periodic)
        assert relative_error(rate[sample], torch.from_numpy(expected)) < (1e-12 if dtype == torch.float64 else 1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("own_meshes", [False, True])
@pytest.mark.parametrize("node_types", [(), (0, 4, 6)])
@pytest.mark.parametrize("told", [{}, {"parameters": 2, "signals": 1, "features": 1, "conditioned_kernels": True}], ids=len)
def test_whole_model_equals_the_oracle(told, own_meshes, node_types, dtype):
    """Told conditions: features beside the state, parameters in kernels and ψ, and there signals at both ends of a frame."""
    config = small(node_types=node_types, **told)
    model = perturbed(config.build(seed=3)).to(dtype)
    conditions = {
        "parameters": random_cloud(2, 2, seed=5).to(dtype) - 0.5,
        "signals": random_cloud(6, 1, seed=6).view(2, 3, 1).to(dtype) - 0.5,
        "features": random_cloud(40, 1, seed=7).view(2, 20, 1).to(dtype) - 0.5,
    }
    conditions = {name: value for name, value in conditions.items() if name in told}
    points = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)]).to(dtype)
    points = points if own_meshes else points[0]
    values = (random_cloud(40, 2, seed=3).view(2, 20, 2) - 0.5).to(dtype)
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    queries = random_cloud(6, 2, seed=4).to(dtype)
    kinds = torch.tensor(node_types)[torch.arange(20) % len(node_types)] if node_types else None
    u = model(values, points, 2, queries, mask if own_meshes else None, kinds, **conditions)
    assert u.shape == (2, 2, 6, 3)

    w = oracle.weights_of(model)

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): value for name, value in w.items() if name.startswith(prefix)}

    for sample in range(2):
        x = values[sample].double().numpy()
        known = {name: value[sample].double().numpy() for name, value in conditions.items()}
        if told:
            x = np.concatenate([x, known["features"]], axis=1)
        if node_types:
            x = np.concatenate([x, [w["node_types.weight"][i % 3] for i in range(20)]], axis=1)
        where = (points[sample] if own_meshes else points).double().numpy()
        real = mask[sample].nonzero().flatten().tolist() if own_meshes else None
        settings = zip(config.encoder.receptive_field, config.encoder.temperature, strict=True)
        for depth, (percentile, temperature) in enumerate(settings):
            v = part(f"encoder.{depth}.")
            options: dict[str, Any] = {"percentile": percentile, "temperature": temperature, "periodic": (True, False)}
            options["parameters"] = known.get("parameters")
            x = oracle.layer(v, x, where, v["queries"], real=real, **options)
            where, real = v["queries"], None
        z = x
        for step in range(2):
            psi, changes = part("processor."), None
            if told:
                seen = np.concatenate([known["parameters"], known["signals"][step], known["signals"][step + 1]])
                changes = oracle.modulation(psi, seen, blocks=2)
            z = z + oracle.processor(psi, z, where, heads=2, blocks=2, periodic=(True, False), changes=changes)
            hidden = part("decoder.0.")
            options = {"percentile": 0.5, "temperature": 0.1, "periodic": (True, False)}
            options["parameters"] = known.get("parameters")
            between = oracle.layer(hidden, z, where, hidden["queries"], **options)
            options = {"percentile": 0.3, "temperature": 1.0, "periodic": (True, False)}
            field = oracle.layer(
                part("decoder.1."), between, hidden["queries"], queries.double().numpy(), external=True, **options
            )
            error = relative_error(u[sample, step], torch.from_numpy(field))
            assert error < (1e-12 if dtype == torch.float64 else 1e-5), error


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_one_path_for_all_dimensions_with_gradient_to_every_parameter(dim):
    model = small(dim=dim, periodic=True).build()
    points = torch.rand(25, dim)
    u = model(torch.randn(2, 25, 2), points, 3)
    assert u.shape == (2, 3, 25, 3)
    u.square().sum().backward()
    # a shift of all keys moves every logit of a query alike, so softmax gives it no gradient beyond rounding
    learned = {name: value.grad for name, value in model.named_parameters() if not name.endswith("norm_key.bias")}
    assert {name: grad for name, grad in learned.items() if grad is None or float(grad.abs().max()) < 1e-6} == {}


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a direction", "every entry"])
def test_gradients_of_the_whole_model(whole):
    narrow = {"channels": (2,), "num_queries": (3,), "receptive_field": (0.5,), "temperature": (1.0,)}
    model = perturbed(small(encoder=narrow, kernel_width=3, fourier_width=4).build()).double()
    points, queries = random_cloud(6, 2), random_cloud(3, 2, seed=1)
    neighbors = model.neighbors(points, queries)
    names = [name for name, _ in model.named_parameters() if name.endswith(("queries", "scale", "filters", "to_qkv.weight"))]
    parameters = dict(model.named_parameters())

    def output(values, *moved):
        keywords = {"neighbors": neighbors}
        return torch.func.functional_call(model, dict(zip(names, moved, strict=True)), (values, points, 1, queries), keywords)

    inputs = [random_cloud(6, 2, seed=2)[None], *(parameters[name].detach() for name in names)]
    assert torch.autograd.gradcheck(output, [value.clone().requires_grad_() for value in inputs], fast_mode=not whole)


@given(seed=st.integers(0, 2**31), ties=st.booleans())
def test_invariances_of_the_whole_model(seed, ties):
    """Order of points, padding of any content, batch mates, other queries."""
    model = small().build(seed=seed % 1000).double()
    points = grid(6, 2) if ties else random_cloud(36, 2, seed)
    values = random_cloud(36, 2, seed + 1)[None]
    queries = torch.cat([points[:5], random_cloud(5, 2, seed + 2)])
    reference = model(values, points, 2, queries)
    order = torch.randperm(36, generator=torch.Generator().manual_seed(seed))
    assert relative_error(model(values[:, order], points[order], 2, queries), reference) < 1e-12
    assert relative_error(model(values, points, 2, queries[3:]), reference[:, :, 3:]) < 1e-12

    nothing = torch.full((1, 4, 2), float("nan"), dtype=torch.float64)
    mate = random_cloud(40, 2, seed + 3)[None]
    mask = torch.arange(40) < torch.tensor([[36], [40]])
    both = model(
        torch.cat([torch.cat([values, nothing], dim=1), mate]),
        torch.cat([torch.cat([points[None], nothing], dim=1), mate]),
        2,
        queries,
        mask,
    )
    assert relative_error(both[:1], reference) < 1e-12


def test_masked_points_are_answered_with_zero():
    model = small().build()
    points, values = torch.rand(2, 15, 2), torch.randn(2, 15, 2)
    mask = torch.arange(15) < torch.tensor([[15], [6]])
    points[~mask], values[~mask] = float("nan"), float("inf")
    u = model(values, points, 2, mask=mask)
    assert bool((u[~mask[:, None].expand(2, 2, 15)] == 0).all())
    assert bool(u.isfinite().all())
    alone = model(values[1:, :6], points[1:, :6], 2)
    assert relative_error(u[1:, :, :6], alone) < 1e-5


def test_shared_points_with_a_mask_per_sample():
    model = small().build().double()
    points, values = random_cloud(20, 2), random_cloud(40, 2, seed=1).view(2, 20, 2)
    mask = torch.arange(20) < torch.tensor([[20], [12]])
    u = model(values, points, 1, mask=mask)
    assert relative_error(u[0], model(values[:1], points, 1)[0]) < 1e-12
    assert relative_error(u[1, :, :12], model(values[1:, :12], points[:12], 1)[0]) < 1e-12


def test_given_neighbors_change_nothing():
    model = small().build()
    points, values, queries = torch.rand(2, 20, 2), torch.randn(2, 20, 2), torch.rand(2, 7, 2)
    mask = torch.arange(20) < torch.tensor([[20], [12]])
    found = model.neighbors(points, queries, mask)
    assert torch.equal(model(values, points, 2, queries, mask, neighbors=found), model(values, points, 2, queries, mask))
    default = model.neighbors(points, mask=mask)
    assert torch.equal(model(values, points, 2, mask=mask, neighbors=default), model(values, points, 2, mask=mask))


def test_stages_make_the_whole():
    model = small(integrator="heun", substeps=2).build()
    points, values, queries = torch.rand(20, 2), torch.randn(2, 20, 2), torch.rand(7, 2)
    z, p = model.encode(values, points)
    zs = model.advance(z, p, 3)
    assert zs.shape == (2, 4, 4, 6)
    assert torch.equal(zs[:, 0], z)
    assert relative_error(model.decode(zs, p, queries)[:, 1:], model(values, points, 3, queries)) < 1e-5
    between = model.advance(z, p, times=[0.75, 2.0])
    assert torch.equal(between[:, 2], zs[:, 2])
    between = model(values, points, queries=queries, times=[0.75, 2.0])
    assert relative_error(between[:, 1], model(values, points, 2, queries)[:, 1]) < 1e-5


@pytest.mark.parametrize(("integrator", "order"), [("euler", 1), ("heun", 2), ("rk4", 4)])
def test_order_of_the_model_in_substeps(integrator, order):
    """The latent ODE of an untrained processor, against a fine rk4."""
    start, errors = None, []
    exact = None
    for method, substeps in (("rk4", 256), (integrator, 16), (integrator, 32)):
        model = small(integrator=method, substeps=substeps).build(seed=1).double()
        if start is None:
            start = model.encode(random_cloud(20, 2)[None], random_cloud(20, 2, seed=1))
        final = model.advance(*start, 1)[:, -1]
        if exact is None:
            exact = final
        else:
            errors.append(float((final - exact).detach().norm()))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


def test_autoencoder_has_no_processor():
    model = small(task="autoencoder").build()
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    assert model.processor is None
    z, p = model.encode(values, points)
    assert torch.equal(model(values, points), model.decode(z[:, None], p, points))
    with pytest.raises(ValueError, match="num_steps: expected 0"):
        model(values, points, 3)
    with pytest.raises(ValueError, match="no processor"):
        model.advance(z, p, 1)


def test_steady_takes_one_residual_step():
    steady, rollout = small(task="steady").build(), small().build()
    points = torch.rand(20, 2)
    u = steady(points[None], points)
    assert u.shape == (1, 1, 20, 3)
    assert torch.equal(u, rollout(points[None], points, 1))
    assert torch.equal(u, steady(points[None], points, 1))
    with pytest.raises(ValueError, match="num_steps: expected 1"):
        steady(points[None], points, 2)


def test_same_seed_same_model_and_no_global_state():
    before = torch.get_rng_state()
    first, again, other = (small(node_types=(0, 4)).build(seed=seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["encoder.0.queries"], other["encoder.0.queries"])


def test_mesh_prior_of_the_airfoil_preset():
    config = cp.CalmConfig.preset("airfoil_2d")
    meshes = [np.random.default_rng(seed).uniform(0.4, 0.6, (700, 2)) for seed in (0, 1)]
    model = config.build(mesh=meshes)
    union = torch.from_numpy(np.concatenate(meshes)).float()
    for layer, on_mesh in zip([*model.encoder, *model.decoder[:-1]], (True, False, False, False, True), strict=True):
        member = (layer.queries.detach()[:, None] == union).all(dim=-1).any(dim=-1)
        assert bool(member.all() if on_mesh else ~member.any())
    start = config.build().encoder[0].queries.detach()
    assert float(start.min()) < 0.01  # uniform over the box, not over the mesh
    assert float(start.max()) > 0.99
    assert all(
        torch.equal(a, b)
        for a, b in zip(model.state_dict().values(), config.build(mesh=meshes).state_dict().values(), strict=True)
    )
    loaded = config.build()  # loading never needs a mesh
    loaded.load_state_dict(model.state_dict())
    assert torch.equal(loaded.encoder[0].queries, model.encoder[0].queries)


def test_ablations_are_switches():
    fixed = small(learnable_queries=False).build()
    assert not any(name.endswith("queries") for name, _ in fixed.named_parameters())
    assert "encoder.0.queries" in fixed.state_dict()
    plain = small(modulation=False).build()
    assert not any("scale" in name for name in plain.state_dict())
    distance = small(kernel="distance").build()
    log_temperature = distance.state_dict()["encoder.1.kernel.log_temperature"]
    assert torch.allclose(log_temperature.exp(), torch.tensor(0.1))
    for config in (fixed, plain, distance, small(weighting="mean").build(), small(weighting="none").build()):
        assert config(torch.randn(1, 20, 2), torch.rand(20, 2), 1).shape == (1, 1, 20, 3)


def test_the_registry_builds_the_model():
    config = MODELS["calm"].model_validate(small().model_dump())
    assert isinstance(config.build(), cp.CalmPDE)
