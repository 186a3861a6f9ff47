"""Every order of the contraction, in every chunking, equals the oracle, and so do its gradients the plain formula's."""

from __future__ import annotations

import itertools

import pytest
import torch

import calm_pde as cp
from calm_pde.engine.orders import DENSE, KERNEL, ORDERS, POOL, PUSH, Sizes, lifting, pairs
from calm_pde.engine.orders.pairs import point_pairs
from calm_pde.engine.plan import DEFAULT_BUDGET, Plan, chunk_bytes, plan
from tests import oracle
from tests.clouds import grid, random_cloud, relative_error
from tests.models.calm.test_layer import perturb

CHUNKS = (1, 7, 10**6)
# one chunking each, every order whole, and row blocks and recomputed activations somewhere
PLANS = [Plan(order, 10**6, 10**6, True) for order in ORDERS]
PLANS += [
    Plan(order, chunk, rows, keep)
    for order, chunk, rows, keep in zip(ORDERS, (*CHUNKS, 4), (2, 1, 2, 1), (False, True, False, True), strict=True)
]
PLANS += [Plan(order, chunk, 10**6, True, True, True) for order, chunk in zip(ORDERS, (7, 10**6, 1, 3), strict=True)]
PLANS += [Plan(order, chunk, 3, False) for order, chunk in itertools.product(ORDERS, (1, 7))]
# `push` takes few points one by one, and more in groups; rows that would fill pages lie a line apart
CASES = [
    (chosen, few, page)
    for chosen in PLANS
    for few in ([0, 32] if chosen.order is PUSH else [32])
    for page in ([8, 4096] if chosen.order.by_point else [4096])
]


def layer_of(external: bool, chosen: Plan | None = None, **options) -> cp.CalmLayer:
    layer = cp.CalmLayer(
        3,
        2,
        2,
        num_queries=None if external else 10,
        receptive_field=0.2,
        periodic=(True, False),
        generator=torch.Generator().manual_seed(1),
        **options,
    ).double()
    perturb(layer)
    if chosen is not None:
        layer.plan = lambda sizes: chosen  # pyright: ignore[reportAttributeAccessIssue]
    return layer


@pytest.mark.parametrize(("chosen", "few", "page"), CASES, ids=str)
@pytest.mark.parametrize("external", [False, True], ids=["learned", "external"])
@pytest.mark.parametrize("ties", [False, True], ids=["cloud", "grid"])
def test_every_order_and_chunk_equals_the_oracle(chosen, few, page, external, ties, monkeypatch):
    monkeypatch.setattr(pairs, "_FEW_POINTS", few)
    monkeypatch.setattr(lifting, "_PAGE", page)
    layer = layer_of(external, chosen)
    points = grid(5, 2) if ties else random_cloud(25, 2)
    x = random_cloud(5 * 25, 3, seed=1).view(5, 25, 3)
    queries = torch.cat([points[:5], random_cloud(6, 2, seed=2)]) if external else None
    y, q = layer(x, points, queries)
    for row in range(5):
        expected = oracle.layer(
            oracle.weights_of(layer),
            x[row].numpy(),
            points.numpy(),
            q.detach().numpy(),
            percentile=0.2,
            temperature=1.0,
            periodic=(True, False),
            external=external,
        )
        assert relative_error(y[row], torch.from_numpy(expected)) < 1e-12


