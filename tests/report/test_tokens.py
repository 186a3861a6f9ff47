"""Token influence against one token at a time through the surrogate's own doors."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.errors import InputError
from calm_pde.records.inputs import Inputs
from calm_pde.report import tokens
from calm_pde.report.tokens import physical, token_influence
from tests.clouds import random_cloud
from tests.report.surrogates import tiny

VALUES = random_cloud(40, 2, seed=1)


@torch.no_grad()
def direct(surrogate: cp.Surrogate, values, points, queries, frames: int, seed: int):
    """Each token alone, whole frames one after the other, physical fields subtracted."""
    model = surrogate.model
    z, p = model.encode(values[None], points)
    noise = torch.randn(z.shape[1:], generator=torch.Generator().manual_seed(seed)).double()

    def physical(latent):
        for _ in range(frames):
            latent = model.advance(latent, p, 1)[:, -1]
        return surrogate.card.statistics.physical(model.decode(latent[:, None], p, queries))[0, 0]

    changes = []
    for token in range(z.shape[1]):
        noisy = z.clone()
        noisy[0, token] += float(z.flatten().std()) * noise[token]
        changes.append((physical(noisy) - physical(z)).abs())
    return torch.stack(changes).detach().numpy()


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("task", ["rollout", "steady", "autoencoder"])
def test_influence_equals_one_token_at_a_time(dim, task, monkeypatch):
    monkeypatch.setattr(tokens, "_VALUES", 2 * 2 * 17 * 2)  # two tokens together for a rollout, four otherwise
    surrogate, points, queries = tiny(dim, task=task), random_cloud(40, dim), random_cloud(17, dim, seed=2)
    found = token_influence(surrogate, VALUES, points, 3.0, queries=queries, seed=7)
    assert found.at_once.shape == (5, 17, 2)
    first = 1 if task == "steady" else 0
    np.testing.assert_allclose(found.at_once, direct(surrogate, VALUES, points, queries, first, 7), atol=1e-12)
    assert found.at_once.max() > 1e-3
    if task != "rollout":
        assert found.last is None
        return
    assert found.last is not None
    np.testing.assert_allclose(found.last, direct(surrogate, VALUES, points, queries, 3, 7), atol=1e-12)
    assert np.abs(found.last - found.at_once).max() > 1e-3


def test_influence_where_tokens_follow_the_state():
    """At the positions that this state gives them."""
    encoder = tiny().model.config.model_dump()["encoder"] | {"reach": (0.5, 0.5)}
    surrogate, points = tiny(encoder=encoder), random_cloud(40, 2)
    found = token_influence(surrogate, VALUES, points, 3.0, seed=7)
    assert found.last is not None
    np.testing.assert_allclose(found.last, direct(surrogate, VALUES, points, points, 3, 7), atol=1e-12)
    _, positions = surrogate.model.tokens(Inputs(VALUES[None], points))
    expected = surrogate.description.box.to_physical(positions[0].detach()).numpy()
    difference = np.abs(found.positions - expected)
    assert np.minimum(difference[:, 0], np.abs(difference[:, 0] - 2)).max() < 1e-12  # one of its periodic images
    assert difference[:, 1].max() < 1e-12


def test_influence_does_not_depend_on_the_chunks(monkeypatch):
    surrogate, points = tiny(), random_cloud(40, 2)
    whole = token_influence(surrogate, VALUES, points)
    monkeypatch.setattr(tokens, "_VALUES", 1)
    seen: list[tuple[int, int]] = []
    single = token_influence(surrogate, VALUES, points, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(token, 5) for token in range(1, 6)]
    np.testing.assert_allclose(single.at_once, whole.at_once, atol=1e-12)
    np.testing.assert_allclose(single.last, whole.last, atol=1e-12)
    other = token_influence(surrogate, VALUES, points, seed=1)
    assert np.abs(other.at_once - whole.at_once).max() > 1e-3


def test_influence_is_local_where_the_decoder_is():
    """A decoder of one external layer: a point changes exactly where the token is in its receptive field."""
    decoder = {"channels": (), "num_queries": (), "receptive_field": (0.4,), "temperature": (1.0,)}
    surrogate, points = tiny(task="autoencoder", decoder=decoder), random_cloud(40, 2)
    found = token_influence(surrogate, VALUES, points)
    near = surrogate.model.neighbors(points).decoder[0]
    seen = np.zeros((5, 40), dtype=bool)
    for query in range(40):
        seen[near.indices[0, query][near.valid[0, query]].numpy(), query] = True
    np.testing.assert_array_equal((found.at_once > 1e-9).all(axis=-1), seen)
    np.testing.assert_array_equal((found.at_once > 1e-9).any(axis=-1), seen)


def test_positions_are_physical_and_inside():
    surrogate = tiny()
    with torch.no_grad():
        surrogate.model.encoder[-1].queries[0] = torch.tensor([-0.25, 0.5])
    found = token_influence(surrogate, VALUES, random_cloud(40, 2))
    np.testing.assert_allclose(found.positions[0], [1.5, 0.5])


def test_a_batch_is_refused():
    with pytest.raises(InputError, match="one sample"):
        token_influence(tiny(), VALUES[None], random_cloud(40, 2))


def test_positions_are_physical_and_in_the_box_along_periodic_axes():
    """Wherever training took a query point; beyond a wall it stays where it is."""
    surrogate = tiny()
    with torch.no_grad():
        surrogate.model.encoder[0].queries[0] = torch.tensor([1.25, 1.5])
    layers = surrogate.model.query_points()
    assert [layer.name for layer in layers] == ["encoder 1", "encoder 2", "decoder 1"]
    found = [physical(layer.positions, surrogate.card.box) for layer in layers]
    np.testing.assert_allclose(found[0][0], [0.5, 1.5])
    unit = surrogate.model.encoder[1].queries.detach().numpy()
    np.testing.assert_allclose(found[1], np.stack([2 * (unit[:, 0] % 1), unit[:, 1]], axis=1))
    assert surrogate.model.latent_shape() == (5, 6)
