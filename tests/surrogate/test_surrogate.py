"""Surrogates: physical units by hand, answers at any time and place, folders, and errors and warnings at the door."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from calm_pde.data.statistics import Statistics
from calm_pde.errors import DivergedError, FileError, InputError, TrainingRangeWarning
from calm_pde.geometry import Box
from calm_pde.models import CalmConfig
from calm_pde.records.batch import Batch
from calm_pde.records.description import Field, Prescribed
from calm_pde.records.symmetry import Symmetry
from calm_pde.surrogate.surrogate import Card, Surrogate

BOX = Box((0.0, 0.0), (2.0, 1.0), (True, True))
STATISTICS = {
    "u": {"mean": 0.1, "std": 0.7, "lowest": -1.0, "highest": 1.0},
    "v": {"mean": 2.0, "std": 0.4, "lowest": 1.0, "highest": 3.0},
}


def statistics(names=("u", "v"), known=STATISTICS):
    """Of fields by name."""
    return Statistics(
        names=names, **{key: tuple(known[name][key] for name in names) for key in ("mean", "std", "lowest", "highest")}
    )


def small_surrogate(names=("u", "v"), box=BOX, task="rollout", features=(), node_types=(), seed=0, told=None, **more):
    """Untrained, with random weights: one layer in, one and the external one out."""
    dim = box.dim
    config = CalmConfig(
        dim=dim,
        in_channels=len(names) if task != "steady" else len(features) or dim,
        out_channels=len(names),
        periodic=tuple(box.periodic),
        task=task,
        node_types=tuple(node_types),
        encoder={"channels": (8,), "num_queries": (6,), "receptive_field": (0.3,), "temperature": (1.0,)},
        decoder={"channels": (4,), "num_queries": (8,), "receptive_field": (0.5, 0.5), "temperature": (1.0, 1.0)},
        processor={"heads": 2, "blocks": 1, "fourier_width": 8},
        **(told or {}),
    )
    settings = {
        "kind": "calm",
        "model": config.model_dump(mode="json"),
        "fields": tuple(Field(name=name, unit="m/s" if name == "u" else "") for name in names),
        "features": tuple(Field(name=name) for name in features),
        "lower": box.lower,
        "upper": box.upper,
        "periodic": box.periodic,
        "spacing": 0.5,
        "num_frames": 5,
        "statistics": statistics(names),
        "feature_statistics": statistics(features) if features else None,
        "node_types": {code: f"type {code}" for code in node_types},
        "provenance": {"data": "00", "seed": 3},
    }
    return Surrogate(config.build(seed=seed).eval(), Card(**(settings | more)))


@pytest.fixture(autouse=True)
def one_thread():
    """On a busy machine, threads that wait for each other make these small models up to 60 times slower."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def surrogate():
    return small_surrogate()


def cloud(count=40, seed=0):
    return np.random.default_rng(seed).uniform(BOX.lower, BOX.upper, size=(count, 2))


def state(points):
    wave = np.sin(np.pi * points[:, 0])
    return np.stack([0.9 * wave, 2 + 0.8 * wave * points[:, 1]], axis=-1)


POINTS = cloud()
STATE = state(POINTS)


