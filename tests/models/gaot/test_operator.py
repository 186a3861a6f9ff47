"""The graph operator: loops in float64, shares that sum to one, equal neighborhoods, places with nobody near."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.models.gaot.config import GaotConfig
from calm_pde.models.gaot.operator import MultiscaleOperator, Place
from calm_pde.models.gaot.statistics import neighborhood_statistics, standardized
from calm_pde.nn.segments import Segments
from tests.clouds import grid, random_cloud, relative_error
from tests.models.gaot import gaot_oracle as oracle
from tests.oracle import weights_of

SIZES = {"dim": 2, "in_channels": 2, "out_channels": 2, "width": 5, "latent_size": 4, "radius": 0.25, "scales": (0.5, 1.2)} | {
    "kernel_width": 6,
    "attention_width": 3,
    "statistics_width": 7,
    "processor_width": 12,
    "heads": 3,
    "depth": 1,
}


def config(**changes: Any) -> GaotConfig:
    return GaotConfig.model_validate(SIZES | changes)


def operator(config: GaotConfig) -> MultiscaleOperator:
    return MultiscaleOperator(config, torch.Generator().manual_seed(2)).double()


def tokens(config: GaotConfig) -> torch.Tensor:
    return config.build().places(torch.float64)


def noise(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


@pytest.mark.parametrize("fewest", [0, 4])
@pytest.mark.parametrize(
    "changes",
    [
        {"periodic": (True, False)},
        {"attention": "projected", "scale_weights": "learned", "periodic": True},
        {"positions": "absolute"},
        {"positions": "absolute", "attention": "projected"},
        {"dim": 1},
        {"dim": 3, "attention": "projected"},
    ],
    ids=str,
)
def test_equals_loops(changes, fewest):
    """Onto the tokens, compared with each other; and with nearest points for places that have none."""
    chosen = config(**changes)
    found, periodic = operator(chosen), chosen.build().periodic
    points, mask = random_cloud(30, chosen.dim).view(2, 15, -1), torch.arange(15) < torch.tensor([[15], [8]])
    f = noise(2, 15, 5)
    sights = found.sights(Place(points, mask), Place(tokens(chosen)[None]), periodic, fewest, compared=not fewest)
    said = found(f, sights)
    for sample in range(2):
        real = mask[sample].numpy()
        given = f[sample].numpy()[real], points[sample].numpy()[real], tokens(chosen).numpy()
        wanted = oracle.operator(weights_of(found), *given, chosen, fewest, compared=not fewest)
        assert relative_error(said[sample], torch.from_numpy(wanted)) < 1e-11


@pytest.mark.parametrize("positions", ["relative", "absolute"])
@pytest.mark.parametrize("attention", ["cosine", "projected"])
def test_shares_of_a_neighborhood_sum_to_one(positions, attention):
    """Weights are shares where the kernel is one; and a kernel of one averages."""
    found = operator(config(positions=positions, attention=attention))
    with torch.no_grad():
        for scale in found.scales:
            scale.kernel[-1].weight.zero_()
            scale.kernel[-1].bias.fill_(1.0)
    for sight in found.sights(Place(random_cloud(200, 2)[None]), Place(random_cloud(9, 2, seed=1)[None]), (True, True))[0]:
        assert int(sight.near.places.sizes.min()) > 1
        assert float(sight.weights.detach().min()) > 0
        torch.testing.assert_close(sight.near.places.sum(sight.weights), torch.ones(9, 5).double())


@pytest.mark.parametrize("wraps", [False, True])
def test_a_constant_field_at_equal_spacing_gives_equal_tokens_in_the_interior(wraps):
    """All of them where there is no rim; absolute positions would tell them apart."""
    chosen = config(latent_size=8, radius=0.1, scales=(0.7, 1.3), periodic=wraps)
    points, f = grid(16, 2) + 1 / 32, torch.ones(1, 256, 5).double()
    found = operator(chosen)
    said = found(f, found.sights(Place(points[None]), Place(tokens(chosen)[None]), (wraps, wraps), compared=True))[0]
    inner = said.view(8, 8, 5)[2:-2, 2:-2].flatten(0, 1)
    assert float((inner - inner[0]).detach().abs().max()) < 1e-12
    differing = float((said - inner[0]).detach().abs().max())
    assert differing < 1e-12 if wraps else differing > 1e-3
    other = operator(config(latent_size=8, radius=0.1, scales=(0.7, 1.3), periodic=wraps, positions="absolute"))
    said = other(f, other.sights(Place(points[None]), Place(tokens(chosen)[None]), (wraps, wraps)))[0].view(8, 8, 5)
    assert float((said[3, 3] - said[4, 4]).detach().abs().max()) > 1e-5


def test_a_place_with_nobody_near_is_answered_with_zero():
    """At the scales where nobody is; others see on."""
    found = operator(config(scales=(0.2, 1.0)))
    points = torch.tensor([[[0.5, 0.5], [0.52, 0.5]]]).double()
    places = torch.tensor([[[0.5, 0.52], [0.5, 0.7], [0.1, 0.1]]]).double()
    sights = found.sights(Place(points), Place(places), (False, False), compared=True)
    said = found(noise(1, 2, 5), sights)[0]
    assert [sight.near.places.sizes.tolist() for sight in sights[0]] == [[2, 0, 0], [2, 2, 0]]
    assert bool((said[2] == 0).all())
    assert bool((said[:2] != 0).all())
    first = found.scales[0](noise(1, 2, 5), sights[0][0])[0]
    assert bool((first[1:] == 0).all())


def test_a_query_with_no_token_in_reach_takes_the_nearest_four():
    chosen = config(scales=(0.3,))
    found, queries = operator(chosen), torch.tensor([[[0.26, 0.27], [0.37, 0.38], [0.9, 0.1]]]).double()
    (sight,), _ = found.sights(Place(tokens(chosen)[None]), Place(queries), (False, False), fewest=4)
    assert sight.near.places.sizes.tolist() == [4, 1, 1]
    around = tokens(chosen)[sight.near.points.index[:4]]
    assert {tuple(place) for place in around.tolist()} == {(x, y) for x in (0.125, 0.375) for y in (0.125, 0.375)}


def test_what_one_sample_looks_like_depends_on_no_other():
    """Its statistics are compared with those of its own places alone."""
    found, points = operator(config()), random_cloud(40, 2).view(2, 20, 2) * torch.tensor([1.0, 0.3]).view(2, 1, 1)
    places, f = Place(tokens(config())[None]), noise(2, 20, 5)
    together = found(f, found.sights(Place(points), places, (False, False), compared=True))
    for sample in range(2):
        one = slice(sample, sample + 1)
        alone = found(f[one], found.sights(Place(points[one]), places, (False, False), compared=True))
        assert relative_error(alone, together[one]) < 1e-12


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_statistics_of_neighborhoods(dim):
    index = torch.tensor([0, 0, 0, 0, 2, 2, 3])  # place 1 has nobody, place 3 has itself
    d = random_cloud(7, dim) - 0.5
    d[6] = 0.0
    d.requires_grad_()
    found = neighborhood_statistics(Segments.of(index, 4), d)
    for place in range(4):
        own = [row for row, at in zip(d.detach().numpy(), index.tolist(), strict=True) if at == place]
        np.testing.assert_allclose(found[place].detach().numpy(), oracle.statistics(own, dim), rtol=1e-10, atol=1e-14)
    found.square().sum().backward()
    assert d.grad is not None
    assert bool(d.grad.isfinite().all())


def test_statistics_are_compared_among_places_that_have_neighbors():
    x, inhabited = noise(2, 6, 3), torch.tensor([[True] * 6, [True, False, True, True, False, True]])
    x[:, :, 2] = 5.0  # alike everywhere: nothing, and no noise of rounding
    found = standardized(x, inhabited)
    for cloud in range(2):
        some = x[cloud, inhabited[cloud]].numpy()
        wanted = (some - some.mean(axis=0)) / np.sqrt(some.var(axis=0) + 1e-4)
        np.testing.assert_allclose(found[cloud, inhabited[cloud]].numpy(), wanted, rtol=1e-12, atol=1e-12)
    assert bool((found[1, ~inhabited[1]] == 0).all())
    assert bool((standardized(x, torch.zeros(2, 6, dtype=torch.bool)) == 0).all())
