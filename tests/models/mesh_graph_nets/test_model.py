"""MeshGraphNets: counts, a step against loops in numpy, who is heard how far, and what moving a mesh changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial import Delaunay

from calm_pde.errors import ConfigError, InputError
from calm_pde.models.mesh_graph_nets.levels import farthest_points
from calm_pde.models.mesh_graph_nets.model import MeshGraphNets, MeshGraphNetsConfig
from calm_pde.models.size import num_parameters
from tests.clouds import grid, random_cloud, relative_error


def small(**changes: Any) -> MeshGraphNets:
    sizes = {"dim": 2, "in_channels": 2, "out_channels": 2, "width": 5, "steps": 3}
    return MeshGraphNetsConfig.model_validate(sizes | changes).build(seed=1).double()


def noise(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def triangles(points: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(Delaunay(points.numpy()).simplices).long()


def parameters(inputs: int, kinds: int, dim: int, fields: int, width: int, steps: int) -> int:
    """The closed form: MLP(n) = w(n + 1) + 2·w(w + 1) + 2w."""

    def mlp(n: int) -> int:
        return width * (n + 1) + 2 * width * (width + 1) + 2 * width

    decoder = 2 * width * (width + 1) + fields * (width + 1)
    return mlp(inputs + kinds) + mlp(dim + 1) + steps * (mlp(3 * width) + mlp(2 * width)) + decoder


def test_the_published_count():
    assert num_parameters(MeshGraphNetsConfig.preset("cylinder_2d").build()) == 2_332_930
    assert parameters(2, 9, 2, 2, 128, 15) == 2_332_930


@pytest.mark.parametrize("name", MeshGraphNetsConfig.presets)
def test_counts_of_the_presets(name):
    config = MeshGraphNetsConfig.preset(name)
    sizes = (config.in_channels, len(config.node_types), config.dim, config.out_channels, config.width, config.steps)
    model = config.build()
    assert num_parameters(model) == parameters(*sizes)
    if name.endswith("_small"):
        assert num_parameters(model) <= 500_000
        coarser = config.model_copy(update={"multi_scale": True}).build()
        w = config.width
        edges, step = parameters(0, 0, config.dim, 0, w, 0), parameters(0, 0, 0, 0, w, 1) - parameters(0, 0, 0, 0, w, 0)
        encoder = edges - parameters(0, 0, 0, 0, w, 0) + (w + 2 * w * (w + 1) + 2 * w + w)
        assert num_parameters(coarser) - num_parameters(model) == 3 * encoder + 8 * step


def test_equals_loops_in_numpy():
    """Node by node and edge by edge, with the weights by name, on triangles and their statistics."""
    model = small(cells=True, node_types=(0, 4), steps=2)
    points, u, kinds = random_cloud(14, 2), noise(14, 2), torch.tensor([0, 4] * 7)
    with torch.no_grad():
        model.processor.encoder.mean.copy_(torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64))
        model.processor.encoder.std.copy_(torch.tensor([0.5, 0.6, 0.2], dtype=torch.float64))
        model.deviation.copy_(torch.tensor([0.3, 2.0], dtype=torch.float64))
    weights = {name: value.detach().numpy() for name, value in model.named_parameters()}

    def mlp(name: str, x: np.ndarray) -> np.ndarray:
        for part in ("first", "second", "last"):
            x = weights[f"{name}.{part}.weight"] @ x + weights[f"{name}.{part}.bias"]
            x = x if part == "last" else np.maximum(x, 0)
        if f"{name}.norm.weight" not in weights:
            return x
        scaled = (x - x.mean()) / np.sqrt(x.var() + 1e-5)
        return scaled * weights[f"{name}.norm.weight"] + weights[f"{name}.norm.bias"]

    edges = {}
    for cell in triangles(points).tolist():
        for i in cell:
            for j in cell:
                if i != j:
                    away = (points[i] - points[j]).numpy()
                    feature = (np.append(away, np.linalg.norm(away)) - [0.1, -0.2, 0.3]) / [0.5, 0.6, 0.2]
                    edges[i, j] = mlp("processor.encoder.mlp", feature)
    nodes = [mlp("encoder", np.append(u[i].numpy(), [kinds[i] == 0, kinds[i] == 4])) for i in range(14)]
    for step in range(2):
        name = f"processor.steps.{step}"
        edges = {(i, j): e + mlp(f"{name}.edges", np.concatenate([e, nodes[i], nodes[j]])) for (i, j), e in edges.items()}
        sums = [sum(e for (i, _), e in edges.items() if i == node) for node in range(14)]
        nodes = [v + mlp(f"{name}.nodes", np.concatenate([v, total])) for v, total in zip(nodes, sums, strict=True)]
    expected = np.stack([u[i].numpy() + [0.3, 2.0] * mlp("decoder", nodes[i]) for i in range(14)])
    found = model(u[None], points, 1, node_type=kinds, cells=triangles(points))
    assert relative_error(found[0, 0], torch.from_numpy(expected)) < 1e-12


@pytest.mark.parametrize("changes", [{}, {"cells": True}, {"multi_scale": True}, {"periodic": True}], ids=str)
@pytest.mark.parametrize("make", [lambda: random_cloud(60, 2) / 2, lambda: grid(8, 2)], ids=["scattered", "grid"])
def test_moving_all_points_changes_nothing(changes, make):
    points, model = make(), small(**changes)
    told = {"cells": triangles(points)} if changes.get("cells") else {}
    u = noise(1, len(points), 2)
    found = model(u, points, 2, **told)
    assert relative_error(model(u, points + torch.tensor([0.37, 0.11]).double(), 2, **told), found) < 1e-10
    assert relative_error(model(u, points * torch.tensor([1.0, 0.5]).double(), 2, **told), found) > 1e-6


def reached(model: MeshGraphNets, points: torch.Tensor, place: int) -> set[int]:
    """Where one step answers otherwise when something happens at a point."""
    u = noise(1, len(points), 2)
    moved = u.clone()
    moved[0, place] += 1
    changed = (model(moved, points, 1) - model(u, points, 1)).detach().abs().amax(dim=-1)[0, 0]
    return set((changed > 0).nonzero().flatten().tolist())


def test_a_point_is_heard_as_many_edges_away_as_there_are_steps():
    line = torch.linspace(0, 1, 31)[:, None].double()
    model = small(dim=1, steps=3)
    assert reached(model, line, 15) == set(range(12, 19))
    assert reached(model, line, 0) == {0, 1, 2, 3, 4}  # of the two nearest to an end, one is two points away
    around = small(dim=1, steps=3, periodic=True)
    assert reached(around, line[:-1], 0) == {27, 28, 29, 0, 1, 2, 3}
    far = small(dim=1, steps=2, multi_scale=True)
    assert min(reached(far, line, 15)) < 10  # by points that stand for others


def test_the_answer_is_a_change():
    """Without a decoder nothing changes; twice the deviation of differences is twice the change."""
    model, points, u = small(), random_cloud(20, 2), noise(1, 20, 2)
    change = model(u, points, 1)[:, 0] - u
    with torch.no_grad():
        model.deviation.mul_(2)
    assert relative_error(model(u, points, 1)[:, 0] - u, 2 * change) < 1e-12
    with torch.no_grad():
        model.decoder.last.weight.zero_()
        model.decoder.last.bias.zero_()
    assert torch.equal(model(u, points, 3), u[:, None].expand(1, 3, 20, 2))


@pytest.mark.parametrize("multi_scale", [False, True])
def test_steps_computed_again_give_the_same_gradient(multi_scale):
    points, u, found = random_cloud(30, 2), noise(2, 30, 2), []
    for budget in (2**10, 2**30):
        model = small(memory_budget=budget, multi_scale=multi_scale)
        model(u, points, 2).square().sum().backward()
        found.append([parameter.grad for parameter in model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*found, strict=True))


def test_farthest_points_are_far_apart_and_nobody_counts_them():
    points = grid(4, 2)
    assert sorted(farthest_points(points, 4, (True, True)).tolist()) in ([0, 2, 8, 10], [1, 3, 9, 11], [5, 7, 13, 15])
    cloud, order = random_cloud(50, 2), torch.randperm(50, generator=torch.Generator().manual_seed(0))
    chosen = farthest_points(cloud, 13, (False, False))
    assert set(order[farthest_points(cloud[order], 13, (False, False))].tolist()) == set(chosen.tolist())
    apart = torch.cdist(cloud[chosen], cloud[chosen]) + torch.eye(13)
    covered = torch.cdist(cloud, cloud[chosen]).min(dim=1).values.max()
    assert float(apart.min()) >= float(covered)  # nobody is farther from the chosen than they from one another


@pytest.mark.parametrize("periodic", [False, True])
def test_ties_of_the_farthest_points_are_not_broken_by_rounding(periodic):
    """On a grid, wherever it lies."""
    points, axes = grid(6, 2), (periodic,) * 2
    for shift in random_cloud(20, 2):
        assert torch.equal(farthest_points(points + shift, 9, axes), farthest_points(points, 9, axes))


def test_what_it_can_not_do_is_refused():
    model, points, u = small(), random_cloud(20, 2), noise(1, 20, 2)
    with pytest.raises(InputError, match=r"queries: expected none, since MeshGraphNets answers at its points alone.*calm"):
        model(u, points, 1, queries=points[:5])
    with pytest.raises(InputError, match=r"times: expected whole frames"):
        model.rollout(u, points, [0.5])
    with pytest.raises(InputError, match="cells: expected none, got some, and this model reads no cells"):
        model(u, points, 1, cells=triangles(points))
    told, cells = small(cells=True), triangles(points)
    for wrong, message in (
        (None, r"cells: expected \(cell, corner\), the points at the corners of each cell, got none"),
        (cells + 1, r"cells: expected indices 0 … 19 of points, got 1 … 20"),
        (cells.int(), r"cells: expected int64 of shape \(cell, corner\)"),
        (cells[None].expand(3, -1, -1), r"cells: expected int64 .*\(1, cell, corner\).*got torch.int64 of shape \(3,"),
    ):
        with pytest.raises(InputError, match=message):
            told(u, points, 1, cells=wrong)
    with pytest.raises(ConfigError, match="a frame follows a frame"):
        small(out_channels=3)