def test_solve_is_the_model_in_normalized_units(surrogate):
    mean, std = np.array([0.1, 2.0]), np.array([0.7, 0.4])
    values = torch.tensor((STATE - mean) / std, dtype=torch.float32)[None]
    points = torch.tensor(POINTS / [2.0, 1.0], dtype=torch.float32)
    with torch.no_grad():
        expected = surrogate.model(values, points, times=[0.5, 1.0, 2.6])[0].double().numpy() * std + mean
    found = surrogate.solve(STATE, POINTS, times=[0.25, 0.5, 1.3])
    assert found.shape == (3, 40, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_by_default_the_trained_frames_are_answered(surrogate):
    np.testing.assert_array_equal(
        surrogate.solve(STATE, POINTS), surrogate.solve(STATE, POINTS, times=np.array([0.5, 1.0, 1.5, 2.0]))
    )
    np.testing.assert_array_equal(surrogate.asked_times(), [0.5, 1.0, 1.5, 2.0])


def test_a_time_does_not_depend_on_the_others(surrogate):
    many = surrogate.solve(STATE, POINTS, times=[0.2, 0.5, 0.7, 1.9])
    for place, time in enumerate([0.2, 0.5, 0.7, 1.9]):
        np.testing.assert_allclose(surrogate.solve(STATE, POINTS, times=[time])[0], many[place], rtol=1e-5, atol=1e-6)


def test_times_that_are_whole_frames_but_for_rounding_are_whole():
    coarse = small_surrogate(spacing=0.1, num_frames=8)
    assert 0.7 / 0.1 != 7  # the rounding is there to be met
    assert coarse.in_frames(np.array([0.3, 0.7, 0.25])) == [3.0, 7.0, 2.5]
    np.testing.assert_allclose(coarse.solve(STATE, POINTS, times=[0.7])[0], coarse.solve(STATE, POINTS)[6], rtol=1e-5)


@pytest.mark.parametrize("periods", [-1e6, 1, 1e2, 1e4, 1e6])
def test_whole_periods_change_nothing(surrogate, periods):
    """Of points and of queries, whatever their number: they are taken off before a coordinate is rounded to float32."""
    away, asked = periods * np.array([2.0, 1.0]), cloud(9, seed=4)
    expected, elsewhere = surrogate.solve(STATE, POINTS), surrogate.solve(STATE, POINTS, queries=asked)
    shifted = surrogate.solve(STATE, POINTS + away)
    assert size(shifted - expected) <= 1e-5 * size(expected)
    assert size(surrogate.solve(STATE, POINTS, queries=asked + away) - elsewhere) <= 1e-5 * size(elsewhere)
    np.testing.assert_allclose(surrogate.bake(POINTS + away).solve(STATE), shifted, rtol=1e-4, atol=1e-5)


def size(values):
    return np.linalg.norm(values)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([1e-9], "0.0 and 1e-09"),
        ([0.5, 0.5 + 1e-12], "0.5 and 0.500000000001"),
        ([0.2, 1.0 - 1e-9, 1.0 + 1e-9], "0.999999999 and 1.000000001"),
    ],
)
def test_times_too_near_to_tell_apart_are_refused_in_the_numbers_given(surrogate, times, told):
    """And those with the spacing that is named are answered."""
    with pytest.raises(
        InputError, match=rf"times: expected times at least (1e-06|2e-06) apart.*got {told}\. A frame takes 0\.5"
    ):
        surrogate.solve(STATE, POINTS, times)
    for start in (0.0, 0.5, 1.0):
        found = surrogate.solve(STATE, POINTS, [start + 2e-6, start + 4e-6])
        assert found.shape == (2, 40, 2)
    assert surrogate.solve(STATE, POINTS, [0.3, 0.3 + 1e-12]).shape == (2, 40, 2)


def test_queries_elsewhere(surrogate):
    asked = np.concatenate([cloud(9, seed=4), POINTS[[7]]])
    found = surrogate.solve(STATE, POINTS, [0.5], queries=asked)
    assert found.shape == (1, 10, 2)
    np.testing.assert_allclose(found[0, 9], surrogate.solve(STATE, POINTS, [0.5])[0, 7], rtol=1e-5)


def test_a_batch_axis_comes_back(surrogate):
    many = np.stack([STATE, STATE[::-1]])
    found = surrogate.solve(many, POINTS)
    assert found.shape == (2, 4, 40, 2)
    for place in range(2):
        np.testing.assert_allclose(found[place], surrogate.solve(many[place], POINTS), rtol=1e-5, atol=1e-6)


def test_lists_of_meshes_give_lists(surrogate):
    clouds = [cloud(20, seed=1), cloud(31, seed=2)]
    states = [state(points) for points in clouds]
    for queries in (None, [cloud(5), cloud(6)], cloud(7)):
        found = surrogate.solve(states, clouds, queries=queries)
        assert isinstance(found, list)
        for place in range(2):
            asked = queries[place] if isinstance(queries, list) else queries
            np.testing.assert_array_equal(found[place], surrogate.solve(states[place], clouds[place], queries=asked))


def test_plain_lists_of_numbers_are_one_mesh(surrogate):
    np.testing.assert_array_equal(surrogate.solve(STATE.tolist(), POINTS.tolist()), surrogate.solve(STATE, POINTS))