@pytest.mark.parametrize(("chosen", "few", "page"), CASES, ids=str)
@pytest.mark.parametrize("external", [False, True], ids=["learned", "external"])
def test_every_order_and_chunk_has_the_same_gradients(chosen, few, page, external, monkeypatch):
    """Against the order `kernel` in one chunk, which gradcheck has passed in test_layer."""
    monkeypatch.setattr(pairs, "_FEW_POINTS", few)
    monkeypatch.setattr(lifting, "_PAGE", page)

    def gradients(layer: cp.CalmLayer) -> list[torch.Tensor]:
        x = random_cloud(2 * 2 * 25, 3, seed=1).view(2, 2, 25, 3).requires_grad_()
        points = torch.stack([grid(5, 2), random_cloud(25, 2)]).requires_grad_()
        queries = random_cloud(14, 2, seed=2).view(2, 7, 2).requires_grad_() if external else None
        mask = torch.arange(25) < torch.tensor([[25], [17]])
        y, _ = layer(x, points, queries, mask=mask)
        (y * torch.linspace(0.5, 2, y.numel(), dtype=torch.float64).view_as(y)).sum().backward()
        leaves = [x, points, *([] if queries is None else [queries]), *layer.parameters()]
        assert all(leaf.grad is not None for leaf in leaves)
        return [leaf.grad for leaf in leaves if leaf.grad is not None]

    expected = gradients(layer_of(external, Plan(KERNEL, 10**6, 10**6, True)))
    for found, wanted in zip(gradients(layer_of(external, chosen)), expected, strict=True):
        assert relative_error(found, wanted) < 1e-11


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["a direction", "every entry"])
@pytest.mark.parametrize("chosen", PLANS[:4], ids=str)
def test_gradcheck_of_every_order(chosen, whole):
    layer = layer_of(False, chosen, kernel_width=3, fourier_width=4)
    points = random_cloud(8, 2)
    neighbors = layer.neighbors(points)
    names = [name for name, _ in layer.named_parameters()]

    def output(x, points, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, points, None, None, neighbors))[
            0
        ]

    inputs = [random_cloud(8, 3, seed=3)[None], points, *(parameter.detach() for parameter in layer.parameters())]
    assert torch.autograd.gradcheck(output, [value.clone().requires_grad_() for value in inputs], fast_mode=not whole)


@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
@pytest.mark.parametrize("rows", [3, 70], ids=["few rows", "many rows"])
def test_pointwise_part_for_few_and_many_rows(rows, kept):
    """Both layouts of the pointwise MLP, forward and backward, against the module's own formula."""
    layer = layer_of(False, Plan(KERNEL, 3, 10**6, True, keep_hidden=kept))
    bare = layer_of(False, Plan(KERNEL, 3, 10**6, True))
    x, points = random_cloud(rows * 25, 3).view(rows, 25, 3), random_cloud(25, 2)
    y, _ = layer(x, points)
    bare.dropout.p = 1e-300  # training with dropout takes the plain path, and this much drops nothing
    z, _ = bare(x, points)
    assert relative_error(y, z) < 1e-12
    for value in (y, z):
        value.square().sum().backward()
    for ours, plain in zip(layer.parameters(), bare.parameters(), strict=True):
        assert relative_error(ours.grad, plain.grad) < 1e-11  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("kept", [False, True], ids=["again", "kept"])
