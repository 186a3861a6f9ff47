"""The comparison of speed: what a step is, and a table of ratios."""

from __future__ import annotations

import json
from functools import partial

import pytest
from rich.console import Console

from calm_pde.bench.measured import speed as speed_module
from calm_pde.bench.measured.contenders import FULL, SMALL, TRAJECTORIES, contenders, trainer_of, training_step, write_data
from calm_pde.bench.measured.speed import speed
from calm_pde.bench.shown.speed_figure import speed_figure, speed_picture
from calm_pde.bench.shown.speed_table import Speed, speed_markdown
from calm_pde.errors import CalmError
from calm_pde.models import MODELS

CONTENDERS = contenders()


@pytest.mark.parametrize("contender", CONTENDERS, ids=lambda contender: contender.name)
def test_a_step_has_all_transitions_of_eight_trajectories(contender, tmp_path):
    """Counted in the batches that the training loop makes of them."""
    file = write_data(SMALL, tmp_path, contender.timed.scattered).path
    trainer = trainer_of(contender, SMALL, file, tmp_path)
    span = trainer.schedule.spans[contender.timed.stage]
    groups = trainer.groups(span.begin)
    transitions = SMALL.frames - 1
    shown = sum(len(group) for group in groups)
    if contender.kind != "aroma":
        assert (shown, len(groups), trainer.schedule.length(span.begin)) == (TRAJECTORIES, 1, SMALL.frames)
        fed = trainer.schedule.self_fed(span.begin)
        assert fed == (0 if contender.timed.train["feeding"] == "truth" else transitions)
    elif contender.timed.stage == 0:
        assert (shown, len(groups), span.stage.frames) == (TRAJECTORIES * SMALL.frames, 1, 1)
    else:
        assert (shown, len(groups), span.stage.frames) == (TRAJECTORIES * transitions, transitions, 2)


def test_a_step_changes_the_weights_of_its_stage_alone(tmp_path):
    contender = next(one for one in CONTENDERS if one.timed.per_transition)
    trainer = trainer_of(contender, SMALL, write_data(SMALL, tmp_path, False).path, tmp_path)
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    training_step(trainer, contender)()
    changed = {name.split(".")[0] for name, value in trainer.model.state_dict().items() if not value.equal(before[name])}
    assert changed == {"dynamics"}


def test_full_size_is_the_papers():
    assert (FULL.points, FULL.frames, FULL.horizons) == (64, 20, (10, 20, 40, 80))
    assert {contender.kind for contender in CONTENDERS} == set(MODELS)
    for contender in CONTENDERS:
        assert contender.timed.preset in MODELS[contender.kind].presets


def test_ratios_are_to_ours():
    found = [
        Speed(
            name=name,
            what="x",
            parameters=10,
            step_seconds=[seconds],
            step_bytes=int(seconds * 2**20),
            inference_seconds={10: seconds / 2},
        )
        for name, seconds in (("CALM-PDE", 2.0), ("PIT", 5.0))
    ]
    found.append(Speed(name="LNO", what="x", problem="does not fit"))
    text = speed_markdown(found, FULL, ["commit x"], "today")
    rows = {line.split(" | ")[0].strip("| "): line for line in text.splitlines() if line.startswith("| ")}
    training = next(line for line in text.splitlines() if line.startswith("| PIT"))
    numbers = ["5 s", "5 s to 5 s", "2.50", "0.90", "5 MiB", "2.50", "1.20"]
    assert [trial.strip() for trial in training.split("|")][3:10] == numbers
    assert rows["PIT"] == "| PIT | 2.5 s | 2.50 | – | – | – | – | – | – | – |"
    assert "| LNO | x | does not fit |" in text


