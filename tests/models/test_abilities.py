"""What a model declares that it can do, it does in one of its forms; what it does not declare, it refuses."""

from __future__ import annotations

import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.models import MODELS, Model

DRAW = torch.Generator().manual_seed(0)
CLOUD, ASKED = torch.rand(40, 2, generator=DRAW), torch.rand(5, 2, generator=DRAW)
GRID = torch.cartesian_prod(torch.arange(24) / 24, torch.arange(24) / 24)


def forms(kind: str) -> list[Model]:
    """Small ones, for grids and for meshes."""
    names = [name for name in MODELS[kind].presets if "_2d" in name and (kind == "calm" or name.endswith("_small"))]
    return [MODELS[kind].preset(name, node_types=()).build(mesh=CLOUD).eval() for name in names]


def answers(model: Model, points: torch.Tensor, **more: torch.Tensor) -> bool:
    try:
        with torch.no_grad():
            model(torch.zeros(1, len(points), model.config.in_channels), points, 1, **more)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.filterwarnings("ignore::calm_pde.errors.OutsideBoxWarning")
def test_abilities_are_true(kind):
    able, built = MODELS[kind].abilities, forms(kind)
    assert any(answers(model, CLOUD) for model in built) == able.irregular_points
    assert any(answers(model, points, queries=ASKED) for model in built for points in (CLOUD, GRID)) == able.free_queries
    assert hasattr(built[0], "bake") == able.bakes
