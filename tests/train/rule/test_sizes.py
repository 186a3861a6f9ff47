"""The sizes that the rule gives, from what data are alone, for meshes of any number of points."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calm_pde.engine.receptive_fields import neighborhood_size
from calm_pde.geometry import Box
from calm_pde.models.calm import CalmConfig
from calm_pde.records.description import Description, Field
from calm_pde.train.rule.procedure import EPOCH_STEPS, batches_of, first_length, fitting_batch, procedure
from calm_pde.train.rule.sizes import ALIKE, num_queries, share, sizes
from calm_pde.train.rule.survey import Layout, Survey, groups

LAYOUTS: tuple[Layout, ...] = ("alike everywhere", "alike in part", "grid", "mesh", "graded mesh")


def surveyed(
    points: int, dim: int = 2, layout: Layout = "mesh", *, frames: int = 10, trajectories: int = 100, **more: Any
) -> Survey:
    described = Description(
        name="made up",
        fields=(Field(name="u"),),
        box=Box((0.0,) * dim, (1.0,) * dim, layout in ALIKE),
        times=np.arange(float(frames)),
        points=np.zeros((1, dim)),
    )
    fewest = more.pop("fewest", points)
    told = {"stride": 1, "moves": False, "idle": (), "still": (), "by_point": False, "level": False, "scales": False} | more
    sizes = {"fewest": fewest, "usual": points, "most": points}
    return Survey(description=described, layout=layout, trajectories=trajectories, frames=frames, **sizes, **told)


def built(found: Survey) -> CalmConfig:
    known = {"dim": found.description.box.dim, "in_channels": 1, "out_channels": 1, "periodic": found.description.periodic}
    content = sizes(found)
    del content["kind"]
    return CalmConfig.model_validate(content | known)


@given(
    points=st.integers(1, 10**7),
    dim=st.integers(1, 3),
    layout=st.sampled_from(LAYOUTS),
    steady=st.booleans(),
    fewer=st.floats(0.3, 1.0),
)
def test_sizes_fit_any_mesh(points, dim, layout, steady, fewer):
    """The config is valid, no layer has more queries than there are points, and each query sees a few of what there is."""
    found = surveyed(points, dim, layout, frames=1 if steady else 10, fewest=max(1, int(fewer * points)))
    config = built(found)
    queries = config.encoder.num_queries
    assert max(queries) <= found.fewest
    assert list(queries) == sorted(queries, reverse=True)
    assert config.decoder.num_queries == queries[-2::-1]
    clouds = [found.fewest, *queries]
    for part, around in ((config.encoder, clouds), (config.decoder, queries[::-1])):
        for percentile, cloud in zip(part.receptive_field, around, strict=False):
            assert neighborhood_size(percentile, cloud) >= min(cloud, 3)
    if points >= 10**4:
        assert sum(queries) < points / 4
    if layout in ALIKE:
        assert all(round(count ** (1 / dim)) ** dim == count for count in queries)


@given(count=st.integers(1, 500), points=st.integers(1, 10**7))
def test_a_share_holds_the_points_and_hardly_more(count, points):
    """Never fewer than were asked for, and what two digits add is at most a tenth."""
    held = neighborhood_size(share(count, points), points)
    assert min(count, points) <= held <= max(count + 1, 1.11 * count)


def test_sets_of_the_paper_get_what_the_small_recipes_found():
    """The numbers of the hand-made recipes, or near them."""
    assert num_queries(surveyed(256, 1, "alike everywhere")) == [128, 32, 16]
    assert num_queries(surveyed(1024, 2, "alike in part")) == [256, 64, 16]
    assert num_queries(surveyed(4096, 3, "alike everywhere")) == [216, 64, 27]
    assert num_queries(surveyed(850, 2, "graded mesh")) == pytest.approx([256, 64, 16], rel=0.15)
    assert num_queries(surveyed(1170, 2, frames=1)) == pytest.approx([256, 96, 32], rel=0.15)


def test_large_meshes_leave_no_point_unseen():
    """First receptive fields overlap, so that each point is in three of them on average."""
    for points in (10**4, 10**5, 10**6):
        content = sizes(surveyed(points))["encoder"]
        seen = neighborhood_size(content["receptive_field"][0], points) * content["num_queries"][0]
        assert seen >= 3 * points


def test_places_count_on_meshes_and_not_where_all_are_alike():
    alike, grid, mesh = (sizes(surveyed(400, 2, layout)) for layout in ("alike everywhere", "grid", "mesh"))
    assert (alike["learnable_queries"], alike["modulation"], alike["processor"]) == (False, False, {"positions": "relative"})
    assert "mesh_prior" not in alike["encoder"]
    assert sizes(surveyed(400, 2, "alike in part")) == alike | {"processor": {"positions": "both"}}
    assert "modulation" not in grid
    assert (grid["spread"], mesh.get("spread")) == ("even", None)
    assert mesh["encoder"]["mesh_prior"] == [True, True, True]


def test_batches_leave_an_epoch_its_steps():
    for trajectories in (1, 3, 16, 48, 100, 1000):
        batches = batches_of(trajectories, lambda _: None)
        assert batches.size <= min(8, trajectories)
        assert -(-trajectories * batches.windows // batches.size) >= EPOCH_STEPS
    assert fitting_batch(48) == 2
    assert fitting_batch(3) == 1


def test_batches_fit_into_the_memory(monkeypatch):
    """Half of it is a step's."""
    monkeypatch.setattr("calm_pde.train.rule.procedure.machine_bytes", lambda: 1000)
    for each, size in ((50, 8), (100, 4), (126, 2), (251, 1), (10**6, 1)):
        batches = batches_of(1000, lambda batch, each=each: each * batch)
        assert batches == (size, 1, each * size)


def test_windows_start_with_half_of_the_frames():
    assert [first_length(frames) for frames in (1, 2, 3, 6, 10, 20, 200)] == [1, 2, 2, 3, 5, 7, 7]


def test_one_thread_for_small_steps_alone():
    model = built(surveyed(64)).build()
    assert procedure(surveyed(1024, frames=2, trajectories=10), model)[0]["threads"] == 1
    assert "threads" not in procedure(surveyed(200_000, frames=12, trajectories=1), model)[0]


def test_what_the_plus_recipes_found_is_decided_by_the_data():
    """Kernels in radii on graded meshes, a path past the bottleneck on others, scales of states where they differ."""
    graded, mesh = sizes(surveyed(800, layout="graded mesh")), sizes(surveyed(800))
    assert (graded["displacements"], graded["learnable_queries"], "detail" in graded) == ("relative", False, False)
    assert ("displacements" in mesh, neighborhood_size(mesh["detail"]["receptive_field"], 800)) == (False, 10)
    assert "detail" not in sizes(surveyed(800, frames=1))
    assert "detail" not in sizes(surveyed(800, level=True))  # of which it could see nothing
    assert "own_scale" not in mesh
    assert sizes(surveyed(800, scales=True))["own_scale"] == [[0]]
    assert groups(["velocity_x", "velocity_y", "pressure", "max"]) == [[0, 1], [2], [3]]
