"""What counts as time of a campaign's run."""

from __future__ import annotations

import time

from calm_pde.bench.measured.clock import clock


def test_one_thread_is_counted_by_its_core():
    """Waiting, as for a core that others have, takes nothing of the budget; work does."""
    now = clock(1)
    start, wall = now(), time.perf_counter()
    time.sleep(0.3)
    waited = now() - start
    assert waited < 0.1 <= time.perf_counter() - wall
    while time.process_time() < start + 0.2:
        sum(range(1000))
    assert now() - start >= 0.19


def test_several_threads_are_counted_by_the_wall():
    for threads in (2, None):
        now = clock(threads)
        start = now()
        time.sleep(0.1)
        assert now() - start >= 0.09
