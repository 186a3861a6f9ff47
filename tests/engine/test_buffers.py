"""Memory that is used again: by whom, when, and how much of it."""

from __future__ import annotations

import random
import subprocess
import sys
import threading

import pytest
import torch

import calm_pde as cp
from calm_pde.engine.buffers import Pool

LIKE = torch.empty(0)
MANY = 2**20  # floats, above the least that a pool lends


def test_memory_is_lent_again_once_nobody_looks():
    pool = Pool()
    first = pool.new(LIKE, MANY)
    place, view = first.data_ptr(), first.view(2, -1)[1]
    del first
    second = pool.new(LIKE, MANY)
    assert second.data_ptr() != place  # a view still looks
    view.fill_(3.0)
    del view
    assert pool.new(LIKE, MANY).data_ptr() == place


def test_memory_that_a_graph_remembers_is_not_lent():
    pool = Pool()
    x = pool.new(LIKE, MANY).fill_(2.0).requires_grad_()
    place, y = x.data_ptr(), x.square().sum()
    del x
    second = pool.new(LIKE, MANY)
    assert second.data_ptr() != place
    y.backward()
    del y
    assert pool.new(LIKE, MANY).data_ptr() == place


def test_types_and_shapes():
    pool = Pool()
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        lent = pool.new(torch.empty(0, dtype=dtype), 3, MANY)
        assert (lent.dtype, lent.shape) == (dtype, (3, MANY))
        assert lent.is_contiguous()
    assert pool.new(LIKE, 8).untyped_storage().nbytes() == 32  # what is small is not worth it
    assert pool.new(LIKE.to("meta"), 3, MANY).is_meta


@pytest.mark.parametrize("seed", range(4))
def test_a_pool_holds_little_more_than_was_alive_at_once(seed):
    pool, draw, alive, most = Pool(), random.Random(seed), [], 0
    for _ in range(300):
        if alive and draw.random() < 0.5:
            alive.pop(draw.randrange(len(alive)))
        else:
            alive.append(pool.new(LIKE, draw.randrange(MANY // 2, 4 * MANY)))
        held = sum(value.untyped_storage().nbytes() for value in alive)
        most = max(most, held)
        assert held + pool.free <= 1.125 * most


def test_threads_do_not_share_what_they_hold():
    pool, wrong = Pool(), []

    def work(mark: int) -> None:
        for count in range(200):
            lent = pool.new(LIKE, MANY // 2 + 1000 * (count % 7)).fill_(mark)
            if not bool((lent == mark).all()):
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_two_graphs_at_once_do_not_disturb_each_other():
    model = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
    points, inputs = torch.rand(1024, 2), torch.randn(2, 2, 1024, 1)

    def graph(values: torch.Tensor) -> torch.Tensor:
        z, p = model.encode(values, points)
        return model.decode(model.advance(z, p, 3), p, points).square().mean()

    def gradients() -> list[torch.Tensor]:
        found = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
        model.zero_grad(set_to_none=True)
        return found

    apart = []
    for values in inputs:
        graph(values).backward()
        apart.append(gradients())
    losses = [graph(values) for values in inputs]
    for loss, wanted in zip(losses, apart, strict=True):
        loss.backward()
        assert all(torch.equal(a, b) for a, b in zip(gradients(), wanted, strict=True))


STEPS = """
import resource, torch, calm_pde as cp
model = cp.CalmConfig.preset("navier_stokes_2d").build(seed=0)
axis = torch.arange(64) / 64
grid, values = torch.cartesian_prod(axis, axis), torch.randn(4, 4096, 1)
for step in range(6):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    model.zero_grad(set_to_none=True)
    z, p = model.encode(values, grid)
    model.decode(model.advance(z, p, 19), p, grid).square().mean().backward()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts page faults as Linux does")
def test_a_step_maps_next_to_no_memory_once_others_went_before_it():
    run = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    first, *_, last = map(int, run.stdout.split())
    assert last < first / 4, run.stdout.split()