@pytest.mark.parametrize("rows", [3, 70, 140], ids=["few rows", "many rows", "rows in parts"])
def test_float32_is_the_same_but_for_rounding(rows, kept):
    """PyTorch has other code for float32 than for float64, which all comparisons with the oracle take."""
    chosen = Plan(KERNEL, 3, 70, True, kept and rows <= 70, kept)
    results = []
    for dtype in (torch.float64, torch.float32):
        layer = layer_of(False, chosen).to(dtype)
        x, points = random_cloud(rows * 25, 3).view(rows, 25, 3).to(dtype).requires_grad_(), random_cloud(25, 2).to(dtype)
        y, _ = layer(x, points)
        y.square().sum().backward()
        results.append([y, x.grad, *(parameter.grad for parameter in layer.parameters())])
    assert all(relative_error(b.double(), a) < 1e-4 for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_distance_kernel_in_chunks(chunk):
    whole = layer_of(False, kernel="distance")
    chunked = layer_of(False, Plan(KERNEL, chunk, 1, False), kernel="distance")
    x, points = random_cloud(50, 3).view(2, 25, 3), random_cloud(25, 2)
    results = []
    for layer in (whole, chunked):
        y, _ = layer(x, points)
        y.square().sum().backward()
        results.append([y, *(parameter.grad for parameter in layer.parameters())])
    assert all(relative_error(a, b) < 1e-11 for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("few", [0, 100], ids=["groups", "one by one"])
def test_pairs_of_a_push_are_complete(few, monkeypatch):
    monkeypatch.setattr(pairs, "_FEW_POINTS", few)
    layer = layer_of(True)
    found = layer.neighbors(grid(6, 2), torch.cat([grid(6, 2)[:9], random_cloud(20, 2)]))
    index, valid = found.indices[0], found.valid[0]
    pushed = point_pairs(index, valid)
    seen = {}
    place = 0
    for points, served, queries in pushed.groups:
        for point, *slots in zip([points] if isinstance(points, int) else points.tolist(), served, queries, strict=True):
            for pair, query in torch.stack(slots, dim=1).tolist():
                if query < len(index):
                    assert query == pair // index.shape[1]
                    seen[place] = (pair, point)
                place += 1
    assert place == pushed.num_slots
    assert sorted(pair for pair, _ in seen.values()) == valid.flatten().nonzero().flatten().tolist()
    for place, (pair, point) in seen.items():
        assert int(index.flatten()[pair]) == point
        assert int(pushed.position.flatten()[pair]) == place
    assert bool((pushed.position[~valid] == pushed.num_slots).all())


# the six layers of the 2-D Navier-Stokes preset, batch 8, 20 frames, and what each should take
LAYERS = [
    (Sizes(4096, 1024, 41, 8, 1, 32, 33, True), POOL),
    (Sizes(1024, 256, 11, 8, 32, 64, 33, True), POOL),
    (Sizes(256, 16, 52, 8, 64, 128, 33, True), POOL),
    (Sizes(16, 256, 4, 160, 128, 64, 33, True), PUSH),
    (Sizes(16, 256, 8, 160, 128, 64, 33, True), DENSE),
    (Sizes(256, 1024, 3, 160, 64, 32, 33, True), KERNEL),
    (Sizes(1024, 4096, 11, 160, 32, 1, 33, False), PUSH),
    (Sizes(1024, 262144, 2, 21, 64, 5, 33, False), PUSH),
]


@pytest.mark.parametrize(("sizes", "order"), LAYERS)
def test_the_cost_model_picks_the_known_best(sizes, order):
    assert plan(sizes, DEFAULT_BUDGET).order is order


@pytest.mark.parametrize("budget", [2**20, 2**24, DEFAULT_BUDGET])
@pytest.mark.parametrize(("sizes", "order"), LAYERS)
def test_chunks_stay_within_the_budget(sizes, order, budget):
    chosen = plan(sizes, budget)
    assert 1 <= chosen.chunk <= sizes.queries
    assert 1 <= chosen.rows <= sizes.rows
    assert chosen.chunk == 1 or chosen.chunk * chunk_bytes(chosen.order, sizes, chosen.rows) <= budget // 4
    assert plan(sizes, budget) == chosen


def test_bfloat16_is_close_and_keeps_geometry_precise():
    layer = layer_of(False).float()
    x, points = torch.randn(2, 25, 3), torch.rand(25, 2)
    precise, _ = layer(x, points)
    precise.square().sum().backward()
    expected = [parameter.grad.clone() for parameter in layer.parameters() if parameter.grad is not None]
    layer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow, _ = layer(x, points)
        work, *_ = layer.work(layer.neighbors(points), points, layer.where(None), 1, 25, 2)
        where = layer.where(None)
        features = work.features(slice(0, 10), points, where, layer.kernel.geometry_parameters())
    assert narrow.dtype == torch.float32
    assert features.dtype == torch.float32
    assert 1e-5 < relative_error(narrow, precise) < 2e-2
    narrow.square().sum().backward()
    found = [parameter.grad for parameter in layer.parameters() if parameter.grad is not None]
    for a, b in zip(found, expected, strict=True):
        assert relative_error(a, b) < 0.1


def test_a_budget_is_a_number_of_bytes():
    with pytest.raises(ValueError, match="memory_budget: expected a whole number of bytes"):
        layer_of(False, memory_budget=1000)
