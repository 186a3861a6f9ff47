"""Query points by layer, and points spread over a domain."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.geometry import spread_out
from calm_pde.report.queries import query_points
from tests.clouds import grid, random_cloud
from tests.report.surrogates import tiny


@pytest.mark.parametrize("learnable", [True, False])
def test_query_points_of_all_layers_that_own_some(learnable):
    surrogate = tiny(learnable_queries=learnable)
    model, box = surrogate.model, surrogate.card.box
    with torch.no_grad():
        model.encoder[0].queries[0] = torch.tensor([1.25, 1.5])  # beyond the period, and beyond the wall
    found = query_points(model, box)
    assert [layer.name for layer in found] == ["encoder 1", "encoder 2", "decoder 1"]
    assert [layer.positions.shape for layer in found] == [(12, 2), (5, 2), (9, 2)]
    assert [layer.learned for layer in found] == [learnable] * 3
    np.testing.assert_allclose(found[0].positions[0], [0.5, 1.5])
    unit = model.encoder[1].queries.detach().numpy()
    np.testing.assert_allclose(found[1].positions, np.stack([2 * (unit[:, 0] % 1), unit[:, 1]], axis=1))


def test_latent_shape():
    assert tiny().model.latent_shape() == (5, 6)


def test_spread_points_are_farther_apart_than_chance():
    points = random_cloud(500, 2)
    chosen = points[spread_out(points, 8, (False, False))]
    assert float((chosen[0] - 0.5).norm()) < 0.05
    assert float(torch.pdist(chosen).min()) > 0.3
    assert len(spread_out(points[:5], 8, (False, False)).unique()) == 5
    assert spread_out(points[:1].repeat(4, 1), 3, (False, False)).unique().numel() == 3


def test_spread_points_know_periodic_axes():
    """Of two points at the two ends of a periodic axis, only one is far from the middle."""
    points = torch.tensor([[0.5], [0.01], [0.99], [0.25]], dtype=torch.float64)
    assert spread_out(points, 3, (False,)).tolist() == [0, 1, 2]
    assert spread_out(points, 3, (True,)).tolist() == [0, 1, 3]
    assert sorted(spread_out(grid(4, 2), 2, (True, True)).tolist()) == [0, 10]
