"""The place of a query at the decoder's end: against the oracle, with its symmetries, and refused where it can't be told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.errors import InputError
from calm_pde.models.calm.config import PlaceConfig
from calm_pde.models.calm.learning.beside import losses_of
from calm_pde.models.calm.place import Place
from calm_pde.records.inputs import Frames
from tests import oracle
from tests.clouds import random_cloud, relative_error
from tests.models.calm.test_detail import DETAIL
from tests.models.calm.test_model import perturbed, small

PLACE = {"channels": 4, "width": 5, "fourier_width": 6, "fourier_std": 1.5, "scale": 0.05}


def place_of(w: dict[str, np.ndarray], x, boundary, periodic) -> np.ndarray:
    """g at one query; `boundary` are the points that belong to it, None where nothing is known of them."""
    far = [max(min(v, 1 - v), 0.0) ** 2 for v, wraps in zip(x, periodic, strict=True) if not wraps]
    if boundary is not None:
        away = [oracle.norm_squared(oracle.difference(x, point, periodic)) for point in boundary]
        far.append(min(away) if away else float(len(periodic)))
    known = [*oracle.fourier(x, w["frequencies"]), *(0.5 * math.log(1 + squared / 0.05**2) for squared in far)]
    hidden = oracle.gelu_all(w["expand.weight"] @ np.array(known) + w["expand.bias"])
    return w["reduce.weight"] @ hidden + w["reduce.bias"]


def weights(model: torch.nn.Module, prefix: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(prefix): v for k, v in oracle.weights_of(model).items() if k.startswith(prefix)}


@pytest.mark.parametrize("detail", [None, DETAIL], ids=["alone", "with detail"])
@pytest.mark.parametrize("types", [(), (0, 4)], ids=["unbounded", "bounded"])
@pytest.mark.parametrize("own_meshes", [False, True])
def test_it_equals_the_oracle(own_meshes, types, detail):
    """One joined term; a second sample without any boundary point among its real ones."""
    model = perturbed(small(place=PLACE, node_types=types, detail=detail).build()).double()
    points = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)])
    points = points if own_meshes else points[0]
    values, queries = random_cloud(40, 2, seed=3).view(2, 20, 2) - 0.5, random_cloud(6, 2, seed=4)
    queries[:, 0] = 1.4 * queries[:, 0] - 0.2
    mask = torch.arange(20) < torch.tensor([[20], [13]])
    kinds = torch.tensor([[4 * (point % 3 == 1) for point in range(20)], [4 * (point > 12) for point in range(20)]])
    found = model(values, points, 2, queries, mask, kinds if types else None)

    z, p = model.encode(values, points, mask, kinds if types else None)
    decoded, _ = model.decoder.convolve(model.advance(z, p, 2)[:, 1:], p, queries)
    write = oracle.weights_of(model)["detail.write.weight"]
    for sample in range(2):
        cloud = (points[sample] if own_meshes else points).numpy()
        real = mask[sample].nonzero().flatten().tolist()
        solid = [cloud[j] for j in real if kinds[sample, j] != 0] if types else None
        assert solid is None or bool(solid) == (sample == 0)
        told = np.array([place_of(weights(model, "detail.place."), x, solid, (True, False)) for x in queries.numpy()])
        if detail is not None:
            embedding = oracle.weights_of(model)["node_types.weight"] if types else np.zeros((2, 0))
            x = np.concatenate([values[sample].numpy(), embedding[(kinds[sample] != 0).long().numpy()]], axis=1)
            options: dict[str, Any] = {"percentile": 0.4, "temperature": 0.5, "periodic": (True, False), "external": True}
            told += oracle.layer(weights(model, "detail.read."), x, cloud, queries.numpy(), real=real, **options)
        for step in range(2):
            both = decoded[sample, step].detach().numpy()
            expected = both[:, :3] + oracle.gelu_all(both[:, 3:] + told) @ write.T
            assert relative_error(found[sample, step], torch.from_numpy(expected)) < 1e-12


def module(periodic: tuple[bool, ...], bounded: bool = False) -> Place:
    generator = torch.Generator().manual_seed(0)
    return Place(PlaceConfig.model_validate(PLACE), periodic, bounded, generator)


def test_it_is_periodic_on_periodic_axes_alone():
    """To the bit at both ends of the box, in single precision too; frequencies are whole numbers there."""
    place = module((True, False))
    assert torch.equal(place.frequencies[0], place.frequencies[0].round())
    assert not torch.equal(place.frequencies[1], place.frequencies[1].round())
    below, above = torch.tensor([[0.0, 0.3], [0.25, 0.3]]), torch.tensor([[1.0, 0.3], [3.25, 0.3]])
    assert torch.equal(place(below), place(above))
    assert not torch.allclose(place(below.flip(-1)), place(above.flip(-1)))


def test_periodic_features_have_no_seam():
    """Also without being brought back into the box: near both ends the slopes agree."""
    place = module((True,)).double()
    ends = torch.tensor([[0.0], [1.0 - 1e-9]], dtype=torch.float64, requires_grad=True)
    told = place(ends)[0]
    slopes = torch.stack([torch.autograd.grad(told[end].sum(), ends, retain_graph=True)[0][end] for end in (0, 1)])
    assert relative_error(told[1], told[0]) < 1e-6
    assert relative_error(slopes[1], slopes[0]) < 1e-5


def test_nearest_boundary_points_over_the_seam_and_masks():
    """On a periodic axis the nearest is across the seam; masked points are none, whatever stands there; a wall reaches on."""
    place = module((True, False), bounded=True).double()
    points = torch.tensor([[0.05, 0.5], [0.6, 0.5], [math.nan, math.nan]], dtype=torch.float64)
    mask, kinds = torch.tensor([[True, True, False]]), torch.tensor([4, 4, 4])
    far, near, outside = (torch.tensor([place], dtype=torch.float64) for place in ([0.85, 0.5], [0.95, 0.5], [0.3, 1.2]))
    for query in (far, near, outside):
        wanted = place_of(oracle.weights_of(place), query[0].numpy(), points[:2].numpy(), (True, False))
        assert relative_error(place(query, points, mask, kinds)[0, 0], torch.from_numpy(wanted)) < 1e-12
    alone = place(far, points[:1], None, kinds[:1])
    assert relative_error(place(far, points, mask, torch.tensor([4, 0, 4])), alone) < 1e-12


@pytest.mark.parametrize("own", [False, True], ids=["shared queries", "own queries"])
def test_its_derivatives_are_right_to_second_order(own):
    """By queries, boundary points and weights; at a boundary point itself they are finite."""
    place = module((True, False), bounded=True).double()
    queries = 0.1 + 0.3 * random_cloud(4, 2).view(*((2, 2) if own else (4,)), 2)
    points, kinds = random_cloud(6, 2, seed=1), torch.tensor([0, 4, 4, 0, 4, 0])

    def told(queries, points, weight):
        return torch.func.functional_call(place, {"expand.weight": weight}, (queries, points, None, kinds))

    inputs = [value.detach().clone().requires_grad_() for value in (queries, points, place.expand.weight)]
    assert torch.autograd.gradcheck(told, inputs)
    assert torch.autograd.gradgradcheck(told, inputs)
    there = points[1:2].clone().requires_grad_()
    (slope,) = torch.autograd.grad(told(there, points, place.expand.weight).sum(), there, create_graph=True)
    assert bool(slope.isfinite().all())
    assert bool(torch.autograd.grad(slope.sum(), there)[0].isfinite().all())


def test_a_fresh_model_answers_without_it():
    """W starts at zero, and the answer is the decoder's own; with a first step it is told."""
    model = small(place=PLACE).build(seed=1)
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    z, p = model.encode(values, points)
    zs = model.advance(z, p, 2)
    decoded, _ = model.decoder.convolve(zs, p, points)
    assert torch.equal(model.decode(zs, p, points), decoded[..., :3])
    model.decode(zs, p, points).square().sum().backward()
    assert model.detail is not None
    assert float(model.detail.write.weight.grad.abs().max()) > 0


