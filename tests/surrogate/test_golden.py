"""Folders written by an earlier version (commit b75fd59) load, and answer what they answered then."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.models.size import num_parameters
from calm_pde.records.description import Field

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize(("kind", "parameters"), [("calm", 1462), ("fno", 353)])
def test_an_older_surrogate_answers_as_it_did(kind, parameters):
    """To float32's rounding, which differs from processor to processor, and in the physical units of each field."""
    surrogate = cp.Surrogate.load(GOLDEN / kind)
    assert num_parameters(surrogate.model) == parameters
    known = surrogate.description
    assert known.fields == (Field(name="u", unit="m/s"), Field(name="v", unit="Pa"))
    assert known.box == cp.Box((0.0, -1.0), (2.0, 1.0), (True, False))
    assert known.node_types == ({0: "normal", 4: "inflow"} if kind == "calm" else {})
    assert known.times.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert known.provenance == {"data": "00", "seed": 3}
    assert surrogate.card.metrics == {"validation": 0.25, "seconds": 12.0}
    with np.load(GOLDEN / f"{kind}.npz") as asked:
        arrays = dict(asked)
    answer = arrays.pop("answer")
    found = surrogate.solve(**arrays)
    assert found.dtype == answer.dtype
    size = np.abs(answer - answer.mean(axis=(0, 1))).max(axis=(0, 1))
    assert (np.abs(found - answer) <= 1e-5 * size + 1e-6 * np.abs(answer).max(axis=(0, 1))).all()
