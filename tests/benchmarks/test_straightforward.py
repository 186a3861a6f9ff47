"""Both sides of the benchmarks compute the same numbers, gradients included."""

from __future__ import annotations

import torch

from benchmarks import straightforward
from tests.clouds import grid, random_cloud, relative_error
from tests.models.calm.test_model import perturbed, small


def test_the_straightforward_version_is_the_same_model():
    model = perturbed(small(out_channels=2).build()).double()
    for points in (random_cloud(30, 2), grid(5, 2)):
        values, queries = random_cloud(3 * len(points), 2, seed=1).view(3, -1, 2), random_cloud(9, 2, seed=2)
        results = []
        for ours in (True, False):
            model.zero_grad()
            if ours:
                u = model(values, points, 3, queries)
            else:
                z, p = straightforward.encode(model, values, points)
                u = straightforward.decode(model, straightforward.advance(model, z, p, 3)[:, 1:], p, queries)
            u.square().sum().backward()
            results.append((u, [parameter.grad.clone() for parameter in model.parameters()]))
        (u, grads), (v, others) = results
        assert relative_error(u, v) < 1e-12
        scale = max(float(grad.abs().max()) for grad in others)
        assert all(float((a - b).abs().max()) < 1e-11 * scale for a, b in zip(grads, others, strict=True))
        assert bool(torch.isfinite(u).all())
