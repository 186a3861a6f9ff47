"""Campaigns with a search: who is searched, what is chosen, what is run, and what a second start makes of it."""

from __future__ import annotations

import io
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from calm_pde import cli
from calm_pde.bench.measured.result import Failure, Outcome, Result, Validated, save
from calm_pde.bench.runs import campaign
from calm_pde.bench.runs.budget import Allowance
from calm_pde.bench.runs.job import SuiteJob, compare
from calm_pde.bench.runs.phases import Phases
from calm_pde.bench.runs.suite import load_suite
from calm_pde.bench.runs.trials import Trial, trials
from calm_pde.data import dataset
from calm_pde.errors import CalmError, ConfigError
from tests.bench.campaigns import FNO, MEASURED, SEARCH, SUITE, job, lasting, result, suite, validated, write_suite
from tests.train.runs import ROOT

VALIDATION = {"first": 0.3, "second": 0.1, "third": 0.2, "mine": 0.9, "fixed": 0.01}
"""With their own settings; by their test errors the ranks are the other way round."""


def searched(out: Path, **changes: Any) -> tuple[SuiteJob, Phases]:
    made = job(out, **(SEARCH | changes))
    assert made.phases is not None
    return made, made.phases


def told(trial: Trial, validation: float) -> Result | Validated:
    """As if it had run."""
    known = {"model": trial.model, "title": trial.title, "setting": trial.setting, "seed": trial.seed}
    if not trial.tested:
        return validated(validation=validation, **known)
    return result(validation=validation, error=1 - validation, **known)


def write(made: SuiteJob, phases: Phases, errors: dict[str, float | None]) -> None:
    """Outcomes by the name of their run; None for one that failed."""
    for trial in phases.known():
        if trial.name in errors:
            error = errors[trial.name]
            failed = Failure(data=trial.data, model=trial.model, title=trial.title, seed=trial.seed, reason="out of memory")
            made.campaign.folder(trial).mkdir(parents=True, exist_ok=True)
            save(made.campaign.folder(trial), failed if error is None else told(trial, error))
    phases.read()


def own(**changes: float | None) -> dict[str, float | None]:
    return {f"sample-{model}-own-seed3": error for model, error in (VALIDATION | changes).items()}


def tries(slow: float | None, fast: float | None, *models: str) -> dict[str, float | None]:
    pair = {"slow": slow, "fast": fast}
    return {f"sample-{model}-search-{name}": error for model in models for name, error in pair.items()}


def names(found: list[Trial]) -> list[str]:
    return [trial.name.removeprefix("sample-") for trial in found]


def test_the_strongest_are_told_by_validation_alone(tmp_path):
    """Their test errors would rank them the other way round; ours goes on though it is last, and no place is its."""
    made, phases = searched(tmp_path)
    assert names(phases.own_runs()) == [f"{model}-own-seed3" for model in SEARCH["models"]]
    assert names(phases.search_runs()) == ["mine-search-slow", "mine-search-fast"]  # the others' places are not known
    assert phases.ranking("sample") is None
    write(made, phases, own())
    assert phases.ranking("sample") == ["second", "third", "first"]
    assert names(phases.search_runs()) == [
        f"{model}-search-{name}" for model in ("second", "third", "mine") for name in ("slow", "fast")
    ]
    assert phases.chosen_runs() == []


def test_a_failed_run_is_the_weakest(tmp_path):
    made, phases = searched(tmp_path)
    write(made, phases, own(second=None, third=math.inf))
    assert phases.ranking("sample") == ["first", "second", "third"]


def test_the_smallest_validation_error_chooses(tmp_path):
    made, phases = searched(tmp_path)
    write(made, phases, own())
    write(made, phases, tries(0.2, 0.1, "second") | tries(0.5, None, "third"))
    assert (phases.choice(("sample", "second")), phases.choice(("sample", "third"))) == ("fast", "slow")
    assert phases.choice(("sample", "mine")) is None
    write(made, phases, {"sample-mine-search-fast": 0.2})
    assert phases.choice(("sample", "mine")) is None  # slow may yet be better
    write(made, phases, tries(0.2, 0.2, "mine"))
    assert phases.choice(("sample", "mine")) == "slow"  # the first of equals
    wanted = [f"{model}-seed{seed}" for model in ("second", "third", "mine") for seed in (3, 4)]
    assert names(phases.chosen_runs()) == wanted
    trained = {trial.model: trial.recipe.train for trial in phases.chosen_runs()}
    assert (trained["second"].optimizer, trained["second"].learning_rate) == ("muon", 3e-3)
    assert (trained["third"].optimizer, trained["third"].learning_rate) == ("adamw", 1e-3)
    assert names(phases.shown()) == ["first-own-seed3", *wanted, "fixed-own-seed3"]


