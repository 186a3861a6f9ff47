"""Scrambled conditions: those of the next test sample, and everything else as it was."""

from __future__ import annotations

import numpy as np

import calm_pde as cp
from benchmarks.scrambled import TAKEN, of_next
from calm_pde.data.writing import write


def test_conditions_come_from_the_next_sample(tmp_path):
    draw = np.random.default_rng(0)
    fields, wall = draw.random((20, 3, 6, 1)), draw.random((20, 3))
    told = {"parameters": {"power": np.arange(20.0)}, "signals": {"wall": (np.arange(3.0), wall)}}
    file = cp.from_arrays(draw.random((6, 2)), fields, np.arange(3.0), out=tmp_path / "mine.h5", **told)
    test = file.indices("test").tolist()
    for number, names in enumerate(TAKEN.values()):
        found = write(of_next(file, names), tmp_path / f"{number}.h5")
        assert found.indices("test").tolist() == [0, 1]
        for place, index in enumerate(test):
            other = test[(place + 1) % len(test)]
            trajectory = found.trajectory(place)
            np.testing.assert_array_equal(trajectory.fields, file.trajectory(index).fields)
            np.testing.assert_array_equal(trajectory.parameters, [float(other if "parameters" in names else index)])
            source = other if "signals" in names else index
            np.testing.assert_allclose(trajectory.signals[:, 0], wall[source], rtol=1e-6)
