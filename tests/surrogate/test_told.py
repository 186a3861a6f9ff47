"""Conditions reach a model by name, in its order and normalized; what does not fit is named, extrapolation is said."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.data.dataset import Dataset
from calm_pde.data.statistics import ParameterStatistics, Statistics, condition_statistics
from calm_pde.data.storage import DataFile
from calm_pde.data.windows import Window, whole_windows
from calm_pde.errors import FileError, InputError, TrainingRangeWarning
from calm_pde.metrics.scores import Evaluation, table
from calm_pde.records.description import Field, Prescribed
from calm_pde.surrogate.evaluate import evaluate, for_surrogate
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.surrogate.translator import at_whole_frames
from tests.surrogate.test_surrogate import POINTS, STATE, one_thread, small_surrogate  # noqa: F401

TIMES = 0.5 * np.arange(5)
KINDS = np.array([0, 4] * 20)
RANGES = {"mean": (0.5, 10.0), "std": (0.2, 4.0), "lowest": (0.0, 5.0), "highest": (1.0, 15.0)}
WALL = Statistics(names=("wall", "pump"), mean=(1.0, 0.0), std=(2.0, 0.5), lowest=(-3.0, -1.0), highest=(5.0, 1.0))
GIVEN: dict[str, Any] = {
    "parameters": {"power": 12.0, "speed": 0.3},
    "signals": {"wall": ([0.0, 0.3, 2.5], [1.0, 4.0, -2.0]), "pump": [0.0, 0.1, 0.9, 0.3, -0.5]},
    "features": {"depth": STATE[:, 0]},
}


def conditioned(sizes: dict[str, Any] | None = None, **more: Any) -> Surrogate:
    """Told two parameters, two signals and a feature, to which it answers."""
    found = small_surrogate(
        told={"parameters": 2, "signals": 2, "features": 1} | (sizes or {}),
        parameters=("speed", "power"),
        signals=("wall", "pump"),
        units={"wall": "K"},
        parameter_statistics=ParameterStatistics(names=("speed", "power"), **RANGES, logarithmic=(False, False)),
        signal_statistics=WALL,
        features=(),
        **more,
    )
    depth = Statistics(names=("depth",), mean=(0.1,), std=(0.5,), lowest=(-1.0,), highest=(1.0,))
    card = found.card.model_copy(update={"features": (Field(name="depth", unit="m"),), "feature_statistics": depth})
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in found.model.parameters():  # modulation starts as none
            weight.add_(0.1 * torch.randn(weight.shape, generator=generator))
    return Surrogate(found.model, card)


@pytest.fixture(scope="module")
def surrogate() -> Surrogate:
    return conditioned()


def data_file(path: Path, **more: Any) -> DataFile:
    """Four trajectories on the points, with more conditions than a surrogate wants, in another order."""
    draw = np.random.default_rng(0)
    fields = STATE * (1 + 0.05 * draw.normal(size=(4, 5, 1, 1)))
    knots = np.array([2.0, 2.3, 4.5])
    settings: dict[str, Any] = {
        "names": ["u", "v"],
        "box": ((0.0, 0.0), (2.0, 1.0), True),
        "parameters": {"power": draw.uniform(5, 15, 4), "age": np.arange(4.0), "speed": draw.uniform(0, 1, 4)},
        "signals": {"pump": draw.uniform(-1, 1, (4, 5)), "wall": (knots, draw.uniform(-3, 5, (4, 3)))},
        "features": np.stack([POINTS[:, 1], np.tanh(STATE[:, 0])], axis=1),
        "feature_names": ["y", "depth"],
        "split": ["train", "train", "validation", "test"],
    }
    return cp.from_arrays(POINTS, fields, 2.0 + TIMES, out=path, **(settings | more))


def test_solve_is_the_model_told_in_normalized_units(surrogate):
    """By hand: order of the training, (x − mean)/std, knots of both signals in frames."""
    values = torch.tensor((STATE - [0.1, 2.0]) / [0.7, 0.4], dtype=torch.float32)[None]
    knots = np.array([0.0, 0.3, 0.5, 1.0, 1.5, 2.0])
    wall, pump = np.interp(knots, *GIVEN["signals"]["wall"]), np.interp(knots, TIMES, GIVEN["signals"]["pump"])
    told = {
        "parameters": torch.tensor([[(0.3 - 0.5) / 0.2, (12.0 - 10.0) / 4.0]]),
        "signals": torch.tensor(np.stack([(wall - 1) / 2, pump / 0.5], axis=-1)[None], dtype=torch.float32),
        "signal_times": torch.tensor(knots[None] / 0.5, dtype=torch.float32),
        "features": torch.tensor((STATE[None, :, :1] - 0.1) / 0.5, dtype=torch.float32),
    }
    points = torch.tensor(POINTS / [2.0, 1.0], dtype=torch.float32)
    with torch.no_grad():
        expected = surrogate.model(values, points, times=[0.5, 3.0], **told)[0].double().numpy() * [0.7, 0.4] + [0.1, 2.0]
    found = surrogate.solve(STATE, POINTS, [0.25, 1.5], **GIVEN)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    for kind, other in {
        "parameters": {"power": 9.0, "speed": 0.3},
        "signals": GIVEN["signals"] | {"wall": 0.0},
        "features": {"depth": -STATE[:, 0]},
    }.items():
        assert np.abs(surrogate.solve(STATE, POINTS, [0.25, 1.5], **(GIVEN | {kind: other})) - found).max() > 1e-4, kind


@pytest.mark.filterwarnings("ignore:times reach")
@pytest.mark.parametrize("integrator", ["heun", "rk4"])
def test_a_time_is_answered_alike_whatever_else_is_asked(integrator):
    """What is told of the signals goes into it as far as they are known, and not as far as is asked."""
    asked = conditioned({"integrator": integrator})
    told = GIVEN | {"signals": {"wall": ([0.0, 1.2, 1.6, 3.5], [0.0, 1.0, -2.0, 4.0]), "pump": 0.4}}
    together = asked.solve(STATE, POINTS, [0.5, 1.2, 2.0, 2.3, 3.1], **told)
    alone = [asked.solve(STATE, POINTS, [time], **told)[0] for time in (0.5, 1.2, 2.0)]
    np.testing.assert_allclose(alone, together[:3], rtol=1e-5, atol=1e-6)


def test_batches_and_lists_are_their_samples_alone(surrogate):
    power, wall = np.array([6.0, 9.0, 14.0]), np.random.default_rng(0).uniform(-2, 4, (3, 5))
    told = {"parameters": {"power": power, "speed": 0.3}, "signals": {"wall": wall, "pump": 0.2}, "features": GIVEN["features"]}
    alone = [
        surrogate.solve(
            STATE,
            POINTS,
            parameters={"power": power[row], "speed": 0.3},
            signals={"wall": wall[row], "pump": 0.2},
            features=STATE[:, :1],
        )
        for row in range(3)
    ]
    sweep = surrogate.solve(STATE, POINTS, **told)
    assert sweep.shape == (3, 4, 40, 2)
    np.testing.assert_allclose(sweep, alone, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(surrogate.solve(np.stack([STATE] * 3), POINTS, **told), alone, rtol=1e-4, atol=1e-5)
    own = told | {"features": [STATE[:, :1]] * 3}
    np.testing.assert_allclose(surrogate.solve([STATE] * 3, [POINTS] * 3, **own), alone, rtol=1e-4, atol=1e-5)
    baked = surrogate.bake(POINTS)
    np.testing.assert_allclose(baked.solve(STATE, **told), alone, rtol=1e-3, atol=1e-4)
    one = {"parameters": {"power": [6.0], "speed": 0.3}, "signals": {"wall": wall[0], "pump": 0.2}, "features": STATE[:, :1]}
    assert surrogate.solve(STATE, POINTS, **one).shape == (1, 4, 40, 2)


LATE = {"wall": ([0.0, 1.9], [0.0, 0.0]), "pump": 0.0}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parameters": None}, "parameters: expected speed, power, got none. Give parameters={'speed': …, 'power': …}"),
        ({"parameters": {"power": 12.0}}, "parameters: expected speed, power, got no 'speed'"),
        ({"parameters": {"power": 12.0, "sped": 1.0}}, "got 'sped'. Did you mean 'speed'"),
        ({"parameters": [1.0, 2.0]}, "parameters: expected a dictionary {name: value}, got list"),
        ({"parameters": {"power": 12.0, "speed": np.nan}}, r"parameters\['speed'\]: expected finite numbers"),
        ({"parameters": {"power": [1.0, 2.0], "speed": [1.0, 2.0, 3.0]}}, "as many samples in all of them, got 2 and 3"),
        ({"signals": None}, r"signals: expected wall \[K\], pump, got none"),
        (
            {"signals": LATE},
            r"signals\['wall'\]: expected values .* to the last time that is asked, 2, got values from 0 to 1.9",
        ),
        ({"signals": {"wall": ([0.1, 2.0], [0.0, 0.0]), "pump": 0.0}}, "got values from 0.1 to 2"),
        ({"signals": {"wall": [1.0, 2.0], "pump": 0.0}}, r"signals\['wall'\]: .* or 5 values, one per frame of the training"),
        ({"signals": {"wall": ([0.0, 2.0, 1.0], [0.0] * 3), "pump": 0.0}}, "expected strictly increasing times"),
        ({"features": STATE}, r"features: expected shape \(point, feature\) = \(40, 1\) with depth, got shape \(40, 2\)"),
        ({"features": {"depth": STATE[:9, 0]}}, r"features\['depth'\]: expected \(40,\)"),
        ({"prescribed": {"u": STATE}}, "prescribed: expected none, since the surrogate was trained without, got u"),
    ],
)
def test_what_does_not_fit_is_named(changes, message, surrogate):
    with pytest.raises(InputError, match=message):
        surrogate.solve(STATE, POINTS, **(GIVEN | changes))
    with pytest.raises(InputError, match=message):
        surrogate.bake(POINTS).solve(STATE, **(GIVEN | changes))


def test_a_surrogate_without_conditions_takes_none():
    plain = small_surrogate(parameters=("speed",))  # its data had one, and its model was not told
    for kind, name in (("parameters", "speed"), ("signals", "wall"), ("features", "depth")):
        with pytest.raises(InputError, match=f"{kind}: expected none, since the surrogate was trained without, got {name}"):
            plain.solve(STATE, POINTS, **{kind: {name: STATE[:, 0]}})
    np.testing.assert_array_equal(plain.solve(STATE, POINTS, parameters={}), plain.solve(STATE, POINTS))


def test_extrapolation_is_said_by_name_and_numbers(surrogate):
    inside = surrogate.solve(STATE, POINTS, [1.5], **GIVEN)
    assert np.isfinite(inside).all()
    for kind, told, words in (
        (
            "parameters",
            {"power": 16.0, "speed": 0.5},
            "power leaves the range seen in training: power = 16, trained on 5 to 15",
        ),
        ("signals", {"wall": [0.0, 0.0, -9.0, 0.0, 0.0], "pump": 0.0}, "wall = -9, trained on -3 to 5"),
        ("features", {"depth": 3 + STATE[:, 0]}, "depth leaves the range"),
    ):
        with pytest.warns(TrainingRangeWarning, match=f"{kind}: .*{words}"):
            surrogate.solve(STATE, POINTS, [1.5], **(GIVEN | {kind: told}))


def test_a_tensor_with_gradient_is_refused_in_plain_words(surrogate):
    state = torch.tensor(STATE, requires_grad=True)
    with pytest.raises(InputError, match=r"initial: expected plain numbers.*a tensor with gradient\. Pass initial\.detach"):
        surrogate.solve(state, POINTS, **GIVEN)
    power = {"power": torch.tensor(9.0, requires_grad=True), "speed": 0.3}
    with pytest.raises(InputError, match=r"parameters\['power'\]: expected plain numbers"):
        surrogate.solve(STATE, POINTS, **(GIVEN | {"parameters": power}))
    np.testing.assert_array_equal(surrogate.solve(state.detach(), POINTS, **GIVEN), surrogate.solve(STATE, POINTS, **GIVEN))


def test_a_file_tells_the_same_by_name(tmp_path, surrogate):
    """Whatever the order of its names, and with frames at other times than in training."""
    file = data_file(tmp_path / "a.h5")
    data = Dataset(file, "test")
    batch = next(data.batches([whole_windows(1, 5)]))
    found = file.trajectory(3)
    told = {
        "parameters": {"speed": found.parameters[2], "power": found.parameters[0]},
        "signals": {
            "wall": (found.signal_times - 2, found.signals[:, 1]),
            "pump": (found.signal_times - 2, found.signals[:, 0]),
        },
        "features": found.features[:, 1:],
    }
    expected = surrogate.solve(found.fields[0], POINTS, **told)
    np.testing.assert_allclose(surrogate.predicted(for_surrogate(surrogate, data, batch))[0], expected, rtol=1e-4, atol=1e-5)
    wide = Dataset(file, "test", frame_stride=2)
    batch = next(wide.batches([whole_windows(1, 3)]))
    answer = surrogate.predicted(for_surrogate(surrogate, wide, batch))[0]
    np.testing.assert_allclose(answer, expected[1::2], rtol=1e-4, atol=1e-5)
    bare = data_file(tmp_path / "b.h5", parameters={"power": np.ones(4)})
    with pytest.raises(FileError, match="parameters: holds power, and the surrogate was trained with speed, power"):
        evaluate(surrogate, bare)


def test_predict_takes_them_from_the_file_and_keeps_them(tmp_path, surrogate):
    file = data_file(tmp_path / "a.h5")
    surrogate.save(tmp_path / "folder")
    given = file.trajectory(3)
    out = DataFile(cp.predict(surrogate, file.path, tmp_path / "b.h5", split="test"))
    assert (out.description.parameters, out.description.signals) == (("power", "age", "speed"), ("pump", "wall"))
    found = out.trajectory(0)
    np.testing.assert_array_equal(found.parameters, given.parameters)
    np.testing.assert_allclose(found.signal_times, given.signal_times - 2)
    np.testing.assert_array_equal(found.signals, given.signals)
    told = ["--parameters", "power=7.5", "--split", "test"]
    main(["predict", str(tmp_path / "folder"), "--input", str(file.path), "--out", str(tmp_path / "c.npz"), *told])
    arrays = np.load(tmp_path / "c.npz")
    assert (arrays["parameters/power"], arrays["parameters/age"]) == (7.5, given.parameters[1])
    assert np.abs(arrays["fields"][0, 1:] - found.fields[1:]).max() > 1e-5
    saved = {f"signals/{name}": given.signals[:, place] for place, name in enumerate(("pump", "wall"))}
    saved |= {f"signal_times/{name}": given.signal_times - 2 for name in ("pump", "wall")}
    saved |= {"parameters/power": np.array([7.5, given.parameters[0]]), "parameters/speed": given.parameters[2]}
    np.savez(tmp_path / "d.npz", initial=given.fields[0], points=POINTS, features=given.features[:, 1:], **saved)
    again = DataFile(cp.predict(surrogate, tmp_path / "d.npz", tmp_path / "e.h5"))
    np.testing.assert_allclose(again.trajectory(0).fields, arrays["fields"][0], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(again.trajectory(1).fields, found.fields, rtol=1e-4, atol=1e-4)
    assert again.trajectory(0).parameters.tolist() == [given.parameters[2], 7.5]
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "folder"), "--input", "x.h5", "--out", "y.h5", "--parameters", "power"])


def test_statistics_of_conditions(tmp_path):
    """Over the training split; constants deviate by 1; what ranges over decades is told by its logarithm."""
    numbers = np.array([1e-5, 1e-3, 7.0, 8.0])
    told = {"viscosity": numbers, "fixed": np.full(4, 3.0), "plain": np.array([1.0, 2.0, 8.0, 9.0])}
    data = Dataset(data_file(tmp_path / "a.h5", parameters=told), "train")
    parameters, signals = condition_statistics(data)
    assert parameters.logarithmic == (True, False, False)
    np.testing.assert_allclose(parameters.mean, [np.log(1e-4), 3.0, 1.5])
    np.testing.assert_allclose(parameters.std, [np.log(1e-3 / 1e-5) / np.sqrt(2), 1.0, np.sqrt(0.5)])
    assert (parameters.lowest, parameters.highest) == ((1e-5, 3.0, 1.0), (1e-3, 3.0, 2.0))
    rows = np.concatenate([data.file.trajectory(index).signals for index in (0, 1)])
    np.testing.assert_allclose(signals.mean, rows.mean(axis=0))
    np.testing.assert_allclose(signals.std, rows.std(axis=0, ddof=1))
    values = torch.tensor([[1e-4, 3.0, 2.5]], dtype=torch.float64)
    np.testing.assert_allclose(parameters.normalized(values), [[0.0, 0.0, np.sqrt(2)]], atol=1e-12)
    np.testing.assert_allclose(parameters.physical(parameters.normalized(values)), values, rtol=1e-12)


def test_parameters_told_by_their_logarithm_are_positive(surrogate):
    known = surrogate.card.parameter_statistics.model_copy(update={"logarithmic": (False, True)})
    told = Surrogate(surrogate.model, surrogate.card.model_copy(update={"parameter_statistics": known}))
    with pytest.raises(InputError, match=r"parameters\['power'\]: expected a number > 0, got -1"):
        told.solve(STATE, POINTS, **(GIVEN | {"parameters": {"power": -1.0, "speed": 0.5}}))


def test_a_folder_keeps_statistics_only_where_there_are_some(tmp_path, surrogate):
    surrogate.save(tmp_path / "a")
    loaded = Surrogate.load(tmp_path / "a")
    assert loaded.card == surrogate.card
    np.testing.assert_array_equal(loaded.solve(STATE, POINTS, **GIVEN), surrogate.solve(STATE, POINTS, **GIVEN))
    plain = small_surrogate().card.written()
    assert not {"parameter_statistics", "signal_statistics", "units", "signals"} & plain.keys()


def with_walls(kind: str = "u", types: tuple[int, ...] = (4,)) -> Surrogate:
    return small_surrogate(
        prescribed=(Prescribed(field=kind, node_types=types),), **({} if not types else {"told": {}, "node_types": ()})
    )


def test_prescribed_values_are_the_answer_exactly_where_they_are(tmp_path):
    surrogate = with_walls()
    given = np.random.default_rng(0).uniform(-1, 1, (4, 40)).astype(np.float32)
    told = {"node_type": KINDS, "prescribed": {"u": np.where(KINDS == 4, given, np.nan)}}
    found, plain = surrogate.solve(STATE, POINTS, **told), small_surrogate().solve(STATE, POINTS)
    wall = KINDS == 4
    np.testing.assert_array_equal(found[:, wall, 0], given[:, wall])
    np.testing.assert_allclose(found[:, ~wall], plain[:, ~wall], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[..., 1], plain[..., 1], rtol=1e-5, atol=1e-6)
    free = surrogate.solve(STATE, POINTS, queries=POINTS, **told)
    np.testing.assert_allclose(free, plain, rtol=1e-4, atol=1e-5)
    baked = surrogate.bake(POINTS, node_type=KINDS).solve(STATE, prescribed=told["prescribed"])
    np.testing.assert_array_equal(baked[:, wall, 0], given[:, wall])
    np.testing.assert_allclose(baked, found, rtol=1e-4, atol=1e-5)
    many = surrogate.solve([STATE, STATE], [POINTS, POINTS], node_type=[KINDS] * 2, prescribed={"u": [given, -given]})
    np.testing.assert_array_equal(many[1][:, wall, 0], -given[:, wall])
    file = data_file(tmp_path / "a.h5", node_type=KINDS, prescribed={"u": [4]})
    data = Dataset(file, "test")
    batch = next(data.batches([whole_windows(1, 5)]))
    predicted = surrogate.predicted(batch)
    assert torch.equal(predicted[0, :, wall, 0], batch.fields[0, 1:, wall, 0])
    answer = DataFile(cp.predict(surrogate, file.path, tmp_path / "b.h5", split="test", times=[0.25, 2.0])).trajectory(0)
    truth = file.trajectory(3).fields
    np.testing.assert_allclose(answer.fields[1, wall, 0], (truth[0] + truth[1])[wall, 0] / 2, rtol=1e-5)
    np.testing.assert_allclose(answer.fields[2, wall, 0], truth[4, wall, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"node_type": KINDS}, "prescribed: expected u, got none"),
        ({"prescribed": {"u": np.zeros((4, 40))}}, "node_type: expected codes, since u is prescribed at types 4, got none"),
        ({"node_type": KINDS, "prescribed": {"v": np.zeros((4, 40))}}, "prescribed: expected u, got 'v'"),
        ({"node_type": KINDS, "prescribed": {"u": np.zeros((5, 40))}}, r"expected shape \(time, point\) = \(4, 40\)"),
        ({"node_type": KINDS, "prescribed": {"u": np.full((4, 40), np.nan)}}, "expected finite numbers, got 80 that are not"),
    ],
)
def test_prescribed_values_that_do_not_fit_are_named(told, message):
    with pytest.raises(InputError, match=message):
        with_walls().solve(STATE, POINTS, **told)


def test_prescribed_values_are_no_predictions_in_an_evaluation(tmp_path):
    """Errors are those over the other points alone; a field that is prescribed everywhere has none."""
    file = data_file(tmp_path / "a.h5", node_type=KINDS, prescribed={"u": [4]})
    surrogate, fluid = with_walls(), KINDS == 0
    found = evaluate(surrogate, file)
    truth = file.trajectory(3).fields.astype(np.float64)[1:]
    answer = surrogate.predicted(next(Dataset(file, "test").batches([whole_windows(1, 5)])))[0].double().numpy()
    for place, some in enumerate((fluid, slice(None))):
        wrong, size = (answer - truth)[:, some, place], truth[:, some, place]
        expected = np.mean(np.linalg.norm(wrong, axis=1) / np.linalg.norm(size, axis=1))
        assert found.fields[place].relative_l2.mean == pytest.approx(expected, rel=1e-6)
        assert found.fields[place].rmse == pytest.approx(np.sqrt(np.mean(wrong**2)), rel=1e-6)
    start = file.trajectory(3).fields[0].astype(np.float64)
    still = np.mean(np.linalg.norm((start - truth)[:, fluid, 0], axis=1) / np.linalg.norm(truth[:, fluid, 0], axis=1))
    assert found.baseline.fields[0].relative_l2.mean == pytest.approx(still, rel=1e-6)
    whole = evaluate(with_walls(types=()), file)
    assert (whole.fields[0].given, whole.fields[1].given, found.fields[0].given) == (True, False, False)
    assert whole.fields[0].zero_frames == 0
    assert [ours.name for ours, _ in whole.predicted] == ["v"]
    assert "u m s given v 0" in " ".join(re.sub(r"[^\w ]+", " ", shown_of(whole)).split())
    assert "nan" not in shown_of(whole)
    assert whole.relative_l2.mean == pytest.approx(found.fields[1].relative_l2.mean, rel=1e-6)


def shown_of(found: Evaluation) -> str:
    console = Console(width=140, file=io.StringIO(), record=True)
    console.print(table(found))
    return console.export_text()


def test_prescribed_values_reach_a_model_at_whole_frames(tmp_path):
    file = data_file(tmp_path / "a.h5", node_type=KINDS, prescribed={"u": [4]})
    data, translator = Dataset(file, "train"), with_walls().translator
    batch = next(data.batches([[Window(0, 1, 3), Window(1, 1, 3)]]))
    told = translator.frames(batch, torch.float64).prescribed
    assert told.shape == (2, 2, 40, 2)
    wall = torch.tensor(KINDS == 4)
    torch.testing.assert_close(told[:, :, wall, 0], (batch.fields[:, 1:, wall, 0].double() - 0.1) / 0.7)
    assert bool(told[..., ~wall, 0].isnan().all() & told[..., 1].isnan().all())
    assert translator.known(batch).sum() == 2 * 3 * 20
    values = torch.arange(4.0).square()[None, :, None, None]
    found = at_whole_frames(values, torch.tensor([0.0, 1.0, 2.0, 4.0]))
    assert found.flatten().tolist() == [1.0, 4.0, 6.5, 9.0]


def test_warnings_are_none_where_all_is_inside(surrogate):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surrogate.solve(STATE, POINTS, **GIVEN)
