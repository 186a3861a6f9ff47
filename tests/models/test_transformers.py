"""What PIT, LNO and OFormer promise alike, whatever is inside: order, padding, batch mates, time, seeds, folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.models import MODELS, Model
from calm_pde.surrogate import load_weights
from tests.clouds import grid, random_cloud, relative_error

NAN = float("nan")
PIT = {"width": 6, "heads": 2, "blocks": 2, "encoder_quantile": 0.3, "decoder_quantile": 0.4}
LNO = {"width": 8, "modes": 5, "projector_layers": 1, "blocks": 2, "heads": 2}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "lno": ("lno", LNO),
    "lno_in_chunks": ("lno", LNO | {"memory_budget": 5000, "node_types": (0, 4)}),
    "pit": ("pit", PIT),
    "pit_everywhere": ("pit", PIT | {"encoder_quantile": 1.0, "decoder_quantile": 1.0, "normalize_latent": True}),
    "pit_residual": ("pit", PIT | {"residual": True, "node_types": (0, 4, 6), "coordinates": False}),
}
NO_FREE_QUERIES = {"pit_residual"}


def built(name: str, dim: int = 2, seed: int = 0, **changes: Any) -> Model:
    kind, settings = CASES[name]
    content = {"dim": dim, "in_channels": 2, "out_channels": 2, "periodic": True} | settings
    if kind == "pit":
        content["latent_mesh"] = (9,) if dim == 1 else (3,) * dim
    return MODELS[kind].model_validate(content | changes).build(seed=seed).eval()


def kinds_of(model: Model, shape: tuple[int, ...]) -> torch.Tensor | None:
    codes = model.config.node_types
    return torch.tensor(codes)[torch.randint(len(codes), shape)] if codes else None


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradient_to_every_parameter(name, dim, dtype):
    model = built(name, dim).to(dtype)
    points, values = random_cloud(25, dim).to(dtype), random_cloud(50, 2, seed=1).view(2, 25, 2).to(dtype)
    u = model.rollout(values, points, [1.0, 3.0], node_type=kinds_of(model, (25,)))
    assert u.shape == (2, 3, 25, 2)
    assert u.dtype == dtype
    u[:, 1:].square().sum().backward()
    assert [name for name, value in model.named_parameters() if value.grad is None or not bool(value.grad.any())] == []
    assert all(bool(value.grad.isfinite().all()) for value in model.parameters() if value.grad is not None)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("ties", [False, True])
def test_order_padding_batch_mates_and_other_queries_change_nothing(name, ties):
    model = built(name).double()
    points = grid(6, 2) if ties else random_cloud(36, 2)
    values, kinds = random_cloud(36, 2, seed=1)[None], kinds_of(model, (36,))
    reference = model(values, points, 3, node_type=kinds)
    order = torch.randperm(36)
    moved = model(values[:, order], points[order], 3, node_type=None if kinds is None else kinds[order])
    assert relative_error(moved, reference[:, :, order]) < 1e-11

    nothing, mate = torch.full((1, 4, 2), NAN, dtype=torch.float64), random_cloud(40, 2, seed=3)[None]
    mask = torch.arange(40) < torch.tensor([[36], [40]])
    both_kinds = None if kinds is None else torch.stack([torch.cat([kinds, torch.full((4,), -7)]), kinds_of(model, (40,))])
    states = torch.cat([torch.cat([values, nothing], dim=1), mate])
    clouds = torch.cat([torch.cat([points[None], nothing], dim=1), mate])
    both = model(states, clouds, 3, mask=mask, node_type=both_kinds)
    assert relative_error(both[:1, :, :36], reference) < 1e-11
    assert bool((both[0, :, 36:] == 0).all())
    rolled = model.rollout(states, clouds, [1.0, 2.0, 3.0], mask, both_kinds)
    assert bool(rolled.isfinite().all())
    assert relative_error(rolled[:, 1:], both) < 1e-12
    assert relative_error(rolled[0, 0, :36], values[0]) == 0
    assert bool((rolled[0, :, 36:] == 0).all())

    queries = torch.cat([points[:5], random_cloud(5, 2, seed=2)])
    if name in NO_FREE_QUERIES:
        with pytest.raises(InputError, match="queries: expected none"):
            model(values, points, 2, queries, node_type=kinds)
        return
    asked = model(values, points, 3, queries, node_type=kinds)
    assert relative_error(asked[:, :, :5], reference[:, :, :5]) < 1e-11
    assert relative_error(model(values, points, 3, queries[3:], node_type=kinds), asked[:, :, 3:]) < 1e-11
    own = torch.stack([queries, random_cloud(10, 2, seed=4)])
    assert relative_error(model(states, clouds, 3, own, mask, both_kinds)[:1], asked) < 1e-11


@pytest.mark.parametrize("name", CASES)
def test_a_shared_mesh_with_a_mask_per_sample(name):
    model = built(name).double()
    points, values = random_cloud(20, 2), random_cloud(40, 2, seed=1).view(2, 20, 2)
    mask, kinds = torch.arange(20) < torch.tensor([[20], [12]]), kinds_of(model, (20,))
    u = model(values, points, 2, mask=mask, node_type=kinds)
    assert relative_error(u[0], model(values[:1], points, 2, node_type=kinds)[0]) < 1e-12
    alone = model(values[1:, :12], points[:12], 2, node_type=None if kinds is None else kinds[:12])
    assert relative_error(u[1, :, :12], alone[0]) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_frames_do_not_depend_on_which_are_asked(name):
    model = built(name).double()
    points, values = random_cloud(20, 2), random_cloud(20, 2, seed=1)[None]
    kinds = kinds_of(model, (20,))
    frames = model(values, points, 4, node_type=kinds)
    rolled = model.rollout(values, points, [2.0, 4.0], node_type=kinds)
    assert torch.equal(rolled[:, 0], values)
    assert relative_error(rolled[:, 1:], frames[:, [1, 3]]) < 1e-12
    assert model.rollout(values, points, [], node_type=kinds).shape == (1, 1, 20, 2)
    with pytest.raises(InputError, match=r"times: expected whole frames.*got 1\.5 frames"):
        model.rollout(values, points, [1.0, 1.5], node_type=kinds)
    with pytest.raises(InputError, match="num_steps: expected at least 1"):
        model(values, points, 0, node_type=kinds)
    with pytest.raises(InputError, match="values: expected 2 channels"):
        model(values[..., :1], points, 1, node_type=kinds)
    with pytest.raises(InputError, match="node_type"):
        model(values, points, 1, node_type=torch.zeros(20, dtype=torch.int64) if kinds is None else None)
    with pytest.raises(InputError, match="values: expected finite"):
        model(values * NAN, points, 1, node_type=kinds)


@pytest.mark.parametrize("name", CASES)
def test_same_seed_same_bits_and_the_weights_are_all_there_is(name):
    before = torch.get_rng_state()
    model, again, other = (built(name, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    state = model.state_dict()
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in state.items())
    assert [key for key, value in state.items() if value.std() > 0 and torch.equal(value, other.state_dict()[key])] in (
        [],
        ["latent"],
    )
    load_weights(other, {key: value.clone() for key, value in state.items()}, Path("weights"))
    config = type(model.config).model_validate_json(model.config.model_dump_json())
    assert config == model.config
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    kinds = kinds_of(model, (20,))
    assert torch.equal(model(values, points, 2, node_type=kinds), other(values, points, 2, node_type=kinds))
