"""Files written by an earlier version (commit b75fd59) are read, and their problems generated again give the same file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import calm_pde as cp
from calm_pde.data.header import fingerprint
from calm_pde.solvers import Burgers, NavierStokes
from tests.train.golden_losses import machine

GOLDEN = Path(__file__).parent / "golden"
FINGERPRINTS = {
    "burgers": "566b97ef1f5dc5e4365288d166fbe4ab6a1ec5f8a98e342289b79c13d6d439aa",
    "navier_stokes": "bed37dca7e0d6499263b7b995f1b30c267ca959eea277a7b9ae09a1b924a7b17",
}
PROBLEMS = {
    "burgers": Burgers(points=64, frames=3, duration=0.05),
    "navier_stokes": NavierStokes(points=8, resolution=16, frames=3, spacing=0.2, time_step=0.05),
}


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_an_older_file_has_its_fingerprint(name):
    """Stored in the file, and computed anew from what is read of it."""
    file = cp.DataFile(GOLDEN / f"{name}.h5")
    assert file.fingerprint == FINGERPRINTS[name]
    assert file.verify_fingerprint()
    assert all(file.verify(index) for index in range(len(file)))


@pytest.mark.parametrize("name", FINGERPRINTS)
def test_a_generated_file_has_the_fingerprint_of_before(name, tmp_path):
    """But for the symmetries, which files of before did not know: header, times, split and mesh are the same to the bit
    everywhere; fields to float32's rounding.

    Their last bits come from the sines and transforms of the processor and of NumPy, so that the whole fingerprint is asked
    for where these are what they were, and wherever the fields came out the same.
    """
    old = cp.DataFile(GOLDEN / f"{name}.h5")
    new = cp.generate(PROBLEMS[name], tmp_path / "new.h5", samples=3, seed=5, processes=1)
    known = new.header.model_copy(update={"version": 1, "symmetries": ()})
    assert new.header.version == 2
    assert known.hashed() == old.header.hashed()
    for part in ("times", "splits"):
        np.testing.assert_array_equal(getattr(new, part), getattr(old, part))
    np.testing.assert_array_equal(new.description.points, old.description.points)
    fields = [[file.trajectory(index).fields for index in range(3)] for file in (new, old)]
    np.testing.assert_allclose(*fields, rtol=0, atol=1e-5 * np.abs(fields[1]).max())
    of_before = json.loads((GOLDEN / "machine.json").read_text())["machine"]
    if machine() == of_before or np.array_equal(*fields):
        mesh = {"points": new.description.points}
        assert fingerprint(known, new.times, mesh, new.splits, new.digests).hex() == FINGERPRINTS[name]
