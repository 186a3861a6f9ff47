"""The first losses at a fixed seed are those in golden/losses.json: a change of them is a decision, not an accident."""

from __future__ import annotations

import json

import numpy as np

from tests.train.golden_losses import COUNT, FILE, losses, machine


def test_losses_are_the_golden_ones():
    golden = json.loads(FILE.read_text())
    found = losses()
    assert len(found) == COUNT
    np.testing.assert_allclose(found, golden["losses"], rtol=1e-5)
    if golden["machine"] == machine():
        assert found == golden["losses"]