def test_node_types_matter_and_have_to_be_known():
    typed = small_surrogate(node_types=(0, 4))
    kinds = np.where(POINTS[:, 0] > 1, 4, 0)
    found = typed.solve(STATE, POINTS, node_type=kinds)
    assert np.abs(found - typed.solve(STATE, POINTS, node_type=0 * kinds)).max() > 1e-4
    np.testing.assert_array_equal(typed.solve([STATE], [POINTS], node_type=[kinds])[0], found)
    np.testing.assert_allclose(typed.bake(POINTS, node_type=kinds).solve(STATE), found, rtol=1e-4, atol=1e-5)
    for wrong in (None, kinds + 1, kinds + 0.5, kinds[:-1]):
        with pytest.raises(InputError, match="node_type"):
            typed.solve(STATE, POINTS, node_type=wrong)


def batch_of(points, fields, **more):
    count = len(fields)
    return Batch(
        fields=torch.tensor(fields, dtype=torch.float32),
        times=torch.arange(fields.shape[1], dtype=torch.float32),
        points=torch.tensor(BOX.to_unit(points), dtype=torch.float32),
        samples=torch.arange(count),
        starts=torch.zeros(count, dtype=torch.int64),
        **more,
    )


def test_predicted_is_solve_on_a_batch(surrogate):
    fields = np.stack([STATE, STATE[::-1]])[:, None].repeat(4, axis=1)
    found = surrogate.predicted(batch_of(POINTS, fields)).numpy()
    np.testing.assert_allclose(found, surrogate.solve(fields[:, 0], POINTS, [0.5, 1.0, 1.5]), rtol=1e-5, atol=1e-6)


def test_a_files_node_types_are_left_aside_where_the_model_has_none(surrogate):
    fields = STATE[None, None].repeat(2, axis=1)
    plain = surrogate.predicted(batch_of(POINTS, fields))
    typed = surrogate.predicted(batch_of(POINTS, fields, node_type=torch.ones(40, dtype=torch.int64)))
    assert torch.equal(plain, typed)


def test_a_steady_surrogate_takes_coordinates_or_features():
    plain = small_surrogate(("v",), task="steady", num_frames=1)
    found = plain.solve(None, POINTS)
    assert found.shape == (1, 40, 1)
    unit = torch.tensor(POINTS / [2.0, 1.0], dtype=torch.float32)
    with torch.no_grad():
        expected = plain.model(unit[None], unit)[0].numpy() * 0.4 + 2.0
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(plain.predicted(batch_of(POINTS, STATE[None, None, :, 1:]))[0].numpy(), found, rtol=1e-5)
    with pytest.raises(InputError, match="times"):
        plain.solve(None, POINTS, [0.5])
    given = small_surrogate(("v",), task="steady", features=("u",), num_frames=1)
    with torch.no_grad():
        feature = torch.tensor((STATE[None, :, :1] - 0.1) / 0.7, dtype=torch.float32)
        expected = given.model(feature, unit)[0].numpy() * 0.4 + 2.0
    np.testing.assert_allclose(given.solve(STATE[:, :1], POINTS), expected, rtol=1e-5)
    with pytest.raises(InputError, match=r"\(40, 1\) with channels u"):
        given.solve(None, POINTS)


def test_an_autoencoder_answers_once():
    found = small_surrogate(task="autoencoder").solve(STATE, POINTS, queries=cloud(5))
    assert found.shape == (1, 5, 2)


@pytest.mark.parametrize("task", ["rollout", "steady", "autoencoder"])
def test_baking_changes_nothing(task):
    small = small_surrogate(task=task)
    initial = None if task == "steady" else STATE
    asked = cloud(11, seed=5)
    np.testing.assert_allclose(
        small.bake(POINTS, asked).solve(initial), small.solve(initial, POINTS, queries=asked), rtol=1e-4, atol=1e-5
    )
    if task == "rollout":
        many = np.stack([STATE, -STATE * [1, -1]])
        np.testing.assert_allclose(
            small.bake(POINTS).solve(many, [0.3, 1.0]), small.solve(many, POINTS, [0.3, 1.0]), rtol=1e-4, atol=1e-5
        )


def test_a_saved_surrogate_answers_the_same(surrogate, tmp_path):
    """Whoever loads the folder, or the run folder around it, needs neither mesh nor data."""
    surrogate.save(tmp_path / "run" / "surrogate")
    for path in (tmp_path / "run", tmp_path / "run" / "surrogate"):
        loaded = Surrogate.load(path)
        assert loaded.card == surrogate.card
        assert not loaded.model.training
        np.testing.assert_array_equal(loaded.solve(STATE, POINTS, [0.3, 2.0]), surrogate.solve(STATE, POINTS, [0.3, 2.0]))


