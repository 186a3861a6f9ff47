"""The one record of a data set: the part of it that a model learns, its frames and its axes."""

from __future__ import annotations

import numpy as np
import pytest

from calm_pde.records.description import Field, Prescribed
from calm_pde.records.symmetry import Symmetry
from tests.data.sets import own_source, shared_source

SHIFT = Symmetry(name="translation", shift=(1.0, 0.0), any_multiple=True)
LATER = {
    "signals": ("pump",),
    "prescribed": (Prescribed(field="u"), Prescribed(field="v", node_types=(6,))),
    "symmetries": (SHIFT,),
}


def test_a_part_has_its_fields_in_order_and_its_frames() -> None:
    whole = shared_source(frames=7, targets=("u",), **LATER).description
    part = whole.of(["v"], frame_stride=3)
    assert part.fields == (Field(name="v"),)
    assert (part.targets, part.conserved, part.prescribed) == ((), (), (Prescribed(field="v", node_types=(6,)),))
    np.testing.assert_array_equal(part.times, [0.0, 1.5, 3.0])
    assert whole.of(("v", "u")).field_names == ("v", "u")
    assert whole.of(("v", "u")).conserved == ("u",)
    for name in ("name", "box", "points", "parameters", "signals", "grid_shape", "provenance"):
        assert getattr(part, name) is getattr(whole, name), name
    assert part.symmetries == (SHIFT,)


def test_the_length_of_a_frame_is_the_median_difference() -> None:
    assert shared_source().description.spacing == 0.5
    uneven = shared_source(times=np.array([0.0, 1.0, 2.5, 3.5, 9.0])).description
    assert uneven.spacing == pytest.approx(1.25)
    steady = own_source(frames=1).description
    assert steady.steady
    assert steady.spacing == 1.0


def test_mesh_and_periodic_axes() -> None:
    assert shared_source().description.shared_mesh
    assert shared_source().description.periodic == (True, True)
    assert not own_source().description.shared_mesh
    assert own_source().description.periodic == (False, False)