def test_where_the_whole_search_fails_a_model_keeps_its_own_settings(tmp_path):
    made, phases = searched(tmp_path)
    write(made, phases, own() | tries(None, math.inf, "mine"))
    assert phases.choice(("sample", "mine")) == "own"
    plain = {trial.name: trial for trial in trials(suite(**SEARCH), tmp_path, steps=4)}
    (first, *_) = [trial for trial in phases.chosen_runs() if trial.model == "mine"]
    assert first.recipe == plain[first.name].recipe
    assert "own, the whole search failed" in (made.rows()["sample"][3].settings)


def test_a_run_of_the_search_is_short_and_lies_over_all_other_settings(tmp_path):
    """The model's own settings over the data set's, both over the suite's; one seed, and no test."""
    models = {
        "first": FNO | {"train": {"learning_rate": 0.5}},
        "second": FNO | {"search": {"settings": {"a b": {"betas": [0.8, 0.9]}}}},
    }
    search = {"minutes": 1, "settings": SEARCH["search"]["settings"]}
    chosen = suite(**(SEARCH | {"models": models, "search": search, "minutes": 3, "fewest_steps": 7}))
    phases = SuiteJob(chosen, tmp_path, Console(quiet=True)).phases
    assert phases is not None
    slow, _, third = phases.search_runs()
    assert (slow.recipe.train.learning_rate, slow.seed, slow.tested) == (1e-3, 3, False)
    assert (slow.length.minutes, slow.length.fewest_steps) == (1, 7)
    assert (third.name, third.recipe.train.betas) == ("sample-second-search-a_b", (0.8, 0.9))
    data = {"sample": SUITE["data"]["sample"] | {"search": {"settings": {"steady": {"schedule": "constant"}}}}}
    _, of_data = searched(tmp_path, models=models, data=data, search=search)
    assert names(of_data.search_runs()) == ["first-search-steady", "second-search-a_b"]


def test_without_strongest_all_are_searched_at_once(tmp_path):
    """And a model that never is has all its seeds with its own settings, the very runs of a suite without a search."""
    made, phases = searched(tmp_path, search=SEARCH["search"] | {"strongest": None})
    assert phases.own_runs() == []
    assert len(phases.search_runs()) == 4 * 2
    assert names(phases.chosen_runs()) == ["fixed-seed3", "fixed-seed4"]
    plain = [trial for trial in trials(suite(**(SEARCH | {"search": None})), tmp_path, steps=4) if trial.model == "fixed"]
    assert [trial.recipe for trial in phases.chosen_runs()] == [trial.recipe for trial in plain]
    assert made.rows()["sample"][4].settings == "own, not searched"


def test_a_suite_without_a_search_writes_what_it_always_wrote(tmp_path):
    """Names of runs, and what an allowance holds of them."""
    found = trials(suite(seeds=[0, 1]), tmp_path)
    assert names(found) == ["fno-seed0", "fno-seed1", "calm-seed0", "calm-seed1"]
    fields = ["name", "data", "model", "title", "preset", "seed", "metric", "recipe", "length"]
    for written in (found[0].model_dump(), json.loads(found[0].model_dump_json())):
        assert list(written) == fields
        assert list(written["length"]) == ["minutes", "fewest_steps", "steps", "iterations"]
    asked = Allowance(asked=found[0], recipe=found[0].recipe, steps=1, seconds_per_step=1, validation_seconds=0, probes=())
    assert list(json.loads(asked.model_dump_json())["asked"]) == fields
    assert Trial.model_validate_json(found[0].model_dump_json()) == found[0]
    assert job(tmp_path).phases is None
    _, phases = searched(tmp_path)
    for trial in phases.known():
        assert Trial.model_validate_json(trial.model_dump_json()) == trial
        assert trial.model_dump()["setting"]


@pytest.fixture
def attempts(monkeypatch) -> list[str]:
    """Runs that are told of and not made: the slow settings are the better ones."""
    made: list[str] = []

    def attempt(_: object, trial: Trial) -> Outcome:
        made.append(trial.name.removeprefix("sample-"))
        return told(trial, {"slow": 0.1, "fast": 0.2}.get(trial.setting, VALIDATION[trial.model]))

    monkeypatch.setattr(campaign.Campaign, "_attempt", attempt)
    return made


