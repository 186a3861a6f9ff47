"""A model far too large for its data is told with the numbers, and what would fit."""

from __future__ import annotations

import pytest

from calm_pde.models import MODELS
from calm_pde.models.size import oversized


def test_far_more_query_points_than_points_are_told():
    model = MODELS["calm"].preset("navier_stokes_2d").build()
    told = oversized(model, 16)
    assert told is not None
    assert "encoder 1 (1,024), encoder 2 (256), decoder 1 (256), decoder 2 (1,024)" in told
    assert "the 16 points" in told
    assert "What would fit: encoder 1 16, encoder 2 16, encoder 3 16" in told


@pytest.mark.parametrize(("kind", "preset", "points"), [("calm", "elasticity", 972), ("fno", "navier_stokes_2d", 16)])
def test_what_fits_is_not_told(kind, preset, points):
    assert oversized(MODELS[kind].preset(preset).build(), points) is None
