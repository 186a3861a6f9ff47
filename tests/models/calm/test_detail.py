"""The detail path: against the oracle, beside a model without it, and refused where it can't be."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.errors import ConfigError, InputError
from tests import oracle
from tests.clouds import random_cloud, relative_error
from tests.models.calm.test_model import perturbed, small

DETAIL = {"channels": 4, "receptive_field": 0.4, "temperature": 0.5}


@pytest.mark.parametrize("own_meshes", [False, True])
def test_it_equals_the_oracle(own_meshes):
    model = perturbed(small(detail=DETAIL, node_types=(0, 4)).build()).double()
    points = torch.stack([random_cloud(20, 2, seed) for seed in (1, 2)])
    points = points if own_meshes else points[0]
    values, kinds = random_cloud(40, 2, seed=3).view(2, 20, 2) - 0.5, torch.tensor([0, 4])[torch.arange(20) % 2]
    mask = torch.arange(20) < torch.tensor([[20], [13]]) if own_meshes else None
    queries = random_cloud(6, 2, seed=4)
    found = model(values, points, 2, queries, mask, kinds)

    z, p = model.encode(values, points, mask, kinds)
    decoded, _ = model.decoder.convolve(model.advance(z, p, 2)[:, 1:], p, queries)
    w = oracle.weights_of(model)
    read = {name.removeprefix("detail.read."): value for name, value in w.items() if name.startswith("detail.read.")}
    for sample in range(2):
        x = np.concatenate([values[sample].numpy(), [w["node_types.weight"][point % 2] for point in range(20)]], axis=1)
        where = (points[sample] if own_meshes else points).numpy()
        real = None if mask is None else mask[sample].nonzero().flatten().tolist()
        options = {"percentile": 0.4, "temperature": 0.5, "periodic": (True, False), "external": True}
        seen = oracle.layer(read, x, where, queries.numpy(), real=real, **options)
        for step in range(2):
            both = decoded[sample, step].detach().numpy()
            expected = both[:, :3] + oracle.gelu_all(both[:, 3:] + seen) @ w["detail.write.weight"].T
            assert relative_error(found[sample, step], torch.from_numpy(expected)) < 1e-12


def test_a_fresh_model_answers_without_it():
    with_detail, without = small(detail=DETAIL).build(seed=1), small().build(seed=1)
    last = without.decoder[-1]
    with torch.no_grad():  # of the last layer's answers it has more
        last.kernel.filters.copy_(with_detail.decoder[-1].kernel.filters[..., :3])
        last.mix.load_state_dict(with_detail.decoder[-1].mix.state_dict())
        last.kernel.hidden.load_state_dict(with_detail.decoder[-1].kernel.hidden.state_dict())
        last.kernel.fourier.load_state_dict(with_detail.decoder[-1].kernel.fourier.state_dict())
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    assert relative_error(with_detail(values, points, 3), without(values, points, 3)) < 1e-5


def test_decoding_wants_the_state_that_was_encoded():
    model = perturbed(small(detail=DETAIL).build())
    points, values = torch.rand(20, 2), torch.randn(2, 20, 2)
    z, p = model.encode(values, points)
    zs = model.advance(z, p, 2)
    with pytest.raises(InputError, match=r"start: expected the state that was encoded.*got none.*cp\.Inputs"):
        model.decode(zs, p, points)
    with pytest.raises(InputError, match="start: expected a state for each of the 2 samples of zs, got 1"):
        model.decode(zs, p, points, start=cp.Inputs(values[:1], points))
    with pytest.raises(InputError, match="values"):
        model.decode(zs, p, points, start=cp.Inputs(values[..., :1], points))
    neighbors = model.neighbors(points)
    found = model.decode(zs, p, points, neighbors, cp.Inputs(values, points))
    assert relative_error(found[:, 1:], model(values, points, 2, neighbors=neighbors)) < 1e-6
    assert relative_error(found[:, 1:], model(values, points, 2)) < 1e-5


def test_changes_of_the_state_reach_the_answer_past_the_tokens():
    """With the tokens as they were, another state is another answer, and only within reach of where it differs."""
    model = perturbed(small(detail=DETAIL | {"receptive_field": 0.1}).build())
    points, values = random_cloud(40, 2).float(), torch.randn(1, 40, 2)
    z, p = model.encode(values, points)
    zs = model.advance(z, p, 1)
    other = values.clone()
    other[:, 7] += 1
    with torch.no_grad():
        answers = [model.decode(zs, p, points, start=cp.Inputs(state, points)) for state in (values, other)]
    change = (answers[1] - answers[0])[0].abs()
    assert model.detail is not None
    assert model.detail.read is not None
    near = (model.detail.read.neighbors(points, points).indices[0] == 7).any(dim=1)
    assert float(change[:, near].max()) > 1e-4
    assert float(change[:, ~near].max()) < 1e-6


def test_it_counts_in_the_predicted_peak():
    without, with_detail = small().build(), small(detail=DETAIL | {"channels": 64}).build()
    assert with_detail.predicted_peak(500, 8, 5) > without.predicted_peak(500, 8, 5) + 4 * 500 * 8 * 6 * 64


def test_an_autoencoder_has_none():
    with pytest.raises(ConfigError, match="detail: an autoencoder"):
        small(detail=DETAIL, task="autoencoder")
