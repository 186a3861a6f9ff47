"""Which parameters of each model are hidden matrices."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calm_pde.models import MODELS, CalmConfig
from calm_pde.nn.matrices import Matrices, hidden_matrices


def test_of_calm_pde() -> None:
    """All filters but the first and last, the kernels' hidden layers, MLPs, attention; one matrix each for q, k and v."""
    model = CalmConfig.preset("cylinder_2d").build()
    found = model.matrices()
    named = dict(model.named_parameters())
    adamw = named.keys() - found.keys()
    thin_or_outer = {name for name in adamw if name.endswith(("filters", "mix.weight"))}
    assert thin_or_outer == {"encoder.0.mix.weight", "encoder.0.kernel.filters", "decoder.2.kernel.filters"}
    assert all(
        name in thin_or_outer
        or name.endswith((".bias", ".queries", ".scale", ".shift"))
        or "norm_" in name
        or name == "node_types.weight"
        for name in adamw
    )
    assert found["processor.blocks.0.attention.to_qkv.weight"] == Matrices(parts=3)
    filters = named["decoder.0.kernel.filters"]
    assert found["decoder.0.kernel.filters"].upright(filters).shape == (
        1,
        filters.shape[0] * filters.shape[1],
        filters.shape[2],
    )


@pytest.mark.parametrize("kind", list(MODELS))
def test_first_and_last_maps_exist_and_are_none(kind: str) -> None:
    config = MODELS[kind]
    for preset in config.presets:
        if preset.endswith("_small") or kind == "calm":
            model = config.preset(preset).build()
            names = dict(model.named_parameters())
            for outer in model.outermost:
                assert any(f"{name}.".startswith(f"{outer}.") for name in names), (preset, outer)
            assert sum(names[name].numel() for name in model.matrices()) / sum(p.numel() for p in names.values()) > 0.3


def test_thin_ones_and_those_of_other_kinds_are_none() -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.thin, self.norm = nn.Linear(8, 8), nn.Linear(3, 8), nn.LayerNorm(8)
            self.table, self.last = nn.Embedding(8, 8), nn.Linear(8, 8)

    assert hidden_matrices(Small(), ["last"]) == {"wide.weight": Matrices()}


@pytest.mark.parametrize(
    ("shape", "form"), [((5, 3, 8), Matrices()), ((12, 8), Matrices(3)), ((3, 4, 6, 2), Matrices(modes=True))]
)
def test_what_is_taken_apart_is_put_together(shape: tuple[int, ...], form: Matrices) -> None:
    parameter = torch.randn(shape)
    assert torch.equal(form.restored(form.upright(parameter), parameter), parameter)
