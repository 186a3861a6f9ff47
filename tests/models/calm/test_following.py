"""One latent step from each of many given frames is the rollout's first step from each of them alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.metrics.relative_l2 import relative_l2
from tests.clouds import relative_error
from tests.data.sets import shared_source
from tests.models.calm.learning.test_beside import MESHES, alone, built
from tests.train.test_curriculum import MODEL
from tests.train.test_objective import trainer

SIZES = {"channels": (4, 6), "num_queries": (9, 4), "receptive_field": (0.3, 0.5), "temperature": (1.0, 0.1)}
DETAIL = {"detail": {"channels": 3, "receptive_field": 0.2}}

MOVING = {"encoder": {**SIZES, "reach": (0.5, 0.5)}}


@MESHES
@pytest.mark.parametrize("changes", [{}, DETAIL, MOVING], ids=["plain", "detail", "queries that follow"])
def test_many_steps_at_once_are_steps_alone(make: Any, kinds: tuple[int, ...], changes: dict[str, Any]) -> None:
    frames = make()
    model = built(node_types=kinds, **changes)
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():  # those that start at zero hide what they weigh
        weight.data += 0.1 * torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
    values, points, mask, node_type = frames.values, frames.points, frames.mask, frames.node_type
    found = model.following(values, points, mask, node_type)
    for place in range(len(values)):
        mine, told = alone(frames, place)
        real = slice(None) if mask is None else mask[place]
        for frame in range(values.shape[1]):
            wanted = model(mine.values[:, frame].contiguous(), mine.points, 1, **told)[0, 0]
            assert relative_error(found[place, frame, real], wanted) < 1e-12
        if mask is not None:
            assert not bool(found[place][:, ~mask[place]].any())


def test_a_model_that_maps_fields_to_others_goes_not_from_frame_to_frame() -> None:
    model = built(out_channels=1)
    with pytest.raises(InputError, match="can go from frame to frame"):
        model.following(torch.zeros(1, 2, 20, 2).double(), torch.rand(20, 2).double())


def test_prefix_feeding_is_the_latent_rollout_and_then_single_steps(tmp_path: Path) -> None:
    """The first frames from frame 0, with its reconstruction, each later one from the true frame before it."""
    run, epoch = trainer(tmp_path, shared_source, MODEL, feeding="prefix"), 5
    batch = next(run.data.batches(run.groups(epoch)[:1]))
    truth = run.surrogate.card.statistics.normalized(batch.fields.double())
    points, fed = batch.points.double(), run.schedule.self_fed(epoch)
    assert 1 < fed < truth.shape[1] - 1
    rolled = run.model.rollout(truth[:, 0], points, [float(t) for t in range(1, fed + 1)])
    single = [run.model(truth[:, t], points, 1) for t in range(fed, truth.shape[1] - 1)]
    wanted = relative_l2(torch.cat([rolled, *single], dim=1), truth).mean(dim=(1, 2))
    torch.testing.assert_close(run.objective.losses(batch, epoch), wanted, rtol=1e-10, atol=0)
