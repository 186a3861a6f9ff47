"""What a window draws is its own."""

from __future__ import annotations

import torch

from calm_pde.models.draws import Draws


def test_draws_depend_on_the_window_alone():
    together, alone = Draws([[0, 1], [0, 2]]), Draws([[0, 2]])
    for name, shape in (("uniform", (7, 2)), ("normal", (5, 3)), ("integers", (1000,))):
        first, second = getattr(together, name)(*shape)
        assert torch.equal(second, getattr(alone, name)(*shape)[0])
        assert not torch.equal(first, second)


def test_padded_points_and_what_was_drawn_before_them_change_nothing():
    wide, narrow = Draws([[3]]), Draws([[3]])
    assert torch.equal(wide.normal(9, 4, 2)[:, :6], narrow.normal(6, 4, 2))
    assert torch.equal(wide.uniform(9)[:, :6], narrow.uniform(6))
    assert torch.equal(wide.normal(5), narrow.normal(5))