def test_decoding_wants_the_state_only_where_the_boundary_is_told():
    points, values, kinds = torch.rand(20, 2), torch.randn(2, 20, 2), 4 * (torch.arange(20) % 2)
    free = perturbed(small(place=PLACE).build())
    z, p = free.encode(values, points)
    zs = free.advance(z, p, 2)
    assert relative_error(free.decode(zs, p, points)[:, 1:], free(values, points, 2)) < 1e-6

    model = perturbed(small(place=PLACE, node_types=(0, 4)).build())
    z, p = model.encode(values, points, node_type=kinds)
    zs = model.advance(z, p, 2)
    with pytest.raises(InputError, match=r"start: expected the state.*how far the boundary is \(config\.place.*got none"):
        model.decode(zs, p, points)
    with pytest.raises(InputError, match="node_type: expected a code of"):
        model.decode(zs, p, points, start=cp.Inputs(values, points))
    with pytest.raises(InputError, match="start: expected a state for each of the 2 samples of zs, got 1"):
        model.decode(zs, p, points, start=cp.Inputs(values[:1], points, node_type=kinds))
    start = cp.Inputs(values, points, node_type=kinds)
    assert relative_error(model.decode(zs, p, points, start=start)[:, 1:], model(values, points, 2, node_type=kinds)) < 1e-6