def test_phase_after_phase(tmp_path, attempts):
    """A second start has nothing left to do."""
    made, _ = searched(tmp_path)
    made.run()
    models = list(SEARCH["models"])
    best = ["second", "third", "mine"]
    assert attempts == [
        *(f"{model}-own-seed3" for model in models),
        *(f"{model}-search-{name}" for model in best for name in ("slow", "fast")),
        *(f"{model}-seed{seed}" for model in best for seed in (3, 4)),
    ]
    attempts.clear()
    written = (tmp_path / "table.md").read_text()
    searched(tmp_path)[0].run()
    assert attempts == []
    assert (tmp_path / "table.md").read_text() == written
    lines = [line.split(" | ")[:3] for line in written.splitlines() if line.startswith("| ")][1:6]
    assert [line[1].strip() for line in lines] == ["own, one seed", "slow", "slow", "slow", "own, one seed"]
    found = {row.model: row for row in made.rows()["sample"]}
    assert [len(found[model].results) for model in models] == [1, 2, 2, 2, 1]


def test_those_that_are_named_wait_for_the_places_of_the_others(tmp_path, attempts):
    said = io.StringIO()
    made = SuiteJob(suite(**SEARCH), tmp_path, Console(file=said, width=300), steps=4)
    made.run(only=("first", "mine"))
    assert attempts == ["first-own-seed3", "mine-own-seed3", "mine-search-slow", "mine-search-fast", "mine-seed3", "mine-seed4"]
    assert "sample: the strongest are known when these have run with their own settings: second, third" in said.getvalue()
    assert made.rows()["sample"][0].settings == "own, one seed; not ranked yet"
    made.run(only=("second",))
    assert names(made.phases.own_runs() if made.phases else [])[0] == "first-own-seed3"
    assert attempts[6:] == ["second-own-seed3"]
    attempts.clear()
    made.run(only=("third",))
    assert attempts == ["third-own-seed3", "third-search-slow", "third-search-fast", "third-seed3", "third-seed4"]


def test_a_failure_is_tried_again_until_something_was_chosen_by_it(tmp_path, attempts):
    made, phases = searched(tmp_path)
    write(made, phases, own(second=None) | tries(None, 0.4, "mine"))
    made.run(only=("second", "mine"))  # nothing was searched, nothing chosen: both failures are tried again
    assert {"second-own-seed3", "mine-search-slow"} <= set(attempts)
    assert "mine-search-fast" not in attempts
    made, phases = searched(tmp_path / "again")
    write(made, phases, own(first=None))
    write(made, phases, tries(None, 0.4, "second"))
    for name in ("sample-second-search-slow", "sample-second-seed3"):
        made.campaign.folder(next(trial for trial in phases.known() if trial.name == name)).mkdir(parents=True, exist_ok=True)
    attempts.clear()
    made.run()
    assert {"first-own-seed3", "second-search-slow"}.isdisjoint(attempts)
    assert phases.choice(("sample", "second")) == "fast"


@pytest.mark.usefixtures("attempts")
def test_runs_of_other_settings_are_not_taken_for_those_that_were_chosen(tmp_path):
    """A campaign without a search has run in the folder before: its runs have the same names."""
    made, phases = searched(tmp_path)
    write(made, phases, own() | tries(0.2, 0.1, "mine"))
    (trial, _) = [trial for trial in phases.chosen_runs() if trial.model == "mine"]
    before = trial.model_copy(update={"setting": ""})
    save_allowance(tmp_path, before)
    made.campaign.folder(trial).mkdir(parents=True)
    save(made.campaign.folder(trial), told(before, 0.5))
    assert made.rows()["sample"][3].results == []
    with pytest.raises(CalmError, match=r"begun with other settings \(setting: None then, 'fast' now\)"):
        made.run()


def save_allowance(out: Path, trial: Trial) -> None:
    made = Allowance(asked=trial, recipe=trial.recipe, steps=4, seconds_per_step=1, validation_seconds=0, probes=())
    (out / "plans").mkdir(exist_ok=True)
    (out / "plans" / f"{trial.name}.json").write_text(made.model_dump_json())