def test_what_it_was_trained_on_is_one_description(tmp_path):
    """The same before and after saving; names that format 1 did not know stand in the folder only where there are some."""
    later = {
        "signals": ("pump",),
        "prescribed": (Prescribed(field="v", node_types=(6,)),),
        "symmetries": (Symmetry(name="half turn", axes=(-1, -2)),),
    }
    for more in ({}, later):
        small = small_surrogate(node_types=(0, 4), **more)
        small.save(tmp_path / "folder")
        assert set(json.loads((tmp_path / "folder" / "surrogate.json").read_text())) & set(later) == set(more)
        for known in (small.description, Surrogate.load(tmp_path / "folder").description):
            assert known.fields == (Field(name="u", unit="m/s"), Field(name="v"))
            assert (known.box, known.node_types) == (BOX, {0: "type 0", 4: "type 4"})
            assert known.provenance == {"data": "00", "seed": 3}
            np.testing.assert_array_equal(known.times, [0.0, 0.5, 1.0, 1.5, 2.0])
            assert {name: getattr(known, name) for name in later} == dict.fromkeys(later, ()) | more


def test_a_description_survives_the_folder_and_an_old_folder_knows_less(surrogate, tmp_path):
    """What a folder did not say before is left out of it where there is nothing to say, so an old one is written as it was."""
    told = {"name": "waves", "targets": ("v",), "parameters": ("phase",), "conserved": ("u",), "grid_shape": (5, 8)}
    told |= {"times": (3.0, 3.5, 4.0, 4.5, 5.5)}
    small_surrogate(**told).save(tmp_path / "new")
    surrogate.save(tmp_path / "old")
    content = {name: json.loads((tmp_path / name / "surrogate.json").read_text()) for name in ("new", "old")}
    assert content["new"].keys() - content["old"].keys() == told.keys()
    new, old = (Surrogate.load(tmp_path / name) for name in ("new", "old"))
    assert {name: getattr(new.description, name) for name in told} | {"times": tuple(new.description.times)} == told
    known = old.description
    assert (known.name, known.targets, known.parameters, known.conserved, known.grid_shape) == ("", (), (), (), None)
    for known in (new, old):  # a frame is a frame, wherever the data begin and however uneven they are
        assert repr(known).endswith("u [m/s], v in 2-D; 4 frames of 0.5 each)")
        np.testing.assert_array_equal(known.asked_times(), [0.5, 1.0, 1.5, 2.0])
        np.testing.assert_array_equal(known.solve(STATE, POINTS, [0.3, 2.0]), surrogate.solve(STATE, POINTS, [0.3, 2.0]))


def test_frames_are_as_long_as_the_folder_says():
    """To the last bit, which the median difference of evenly spaced times may miss."""
    odd = small_surrogate(spacing=0.7370909, num_frames=12)
    assert odd.description.spacing != 0.7370909
    assert odd.in_frames(np.array([0.3, 5.0])) == [0.3 / 0.7370909, 5.0 / 0.7370909]
    np.testing.assert_array_equal(odd.asked_times(), 0.7370909 * np.arange(1, 12))


def test_queries_that_started_on_a_mesh_load_without_it(tmp_path):
    small = small_surrogate()
    content = small.card.model | {"encoder": small.card.model["encoder"] | {"mesh_prior": [True]}}
    config = CalmConfig.model_validate(content)
    mesh = torch.tensor(POINTS / [2.0, 1.0], dtype=torch.float32)
    prior = Surrogate(config.build(mesh=mesh).eval(), small.card.model_copy(update={"model": config.model_dump(mode="json")}))
    prior.save(tmp_path / "s")
    np.testing.assert_array_equal(Surrogate.load(tmp_path / "s").solve(STATE, POINTS), prior.solve(STATE, POINTS))