def test_given_neighbors_change_nothing():
    model = perturbed(small(place=PLACE, node_types=(0, 4)).build())
    points, values, queries = torch.rand(2, 20, 2), torch.randn(2, 20, 2), torch.rand(7, 2)
    mask, kinds = torch.arange(20) < torch.tensor([[20], [12]]), 4 * (torch.arange(40) % 3 == 0).view(2, 20)
    with pytest.raises(InputError, match="node_type: expected a code of"):
        model.neighbors(points, queries, mask)
    found = model.neighbors(points, queries, mask, kinds)
    assert found.place is not None
    told = model(values, points, 2, queries, mask, kinds, neighbors=found)
    assert torch.equal(told, model(values, points, 2, queries, mask, kinds))
    shared = model.neighbors(points[0], queries, node_type=kinds)  # one mesh, and kinds of each sample's own
    told = model(values, points[0], 2, queries, None, kinds, neighbors=shared)
    assert torch.equal(told, model(values, points[0], 2, queries, None, kinds))


def test_stages_know_the_kinds_of_points():
    """The autoencoder's stage decodes with them, and gives the place its gradients."""
    model = perturbed(small(place=PLACE, node_types=(0, 4), staged=True, out_channels=2).build())
    kinds = 4 * (torch.arange(20) % 2)
    losses_of(model, "autoencoder", Frames(torch.randn(2, 1, 20, 2), torch.rand(20, 2), None, kinds)).sum().backward()
    assert model.detail is not None
    assert model.detail.place is not None
    assert all(float(weight.grad.abs().max()) > 0 for weight in model.detail.place.parameters())


def test_it_counts_in_the_predicted_peak():
    """Its hidden layer, before and behind the GELU, once per mesh."""
    configs = [small(place=PLACE | {"width": width}, node_types=(0, 4)) for width in (4, 4004)]
    for own_meshes, meshes in ((False, 1), (True, 8)):
        peaks = [config.build().predicted_peak(500, 8, 5, own_meshes=own_meshes) for config in configs]
        assert peaks[1] > peaks[0] + 2 * 4 * 4000 * 500 * meshes - 10**6


def test_transforms_look_through_it_with_neighbors_given():
    model = perturbed(small(place=PLACE, node_types=(0, 4)).build()).double()
    points, values = random_cloud(20, 2), random_cloud(40, 2, seed=1).view(2, 20, 2)
    kinds = 4 * (torch.arange(20) % 2)
    found = model.neighbors(points, node_type=kinds)
    z, p = model.encode(values, points, node_type=kinds)

    def answer(z: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        return model.decode(z[None, None], p, points, found, cp.Inputs(start[None], points, node_type=kinds))[0]

    whole = model.decode(z[:, None], p, points, start=cp.Inputs(values, points, node_type=kinds))
    assert relative_error(torch.func.vmap(answer)(z, values), whole) < 1e-12