def test_the_list_tells_what_is_known(tmp_path, monkeypatch, capsys):
    path = str(write_suite(tmp_path, **SEARCH))
    monkeypatch.chdir(tmp_path)
    made, phases = searched(tmp_path / "bench" / "tiny")
    write(made, phases, own(third=None) | tries(0.25, 0.5, "mine"))
    cli.main(["bench", path, "--steps", "4", "--list"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  0  first on sample, seed 3, own (navier_stokes_2d_small): test error 0.7000"
    assert lines[2] == "  2  third on sample, seed 3, own (navier_stokes_2d_small): failed: out of memory"
    assert "  9  mine on sample, seed 3, slow (navier_stokes_2d_small): validation error 0.2500" in lines
    assert lines[-1] == " 12  mine on sample, seed 4, slow (navier_stokes_2d_small): not run yet"
    with pytest.raises(SystemExit):
        cli.main(["bench", path, "--index", "2"])
    assert "index: the runs of tiny depend on what its search finds" in capsys.readouterr().err


def test_everything_small_has_no_search(tmp_path):
    made = SuiteJob(suite(**SEARCH), tmp_path, Console(quiet=True), small=True)
    assert made.phases is None
    assert made.searches() == {}
    assert names(made.trials) == [f"{model}-seed3" for model in SEARCH["models"]]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": {"sample": SUITE["data"]["sample"] | {"train": {"validation": 0}}}}, "train.validation: expected 1, got 0"),
        (
            {"models": SEARCH["models"] | {"second": FNO | {"train": {"reduction": "spacetime"}}}},
            "data: sample: train.reduction: expected one of all models",
        ),
        (
            {"search": SEARCH["search"] | {"settings": {"x": {"learning_rat": 1}}}},
            "models: first on sample, searched x: train: unknown key 'learning_rat'. Did you mean 'learning_rate'?",
        ),
        ({"search": SEARCH["search"] | {"settings": {"a b": {}, "a_b": {}}}}, "share the folder sample-first-search-a_b"),
        ({"models": {"x": FNO, "x-own": FNO | {"title": "y"}}}, "share the folder sample-x-own-seed3"),
    ],
)
def test_searches_that_cannot_be_compared_are_refused(tmp_path, change, words):
    with pytest.raises(ConfigError) as raised:
        searched(tmp_path, **change)
    assert words in str(raised.value)


@pytest.mark.usefixtures("_unmeasured")
def test_a_search_never_sees_the_test_split(tmp_path, monkeypatch):
    """Nor is it measured; its number is the one by which the checkpoint was kept."""
    opened = []
    ordinary: Callable[..., None] = dataset.Dataset.__init__

    def watched(self: dataset.Dataset, file: Any, split: str, **options: Any) -> None:
        opened.append(split)
        ordinary(self, file, split, **options)

    monkeypatch.setattr(dataset.Dataset, "__init__", watched)
    made, phases = searched(tmp_path)
    trial = next(trial for trial in phases.search_runs() if trial.setting == "fast")
    made.campaign.run([trial])
    assert set(opened) == {"train", "validation"}
    found = made.campaign.of(trial)
    assert isinstance(found, Validated), found
    run = made.campaign.folder(trial)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert found.validation == min(line["validation"] for line in lines if line.get("validation") is not None)
    assert found.validation == json.loads((run / "surrogate" / "surrogate.json").read_text())["metrics"]["validation"]
    assert not (run / "evaluation.json").exists()
    made.campaign.run([trial.model_copy(update={"tested": True, "name": "tested", "setting": ""})])
    assert "test" in opened


@pytest.fixture
def _unmeasured(monkeypatch):
    monkeypatch.setattr(campaign, "measured", lambda _: MEASURED)


@pytest.mark.usefixtures("_unmeasured")
def test_killed_and_continued_by_two_workers_it_ends_as_one_that_was_never_touched(tmp_path):
    """Killed in the first run of the search."""
    content = SEARCH | {"seeds": [3], "models": {"first": FNO, "second": {"kind": "fno", "model": {"width": 5, "modes": 4}}}}
    content["search"] = SEARCH["search"] | {"strongest": 1}
    path = write_suite(tmp_path, **content)
    whole = SuiteJob(load_suite(str(path)), tmp_path / "whole", Console(quiet=True), steps=4)
    whole.run()
    out = tmp_path / "killed"
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.campaigns", "3", "3", str(path), str(out)],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stdout + ended.stderr
    kept = {run.parent.name: run.stat().st_mtime_ns for run in out.glob("runs/*/result.json")}
    assert sorted(kept) == ["sample-first-own-seed3", "sample-second-own-seed3"]
    found = compare(path, out, steps=4, workers=2)
    assert found.searches == whole.searches()
    (best,) = (one for one in found.searches["sample"] if one.goes_on)
    assert all(error is not None and math.isfinite(error) for error in best.errors.values())
    assert [one.settings for one in found.rows["sample"]] == [one.settings for one in whole.rows()["sample"]]
    ours, theirs = ([list(map(lasting, row.results)) for row in rows["sample"]] for rows in (found.rows, whole.rows()))
    assert ours == theirs
    assert list(map(len, ours)) == [1, 1]
    written = {run.parent.name: run.stat().st_mtime_ns for run in out.glob("runs/*/result.json")}
    assert written.pop(f"sample-{best.model}-seed3")
    assert written == kept
