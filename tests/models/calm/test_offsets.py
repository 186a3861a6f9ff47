"""Query points that follow the state: their positions and answers against loops, their bounds, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.engine.receptive_fields import FIELDS
from calm_pde.errors import InputError
from calm_pde.models.calm.offsets import QueryOffsets
from calm_pde.records.inputs import Frames, Inputs
from tests import oracle
from tests.clouds import random_cloud, relative_error
from tests.engine.derivatives import jit_deprecated
from tests.models.calm.test_model import perturbed, small

PERIODIC = (True, False)
LAYERS = ({"percentile": 0.2, "temperature": 1.0}, {"percentile": 0.5, "temperature": 0.1})


def following(reach: tuple[float, ...] = (0.5, 0.3), **changes: Any) -> cp.CalmConfig:
    return small(encoder=small().encoder.model_dump() | {"reach": reach}, **changes)


def inputs(own_meshes: bool = True) -> dict[str, torch.Tensor]:
    """Two samples; on meshes of their own the second is padded with what is no number."""
    points = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)])
    values = random_cloud(40, 2, seed=3).view(2, 20, 2) - 0.5
    if not own_meshes:
        return {"values": values, "points": points[0]}
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    points[~mask] = values[~mask] = float("nan")
    return {"values": values, "points": points, "mask": mask}


def moved(w: dict[str, np.ndarray], x: np.ndarray, points: np.ndarray, real, reach: float, percentile: float) -> np.ndarray:
    """The queries of one layer for one sample, from (point, in) features: (query, dim)."""
    found = []
    for rest in w["queries"]:
        field = oracle.receptive_field(rest, points, real, percentile, PERIODIC)
        away = [oracle.difference(rest, points[m], PERIODIC) for m in field]
        radius = max(math.sqrt(oracle.norm_squared(d)) for d in away)
        seen = w["offsets.bias"].copy()
        for m, d in zip(field, away, strict=True):
            for o in range(len(seen)):
                total = sum(x[m][i] * w["offsets.filters"][0, i, o] for i in range(x.shape[1]))
                for axis in range(2):
                    total += d[axis] / radius * w["offsets.places"][axis, o]
                    for i in range(x.shape[1]):
                        total += d[axis] / radius * x[m][i] * w["offsets.filters"][1 + axis, i, o]
                seen[o] += total / len(field)
        active = oracle.gelu_all(seen)
        shares = [math.tanh(float(row @ active)) for row in w["offsets.write.weight"]]
        found.append([rest[axis] + reach * radius * shares[axis] for axis in range(2)])
    return np.array(found)


@pytest.mark.parametrize("own_meshes", [False, True], ids=["shared", "own meshes"])
@pytest.mark.parametrize("reach", [(0.5, 0.3), (0.5, 0.0), (0.0, 0.3)], ids=str)
def test_positions_and_answers_equal_the_oracle(reach, own_meshes):
    model, call = perturbed(following(reach, integrator="heun").build(seed=3)).double(), inputs(own_meshes)
    queries = random_cloud(6, 2, seed=4)
    z, p = model.encode(**call)
    u = model(**call, num_steps=1, queries=queries)
    assert p.shape == ((2, 4, 2) if reach[-1] else (4, 2))
    w = oracle.weights_of(model)

    def part(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): value for name, value in w.items() if name.startswith(prefix)}

    for sample in range(2):
        x, where = call["values"][sample].numpy(), call["points"][sample if own_meshes else ...].numpy()
        real = list(range(13 if own_meshes and sample else 20))
        for depth, sizes in enumerate(LAYERS):
            v = part(f"encoder.{depth}.")
            asked = moved(v, x, where, real, reach[depth], sizes["percentile"]) if reach[depth] else v["queries"]
            x = oracle.layer(v, x, where, asked, real=real, periodic=PERIODIC, **sizes)
            where, real = asked, list(range(len(asked)))
        assert relative_error(p[sample] if p.ndim == 3 else p, torch.from_numpy(where)) < 1e-12
        assert relative_error(z[sample], torch.from_numpy(x)) < 1e-12

        def rate(state: np.ndarray, at: np.ndarray) -> np.ndarray:
            return oracle.processor(part("processor."), state, at, heads=2, blocks=2, periodic=PERIODIC)

        first = rate(x, where)
        x = x + (first + rate(x + first, where)) / 2
        hidden, last = part("decoder.0."), part("decoder.1.")
        x = oracle.layer(hidden, x, where, hidden["queries"], percentile=0.5, temperature=0.1, periodic=PERIODIC)
        options: dict[str, Any] = {"percentile": 0.3, "temperature": 1.0, "periodic": PERIODIC, "external": True}
        field = oracle.layer(last, x, hidden["queries"], queries.numpy(), **options)
        assert relative_error(u[sample, 0], torch.from_numpy(field)) < 1e-12


def test_a_fresh_model_is_the_one_whose_queries_rest():
    """Every other weight is the same, and so is the answer."""
    fresh, resting = following().build(seed=2), small().build(seed=2)
    weights = fresh.state_dict()
    assert {name for name in weights if ".offsets." not in name} == set(resting.state_dict())
    assert all(torch.equal(value, weights[name]) for name, value in resting.state_dict().items())
    call = {name: value.float() if value.is_floating_point() else value for name, value in inputs().items()}
    assert relative_error(fresh(**call, num_steps=3), resting(**call, num_steps=3)) < 1e-5
    assert torch.equal(fresh.encode(**call)[1], resting.encode(**call)[1].expand(2, -1, -1))
    assert relative_error(fresh.double()(**inputs(), num_steps=3), resting.double()(**inputs(), num_steps=3)) < 1e-13


def test_nothing_is_made_where_nothing_moves():
    for reach in ((), (0.0, 0.0)):
        assert not any("offsets" in name for name in following(reach).build().state_dict())
        assert following(reach).abilities.bakes


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_offsets_stay_within_reach(scale):
    """Along each axis, whatever the weights; with large ones they come to the bound."""
    model = perturbed(following((0.5, 0.0)).build()).double()
    layer, points = model.encoder[0], random_cloud(20, 2)
    assert layer.offsets is not None
    with torch.no_grad():
        layer.offsets.write.weight *= scale
    _, where = layer(random_cloud(60, 2, seed=1).view(3, 20, 2) * 10, points)
    rest = oracle.weights_of(layer)["queries"]
    radii = []
    for query in rest:
        field = oracle.receptive_field(query, points.numpy(), range(20), 0.2, PERIODIC)
        radii.append(max(math.sqrt(oracle.norm_squared(oracle.difference(query, points[m], PERIODIC))) for m in field))
    share = (where.detach() - torch.from_numpy(rest)).abs() / torch.tensor(radii, dtype=torch.float64)[:, None]
    assert float(share.max()) <= 0.5 * (1 + 1e-12)
    if scale == 1:
        assert float((share[0] - share[1]).max()) > 1e-4  # by the state of each sample
    else:
        assert float(share.max()) > 0.499


def test_radii_have_no_gradient():
    """Where the share of the radius is a constant, positions follow the resting ones one to one, and nothing else."""
    model = following((0.5, 0.0)).build().double()
    layer = model.encoder[0]
    assert layer.offsets is not None
    with torch.no_grad():
        for parameter in layer.offsets.parameters():
            parameter.zero_()
        layer.offsets.bias.fill_(1.0)
        layer.offsets.write.weight.fill_(0.1)
    points = random_cloud(20, 2).requires_grad_()
    _, where = layer(random_cloud(60, 2, seed=1).view(3, 20, 2), points)
    assert layer.queries is not None
    assert float((where - layer.queries).detach().abs().min()) > 1e-3
    of_queries, of_points = torch.autograd.grad(where.sum(), (layer.queries, points), materialize_grads=True)
    assert torch.equal(of_queries, torch.full_like(of_queries, 3.0))
    assert not bool(of_points.any())


def test_radii_count_where_answers_are_differentiated():
    """The second layer that follows has radii that depend on the state, by the positions of the first."""
    model, call = perturbed(following().build()).double(), inputs(own_meshes=False)
    model.requires_grad_(False)
    values = call["values"].clone().requires_grad_()

    def output(values):
        return model(values, call["points"], 1)

    assert not torch.autograd.gradcheck(output, values, atol=1e-9, rtol=1e-5, fast_mode=True, raise_exception=False)
    model.differentiate()
    assert torch.autograd.gradcheck(output, values, atol=1e-9, rtol=1e-5, fast_mode=True)


def test_gradients_reach_what_moves_the_queries():
    """By numbers: the field, its points and all weights of the offsets, through kernels, latent steps and decoder."""
    model = perturbed(following((0.5, 0.0)).build()).double()
    names = [f"encoder.0.offsets.{name}" for name in ("filters", "places", "bias", "write.weight")]
    weights = dict(model.named_parameters())
    queries = random_cloud(3, 2, seed=1)

    def output(values, *moved):
        return torch.func.functional_call(model, dict(zip(names, moved, strict=True)), (values, points, 2, queries))

    points = random_cloud(12, 2)
    given = [random_cloud(24, 2, seed=2).view(2, 12, 2), *(weights[name].detach() for name in names)]
    assert torch.autograd.gradcheck(output, [value.clone().requires_grad_() for value in given], fast_mode=True)


def test_gradients_by_hand_are_those_of_the_formulas():
    """Of all parameters, with positions of the tokens that each sample has for itself."""
    model = perturbed(following(integrator="heun").build()).double()
    parameters = [value for name, value in model.named_parameters() if not name.endswith("norm_key.bias")]
    loss = model(**inputs(), num_steps=2).nan_to_num().square().sum()
    by_hand = torch.autograd.grad(loss, parameters, retain_graph=True)
    by_formula = torch.autograd.grad(loss, parameters, create_graph=True)
    assert all(relative_error(found, wanted) < 1e-9 for found, wanted in zip(by_hand, by_formula, strict=True))


@jit_deprecated
def test_forward_mode_agrees_with_backward():
    model = perturbed(following().build()).double()
    call, away = inputs(own_meshes=False), random_cloud(40, 2, seed=6).view(2, 20, 2)
    _, slope = torch.func.jvp(lambda values: model(values, call["points"], 1).sum(), (call["values"],), (away,))
    values = call["values"].clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(values, call["points"], 1).sum(), values)
    torch.testing.assert_close(slope, (gradient * away).sum())
    with pytest.raises(InputError, match=r"queries: .*torch\.func\.vmap"):
        torch.func.vmap(lambda values: model(values[None], call["points"], 1))(call["values"])


def test_a_whole_turn_changes_nothing():
    """Points and resting queries one period away along the periodic axis: the same field, one period away."""
    model, call = perturbed(following((0.5, 0.0)).build()).double(), inputs(own_meshes=False)
    layer, turn = model.encoder[0], torch.tensor([1.0, 0.0], dtype=torch.float64)
    y, where = layer(call["values"], call["points"])
    found, there = layer(call["values"], call["points"] - 2 * turn)
    assert relative_error(found, y) < 1e-11
    assert relative_error(there, where) < 1e-11
    with torch.no_grad():
        layer.queries += turn
    found, there = layer(call["values"], call["points"])
    assert relative_error(found, y) < 1e-11
    assert relative_error(there, where + turn) < 1e-11


def test_what_follows_the_state_is_not_kept():
    """Receptive fields of queries at rest are found once for all states, those of moved ones serve once."""
    layer, points = perturbed(following((0.5, 0.0)).build()).double().encoder[0], random_cloud(20, 2, seed=8)
    FIELDS.entries.clear()
    with torch.no_grad():
        for seed in range(3):
            layer(random_cloud(20, 2, seed)[None], points)
    assert len(FIELDS.entries) == 1


def test_weights_that_start_by_data_do_so_where_queries_move():
    model, call = perturbed(following(start="unit_variance").build()).double(), inputs()
    model.start_by(Inputs(**call))
    z, p = model.encode(**call)
    assert float(z.std().detach()) == pytest.approx(1, abs=0.01)
    assert model.processor is not None
    assert float(model.processor(z, p).std().detach()) == pytest.approx(0.1, abs=0.001)


def test_a_small_budget_moves_them_alike():
    model = perturbed(following().build()).double()
    call = {"values": random_cloud(2 * 900, 2, seed=3).view(2, 900, 2), "points": random_cloud(900, 2)}
    wanted = model.encode(**call)[1]
    model.memory_budget = 2**20
    assert relative_error(model.encode(**call)[1], wanted) < 1e-12


def test_a_layer_alone_takes_any_batch_axes():
    """The first entry of inner axes moves the queries; without a batch there is no axis of samples."""
    generator = torch.Generator().manual_seed(0)
    layer = cp.CalmLayer(2, 3, 2, num_queries=5, receptive_field=0.4, generator=generator)
    layer.offsets = QueryOffsets(2, 2, 0.5, 8, generator)
    with torch.no_grad():
        layer.offsets.write.weight.normal_(generator=generator)
    x, points = random_cloud(2 * 3 * 12, 2).view(2, 3, 12, 2), random_cloud(12, 2, seed=1)
    y, where = layer.double()(x, points)
    assert y.shape == (2, 3, 5, 3)
    first, alike = layer(x[:, 0], points)
    assert relative_error(y[:, 0], first) < 1e-12
    assert torch.equal(where, alike)
    alone, there = layer(x[1, 0], points)
    assert alone.shape == (5, 3)
    assert relative_error(alone, first[1]) < 1e-12
    assert relative_error(there, where[1]) < 1e-12
    with pytest.raises(InputError, match="neighbors: expected none, since the queries of this layer follow the state"):
        layer(x, points, neighbors=layer.neighbors(points))


def test_frames_of_a_sample_share_the_positions_of_the_first():
    model, call = perturbed(following().build()).double(), inputs()
    later = call["values"].flip(-1)
    z, p = model.latents(Frames(torch.stack([call["values"], later], dim=1), call["points"], call["mask"]))
    first, where = model.encode(**call)
    assert relative_error(p, where) < 1e-12
    assert relative_error(z[:, 0], first) < 1e-12
    other, elsewhere = model.encode(later, call["points"], call["mask"])
    assert relative_error(elsewhere, where) > 1e-4
    assert relative_error(z[:, 1], other) > 1e-4


def test_many_changes_of_one_states_tokens_are_decoded():
    model, call = perturbed(following().build()).double(), inputs(own_meshes=False)
    state = call["values"][:1]
    start = Inputs(state, call["points"])
    z, p = model.tokens(start)
    found = model.fields_of_tokens(torch.cat([z, z + 1, z]), p, [1.0], call["points"], start)
    assert relative_error(found[2:], found[:1]) < 1e-12
    assert relative_error(found[:1, 1:], model(state, call["points"], 1)) < 1e-12
    assert relative_error(found[1:2], found[:1]) > 1e-3


def test_what_needs_queries_at_rest_is_refused_by_name():
    model, call = following().build().double(), inputs(own_meshes=False)
    points = call["points"]
    assert not model.config.abilities.bakes
    with pytest.raises(InputError, match=r"bake: expected a model that can bake, got CALM-PDE.*itself.*encoder\.reach"):
        model.bake(points)
    told = r"neighbors: expected a model that can know its receptive fields before the state.*without neighbors.*encoder\.reach"
    known, (z, p) = small().build().double().neighbors(points), model.encode(**call)
    for ask in (
        lambda: model.neighbors(points),
        lambda: model.encode(**call, neighbors=known),
        lambda: model.decode(z[:, None], p, points, known),
        lambda: model(**call, num_steps=1, neighbors=known),
    ):
        with pytest.raises(InputError, match=told):
            ask()
    with pytest.raises(InputError, match="p: expected as many clouds as zs has samples"):
        model.decode(z[:, None], p[:1].expand(3, -1, -1), points)


def test_resting_positions_are_shown():
    model = perturbed(following().build())
    assert torch.equal(model.query_points()[1].positions, model.state_dict()["encoder.1.queries"])
    names = [layer.name for layer in model.kernel_weights(random_cloud(20, 2).float(), cp.Box((0.0, 0.0), (1.0, 1.0)))]
    assert names == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]


def test_they_count_in_the_predicted_peak():
    """Each sample's own geometry does, behind the first layer that moves."""
    sizes = (2000, 8, 3)
    assert following((0.5, 0.0)).build().predicted_peak(*sizes) > 1.05 * small().build().predicted_peak(*sizes)
    assert small().build().predicted_peak(*sizes) == following((0.0, 0.0)).build().predicted_peak(*sizes)


def test_optimizers_see_no_matrix_in_the_first_and_last_maps():
    named = perturbed(following().build()).matrices()
    assert [name for name in named if "offsets" in name] == ["encoder.1.offsets.filters"]
