"""Kernel weights are what a unit impulse at one neighbor gives, in the oracle and in the layer itself."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import calm_pde as cp
from calm_pde.errors import InputError
from calm_pde.models.calm.kernel_weights import kernel_weights, named_layers
from tests import oracle
from tests.clouds import grid, random_cloud
from tests.report.surrogates import tiny

CASES = {
    "plain": {},
    "no modulation": {"modulation": False},
    "1/M weighting": {"weighting": "mean"},
    "distance kernel": {"kernel": "distance"},
}


def nearest(positions: np.ndarray, at: np.ndarray, box: cp.Box) -> int:
    """Which of the unit positions stands at a physical one, periodic images counted as one."""
    away = [oracle.norm_squared(oracle.difference(box.to_unit(at), position, box.periodic)) for position in positions]
    assert min(away) < 1e-20
    return int(np.argmin(away))


@pytest.mark.parametrize(("dim", "case"), [(1, "plain"), (3, "plain"), *((2, case) for case in CASES)])
def test_weights_are_the_answers_to_impulses(dim, case):
    surrogate = tiny(dim, **CASES[case])
    model, box, points = surrogate.model, surrogate.card.box, random_cloud(30, dim)
    found = kernel_weights(model, points, box, num_queries=2, max_filters=4)
    assert [layer.name for layer in found] == ["encoder 1", "encoder 2", "decoder 1", "decoder 2"]
    cloud = points
    for kernels, (_, layer) in zip(found, named_layers(model), strict=True):
        where = points if layer.queries is None else layer.queries.detach()
        bare = bare_convolution(layer)
        options = {"percentile": layer.receptive_field, "temperature": getattr(layer.kernel, "temperature", 1.0)}
        weighting = CASES[case].get("weighting", "softmax")
        weights = oracle.weights_of(bare)
        assert kernels.num_filters == min(4, layer.out_channels)
        assert len(kernels.queries) == 2
        for kernel in kernels.queries:
            query = nearest(where.numpy(), kernel.at, box)
            members = [nearest(cloud.numpy(), point, box) for point in kernel.points]
            assert members == oracle.receptive_field(
                where[query].tolist(), cloud.tolist(), range(len(cloud)), layer.receptive_field, layer.periodic
            )
            impulse = np.zeros((len(cloud), layer.in_channels))
            for row, member in zip(kernel.weights, members, strict=True):
                impulse[:] = 0
                impulse[member, 0] = 1
                theirs = oracle.layer(
                    weights_at(weights, query),
                    impulse,
                    cloud.numpy(),
                    where[query : query + 1].numpy(),
                    periodic=layer.periodic,
                    external=True,
                    weighting=weighting,
                    **options,
                )[0]
                np.testing.assert_allclose(row, theirs[:4], atol=1e-12)
                queries = where if layer.queries is None else None
                ours = bare.convolve(torch.from_numpy(impulse), cloud, queries)[0][query]
                np.testing.assert_allclose(row, ours.detach()[:4], atol=1e-12)
        cloud = where


def bare_convolution(layer: cp.CalmLayer) -> cp.CalmLayer:
    """The layer without the maps around its convolution."""
    bare = copy.deepcopy(layer)
    with torch.no_grad():
        bare.mix.weight.copy_(torch.eye(layer.in_channels))
        bare.mix.bias.zero_()
        bare.bias.zero_()
    bare.mlp = None
    return bare


def weights_at(weights: dict[str, np.ndarray], query: int) -> dict[str, np.ndarray]:
    """For one query: its own modulation."""
    modulated = {name: weights[name][query : query + 1] for name in ("kernel.scale", "kernel.shift") if name in weights}
    return weights | modulated


def test_images_stand_next_to_the_query():
    """On a periodic grid with a full neighborhood, no neighbor is farther than half a period along the periodic axis."""
    surrogate = tiny(periodic=(True, False))
    points = grid(8, 2)
    kernels = kernel_weights(surrogate.model, points, surrogate.card.box)
    beyond = 0
    for layer in kernels:
        for kernel in layer.queries:
            assert 0 <= kernel.at[0] < 2
            assert np.abs(kernel.points[:, 0] - kernel.at[0]).max() <= 1
            beyond += int((kernel.points[:, 0] < 0).sum() + (kernel.points[:, 0] > 2).sum())
    assert beyond > 0
    assert [len(layer.queries) for layer in kernels] == [8, 5, 8, 8]


def test_a_batch_of_meshes_is_refused():
    surrogate = tiny()
    with pytest.raises(InputError, match="one mesh"):
        kernel_weights(surrogate.model, random_cloud(9, 2)[None], surrogate.card.box)
