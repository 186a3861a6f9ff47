"""Steady forms of models in time: one step of the same model, which old files know nothing of."""

from __future__ import annotations

import pytest
import torch

from calm_pde.errors import InputError
from calm_pde.models import MODELS
from tests.clouds import grid, random_cloud
from tests.models.contract import STEADY, Case, own_meshes, shared_mesh

FORMS = [case for case in STEADY if case.name in ("geo_fno", "ffno", "lno", "oformer")]
forms = pytest.mark.parametrize("case", FORMS, ids=str)


@forms
def test_the_answer_is_the_first_frame_of_the_same_model_in_time(case: Case) -> None:
    """With as many channels in as out: to the bit, on meshes of their own too."""
    alike = {"in_channels": 2, "out_channels": 2}
    steady = case.build(seed=4, **alike).double().eval()
    in_time = case.build(seed=4, task="rollout", **alike).double().eval()
    for make in (shared_mesh, own_meshes):
        call = make(case)
        call["values"] = call["values"][..., :2]
        assert torch.equal(steady(**call), in_time(**call, num_steps=1))


@forms
def test_a_model_in_time_says_nothing_of_its_task(case: Case) -> None:
    """So that its files are those that they were; a steady one says it."""
    kind, alike = MODELS[case.name], {"in_channels": 2, "out_channels": 2, "task": "rollout"}
    assert kind.model_validate(case.config).model_dump()["task"] == "steady"
    written = kind.model_validate(case.config | alike).model_dump()
    assert "task" not in written
    assert kind.model_validate(written).task == "rollout"


@pytest.mark.parametrize(("name", "changes"), [("ffno", {"form": "grid", "dim": 2, "width": 4, "modes": 2})])
def test_grids_have_steady_forms_too(name: str, changes: dict) -> None:
    model = MODELS[name].model_validate(changes | {"task": "steady", "in_channels": 3, "out_channels": 1}).build().double()
    points = grid(6, 2)
    assert model(random_cloud(2 * 36, 3).view(2, 36, 3), points).shape == (2, 1, 36, 1)
    with pytest.raises(InputError, match=r"queries: expected none"):
        model(random_cloud(2 * 36, 3).view(2, 36, 3), points, queries=points[:3])


def test_layouts_whose_answers_meet_refuse_queries() -> None:
    (case,) = [case for case in STEADY if case.name == "oformer" and case.dim == 2]
    model, call = case.build(layout="mesh").double(), shared_mesh(case)
    assert model(**call).shape == (3, 1, call["values"].shape[1], 2)
    with pytest.raises(InputError, match=r"queries: expected none, since the answers of this layout depend on each other"):
        model(**call, queries=call["points"][:3])