def test_the_picture_shows_every_model_once():
    """The fastest step on top; parts of a model that are trained apart answer as one."""
    seconds = {"CALM-PDE": 1.0, "AROMA, autoencoder": 9.0, "AROMA, dynamics": 4.0, "FNO": 2.0}
    found = [
        Speed(name=name, what="x", step_seconds=[time], inference_seconds={} if "dyn" in name else {10: time, 20: 2 * time})
        for name, time in seconds.items()
    ]
    training, inference = speed_figure(found, FULL, "a machine").axes
    assert [label.get_text() for label in training.get_yticklabels()] == sorted(seconds, key=lambda name: -seconds[name])
    assert [line.get_label() for line in inference.lines] == ["AROMA", "FNO", "CALM-PDE"]
    assert list(inference.lines[1].get_ydata()) == [2.0, 4.0]
    assert speed_picture(found, FULL, "a machine").startswith(b"\x89PNG")


def test_a_small_run_and_a_model_that_does_not_fit(tmp_path, monkeypatch):
    """Two models to the table; one whose process fails is told of there and left out of the timings."""
    real = speed_module.answer_of

    def failing(module: str, *arguments: str) -> bytes:
        if arguments[0] == "Geo-FNO":
            raise CalmError("the measurement ended early: signal 9, probably out of memory")
        return real(module, *arguments) if arguments[0] == "CALM-PDE" else b'{"parameters": 1, "step": 1, "inference": 1}'

    monkeypatch.setattr(speed_module, "answer_of", failing)
    path = speed(tmp_path / "out", Console(quiet=True), small=True, repeats=1, only=("geo_fno", "fno"))
    text = path.read_text()
    assert path.name.endswith("_speed.md")
    assert "| Geo-FNO | fed by itself, scattered points | the measurement ended early: signal 9" in text
    known = {one["name"]: one for one in json.loads(path.with_suffix(".json").read_text())}
    assert known["CALM-PDE"]["parameters"] > 100_000
    assert known["CALM-PDE"]["step_bytes"] > 2**20
    assert set(known["FNO"]["inference_seconds"]) == {"2", "4"}
    assert len(known["FNO"]["step_seconds"]) == 1


def test_an_interrupted_measurement_goes_on(tmp_path, monkeypatch):
    """What was measured before is not measured again."""
    monkeypatch.setattr(speed_module, "answer_of", lambda *_: b'{"parameters": 7, "step": 1, "inference": 1}')
    real, calls = speed_module.interleaved, []

    def interrupted(programs, *rest):
        calls.append(sorted(programs))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return real(programs, *rest)

    monkeypatch.setattr(speed_module, "interleaved", interrupted)
    again = partial(speed, tmp_path, Console(quiet=True), small=True, repeats=1, only=("fno",))
    with pytest.raises(KeyboardInterrupt):
        again()  # in the second horizon
    notes = json.loads((tmp_path / "unfinished.json").read_text())
    assert "small: True" in notes["heading"]
    monkeypatch.setattr(speed_module, "answer_of", lambda *_: pytest.fail("memory is known"))
    known = {one["name"]: one for one in json.loads(again().with_suffix(".json").read_text())}
    assert len(calls) == 4
    assert set(known["FNO"]["inference_seconds"]) == {"2", "4"}
    assert known["FNO"]["parameters"] == 7
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".json", ".md", ".png"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"heading": ["a"]}', '{"heading": ["a"], "found": [{}]}'])
def test_damaged_notes_are_not_taken_up(tmp_path, text):
    path = tmp_path / "unfinished.json"
    path.write_text(text)
    found = speed_module._Notes(path, ["a"], CONTENDERS).found
    assert list(found) == [contender.name for contender in CONTENDERS]
    assert all(one.parameters is None for one in found.values())


@pytest.mark.slow
def test_all_models_small(tmp_path):
    text = speed(tmp_path, Console(), small=True, repeats=2).read_text()
    assert "ended early" not in text
    for contender in CONTENDERS:
        assert f"| {contender.name} |" in text
    assert "| AROMA |" in text


@pytest.mark.parametrize(
    ("options", "words"), [({"repeats": 0}, "repeats: expected at least 1"), ({"only": ("fnoo",)}, "Did you mean 'fno'")]
)
def test_wrong_options_are_told_first(tmp_path, options, words):
    with pytest.raises(CalmError, match=words):
        speed(tmp_path / "none", Console(quiet=True), **options)
    assert not (tmp_path / "none").exists()