def test_folders_that_are_none_or_damaged_are_named(surrogate, tmp_path):
    with pytest.raises(FileError, match="nowhere: there is no such folder"):
        Surrogate.load(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileError, match=r"empty: holds no surrogate\. A run has one from its first validated epoch on"):
        Surrogate.load(tmp_path / "empty")
    surrogate.save(tmp_path / "whole")
    for name in ("weights.safetensors", "surrogate.json"):
        broken = shutil.copytree(tmp_path / "whole", tmp_path / f"broken {name}")
        content = bytearray((broken / name).read_bytes())
        content[len(content) // 2] ^= 1
        (broken / name).write_bytes(bytes(content))
        with pytest.raises(FileError, match=f"{name}.*SHA-256"):
            Surrogate.load(broken)


def test_a_card_of_another_kind_is_refused(surrogate, tmp_path):
    odd = Surrogate(surrogate.model, surrogate.card.model_copy(update={"kind": "oracle"}))
    odd.save(tmp_path / "odd")
    with pytest.raises(FileError, match=r"surrogate\.json.*'oracle'"):
        Surrogate.load(tmp_path / "odd")
    wide = json.loads(json.dumps(surrogate.card.model)) | {"out_channels": 3}
    Surrogate(surrogate.model, surrogate.card.model_copy(update={"model": wide})).save(tmp_path / "wide")
    with pytest.raises(FileError, match=r"weights\.safetensors: decoder.*expected"):
        Surrogate.load(tmp_path / "wide")


def test_leaving_the_training_range_is_said(surrogate):
    with pytest.warns(TrainingRangeWarning, match=r"times reach 2\.25; the surrogate was trained to 2 "):
        surrogate.solve(STATE, POINTS, [1.0, 2.25])
    with pytest.warns(TrainingRangeWarning, match="initial: v leaves"):
        surrogate.solve(STATE * [1.0, 5.0], POINTS)
    with pytest.warns(TrainingRangeWarning, match="initial: u, v leaves"):
        surrogate.bake(POINTS).solve(STATE * 9)


def explosive(**more):
    """A surrogate whose latent state grows until it leaves float32."""
    found = small_surrogate(**more)
    with torch.no_grad():
        for name, weight in found.model.processor.named_parameters():
            if name.endswith("weight"):
                weight.mul_(1e3)
    return found


@pytest.mark.filterwarnings("ignore::calm_pde.errors.TrainingRangeWarning")
@pytest.mark.parametrize("baked", [False, True])
def test_an_answer_that_is_not_finite_is_refused_with_its_time(surrogate, baked):
    """The same from an initial state that is too large to be computed with."""

    def solve(given, initial, *more, **options):
        return given.bake(POINTS).solve(initial, *more, **options) if baked else given.solve(initial, POINTS, *more, **options)

    wild, times = explosive(), 0.5 * np.arange(1, 41)
    found = solve(wild, STATE, times, allow_nonfinite=True)
    first = int(np.flatnonzero(~np.isfinite(found).all(axis=(1, 2)))[0])
    assert 0 < first < 39
    where = rf"solve: the answer is not finite at t = {times[first]:g} \(time {first + 1} of 40\)"
    with pytest.raises(DivergedError, match=where):
        solve(wild, STATE, times)
    assert np.isfinite(solve(wild, STATE, times[:first])).all()
    with pytest.raises(DivergedError, match=r"sample 1 is not finite at t = 0\.5 \(time 1 of 4\).*allow_nonfinite"):
        solve(surrogate, np.stack([STATE, STATE * 1e30]))
    both = solve(surrogate, np.stack([STATE, STATE * 1e30]), allow_nonfinite=True)
    assert np.isfinite(both[0]).all()
    assert not np.isfinite(both[1]).all()


@pytest.mark.filterwarnings("ignore::calm_pde.errors.TrainingRangeWarning")
def test_of_a_list_the_mesh_that_is_not_finite_is_named(surrogate):
    states, clouds = [STATE, STATE * 1e30], [POINTS, POINTS]
    with pytest.raises(DivergedError, match="sample 1 is not finite"):
        surrogate.solve(states, clouds)
    assert len(surrogate.solve(states, clouds, allow_nonfinite=True)) == 2


def test_nothing_is_said_inside_it(surrogate):
    """Warnings are errors in these tests."""
    edge = np.tile([[-1.0, 1.0], [1.0, 3.0]], (20, 1))
    surrogate.solve(edge, POINTS, [2.0])
    constant = {"mean": (0.1,), "std": (1.0,), "lowest": (float(np.float32(0.1)),), "highest": (float(np.float32(0.1)),)}
    small_surrogate(("u",), statistics=Statistics(names=("u",), **constant)).solve(np.full((40, 1), 0.1), POINTS)


WRONG = {
    "one channel": ({"initial": STATE[:, :1]}, r"initial: .*\(40, 2\) with channels u, v, got shape \(40, 1\)"),
    "fewer rows": ({"initial": STATE[:-1]}, r"initial: .*got shape \(39, 2\)"),
    "flat": ({"initial": STATE[0]}, r"initial: .*got shape \(2,\)"),
    "no state": ({"initial": None}, "initial: expected an array of numbers, got None"),
    "NaN": ({"initial": np.where(STATE > 2.5, np.nan, STATE)}, "initial: expected finite numbers"),
    "words": ({"initial": "warm"}, "initial: expected an array of numbers"),
    "flat points": ({"points": POINTS[0]}, r"points: expected shape \(point, 2\).*got shape \(2,\)"),
    "3-D points": ({"points": np.zeros((40, 3))}, r"points: .*got shape \(40, 3\)"),
    "no points": ({"points": []}, "points: .*not empty"),
    "ragged points": ({"points": [[[0.0, 0.0], [1.0]]]}, "points: expected an array of numbers"),
    "infinite points": ({"points": np.full((40, 2), np.inf)}, "points: expected finite numbers"),
    "3-D queries": ({"queries": np.zeros((4, 3))}, r"queries: .*got shape \(4, 3\)"),
    "words as queries": ({"queries": ["here"]}, "queries: expected an array of numbers"),
    "node types": ({"node_type": np.zeros(40, dtype=int)}, "node_type: expected none"),
    "words as node types": ({"node_type": ["wall"] * 40}, "node_type: expected an array of numbers"),
    "time 0": ({"times": [0.0, 1.0]}, "times: expected strictly increasing numbers > 0, physical"),
    "times backwards": ({"times": [1.0, 0.5]}, "times: expected strictly increasing"),
    "no times": ({"times": []}, "times: expected strictly increasing"),
    "NaN times": ({"times": [float("nan")]}, "times: expected finite numbers"),
    "states and meshes": ({"initial": [STATE], "points": [POINTS, POINTS]}, "initial: expected 2 arrays, one per mesh, got 1"),
    "queries and meshes": ({"initial": [STATE], "points": [POINTS], "queries": 3}, "queries: expected 1 arrays.*got int"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_named(surrogate, name):
    changes, message = WRONG[name]
    with pytest.raises(InputError, match=message):
        surrogate.solve(**({"initial": STATE, "points": POINTS} | changes))


GIVEN = {"initial": STATE, "points": POINTS, "queries": POINTS, "times": np.array([0.5]), "node_type": np.zeros(40, dtype=int)}


@pytest.mark.parametrize("name", GIVEN)
def test_masks_and_imaginary_parts_are_not_lost_in_silence(surrogate, name):
    given = {"initial": STATE, "points": POINTS}
    values = GIVEN[name]
    hidden = np.ma.masked_array(values, mask=np.arange(values.size).reshape(values.shape) == 0)
    with pytest.raises(InputError, match=f"{name}: expected an array without a mask, got 1 masked entries"):
        surrogate.solve(**(given | {name: hidden}))
    others = () if name == "times" else (torch.from_numpy(values + 1j), (values + 1j).tolist())
    for unreal in (values + 1j, *others):
        with pytest.raises(InputError, match=rf"{name}\S*: expected real numbers, got (torch\.)?complex"):
            surrogate.solve(**(given | {name: unreal}))


def test_masks_are_found_in_lists_and_an_empty_one_hides_nothing(surrogate):
    hidden = np.ma.masked_less(STATE, 0.0)
    with pytest.raises(InputError, match="initial: expected an array without a mask"):
        surrogate.solve([STATE, hidden], [POINTS, POINTS])
    with pytest.raises(InputError, match=r"points\[1\]: expected an array without a mask"):
        surrogate.solve(STATE, [POINTS[0].tolist(), np.ma.masked_greater(POINTS[1], 0.0)])
    empty = np.ma.masked_array(STATE)
    np.testing.assert_array_equal(surrogate.solve(empty, POINTS), surrogate.solve(STATE, POINTS))


def test_a_baked_surrogate_checks_alike(surrogate):
    fast = surrogate.bake(POINTS)
    for given, times, name in ((STATE[:-1], None, "initial"), (STATE, [1.0, 1.0], "times")):
        with pytest.raises(InputError, match=name):
            fast.solve(given, times)
    with pytest.raises(InputError, match="queries"):
        surrogate.bake(POINTS, np.zeros((3, 1)))
    with pytest.raises(InputError, match="points: expected an array without a mask"):
        surrogate.bake(np.ma.masked_less(POINTS, 0.5))
