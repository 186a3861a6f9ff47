"""Recipes for data of one's own: short, valid, told, and they train."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

import calm_pde as cp
from calm_pde import cli
from calm_pde.engine.receptive_fields import neighborhood_size
from calm_pde.errors import CalmError, ConfigError, FileError
from calm_pde.geometry import tensor_grid
from calm_pde.records.description import Description
from calm_pde.train.config import Recipe, load_recipe
from calm_pde.train.length import probes
from calm_pde.train.loop import Interrupted
from calm_pde.train.rule.own import recipe_for
from calm_pde.train.rule.proposal import proposal
from calm_pde.train.rule.survey import survey
from calm_pde.train.show import Show
from tests.train import runs
from tests.train.rule import sets

LONGEST = 40


@pytest.fixture
def quick_clock(monkeypatch):
    """A step takes a second, so that minutes are steps."""
    monkeypatch.setattr(probes, "seconds_of_step", lambda *_: 1.0)
    monkeypatch.setattr(probes, "seconds_of_validation", lambda _: 0.0)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def bare(file: cp.DataFile, **more: Any) -> Recipe:
    return Recipe.model_validate({"name": "own", "data": {"file": file.path}} | more)


def trains(make: Any, folder: Path) -> None:
    """A recipe of at most 40 lines, from which two steps are trained as it says."""
    file = make(folder / "mine.h5")
    recipe = recipe_for(file.path, folder / "mine.yaml", minutes=2 / 60)
    text = (folder / "mine.yaml").read_text()
    assert len(text.splitlines()) <= LONGEST
    assert max(map(len, text.splitlines())) <= 140
    found = load_recipe(str(folder / "mine.yaml"))
    assert found == recipe.model_copy(update={"name": "mine"})
    encoder, fewest = found.model["encoder"], int(file.num_points.min())
    assert encoder["num_queries"][0] <= fewest
    assert neighborhood_size(encoder["receptive_field"][0], fewest) >= min(4, fewest)
    run = cp.fit(found, folder / "run")
    assert len(run.losses) == 2
    assert all(loss is not None and loss < 2 for loss in run.losses)
    assert run.surrogate.description.name == file.description.name
    assert run.surrogate.conditions == told_of(file.description)


def told_of(data: Description) -> dict[str, tuple[str, ...]]:
    """All conditions of a data set, but for the features of a steady problem, which are its input."""
    return data.conditions | ({"features": (), "signals": ()} if data.steady else {})


@pytest.mark.parametrize("name", sets.QUICK)
def test_every_kind_of_data_trains(name, quick_clock, folder):
    trains(sets.QUICK[name], folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", sets.SLOW)
def test_every_set_of_ours_trains(name, quick_clock, folder):
    trains(sets.SLOW[name], folder)


def test_minutes_become_epochs(quick_clock, folder):
    """Of steps that take a second, so many as there are seconds; epochs are short enough for the windows to grow."""
    file = sets.operator_arrays(folder / "mine.h5")
    train = recipe_for(file.path, minutes=10.0).train
    assert train.epochs * (train.batches_per_epoch or 20) == pytest.approx(600, abs=20)
    short = recipe_for(file.path, minutes=1).train
    assert (short.epochs, short.batches_per_epoch) == (20, 3)


def test_real_steps_are_timed(folder):
    """In half a minute fits what half a minute allows: the seconds of the steps that are told, times their number."""
    file = sets.operator_arrays(folder / "mine.h5")
    recipe_for(file.path, folder / "mine.yaml", minutes=0.5)
    told = next(line for line in (folder / "mine.yaml").read_text().splitlines() if "epochs:" in line)
    steps, each, unit = told.split("# ")[1].replace(" steps of", "").split()[:3]
    seconds = float(each) * (0.001 if unit == "ms" else 1)
    assert 15 < float(steps.replace(",", "")) * seconds <= 33


def test_what_the_data_say_decides(folder):
    """Fields that are one number are no targets; many frames are thinned; what never changes in time is told of."""
    grid = np.linspace(0, 1, 6)
    moving = sets.waves(grid[:, None], 70)
    still = np.broadcast_to(sets.waves(grid[:, None], 1), moving.shape)
    fields = np.concatenate([moving, still, np.full_like(moving, 3.0)], axis=-1)
    file = sets.arrays(folder / "mine.h5", grid, fields, names=["u", "k", "three"])
    found = proposal(bare(file))
    assert found.recipe.data.fields == ("u", "k")
    assert len(file.times[:: found.recipe.data.frame_stride]) <= 60
    assert any("Never changing in time: k." in line for line in found.head)
    kept = proposal(bare(file).model_copy(update={"data": found.recipe.data.model_copy(update={"frame_stride": 1})}))
    assert kept.recipe.data.frame_stride == 1
    constant = sets.arrays(folder / "constant.h5", grid, np.ones_like(moving))
    with pytest.raises(ConfigError, match="every field is one number everywhere"):
        proposal(bare(constant))


def test_vectors_of_several_sizes_are_told_from_others(folder):
    """Speeds that differ make scales; a field that starts from nothing, or scalars that differ, do not."""
    grid = np.arange(16) / 16
    speeds = np.linspace(1, 5, sets.SAMPLES)[:, None, None, None]
    flow, zero = speeds * sets.waves(grid[:, None], channels=2), np.ones((sets.SAMPLES, 6, 16, 1))
    zero[:, 0] = 0
    for name, names, fields, scaled in (
        ("flow", ["v_x", "v_y"], flow, True),
        ("scalars", ["a", "b"], flow, False),
        ("alike", ["v_x", "v_y"], flow / speeds, False),
        ("begun", ["v_x", "v_y", "p"], np.concatenate([flow, zero * speeds], axis=-1), False),
    ):
        file = sets.arrays(folder / f"{name}.h5", grid, fields, names=names)
        assert survey(cp.Dataset(file)).scales == scaled, name


def test_symmetries_are_used_where_the_file_declares_them(folder):
    grid = np.arange(32) / 32
    shift = {"name": "translation", "shift": (1.0,), "any_multiple": True}
    plain, declared = (
        sets.arrays(folder / f"{len(given)}.h5", grid, sets.waves(grid[:, None]), periodic=True, symmetries=given)
        for given in ([], [shift])
    )
    without, found = proposal(bare(plain)).recipe, proposal(bare(declared)).recipe
    assert (without.train.augment, found.train.augment) == ("none", "symmetries")
    assert found.model["modulation"] is False
    assert "modulation" not in without.model


def test_level_starts_and_places_that_are_told(folder):
    """A path past the bottleneck sees nothing of a level state; points stay where conditions may speak of places."""
    heat, clouds = (proposal(bare(make(folder / f"{make.__name__}.h5"))).recipe for make in (sets.heat, sets.own_meshes))
    assert ("detail" in heat.model, "detail" in clouds.model) == (False, True)
    assert (heat.train.random_offset, clouds.train.random_offset) == (0.0, 0.03)
    assert heat.train.augment == "symmetries"


def test_a_recipe_of_data_alone_is_completed(quick_clock, folder):
    """What it says itself stays; what it leaves out stands in the folder of the run."""
    sets.operator_arrays(folder / "mine.h5")
    (folder / "short.yaml").write_text(
        "data: {file: mine.h5}\nmodel: {kernel_width: 8}\ntrain: {epochs: 1, batches_per_epoch: 2}\n"
    )
    cp.fit("short.yaml")
    settled = load_recipe("runs/short/recipe.yaml")
    assert (settled.name, settled.model["kernel_width"], settled.train.epochs) == ("short", 8, 1)
    assert settled.train.optimizer == "muon"
    assert settled.minutes is None


def test_train_on_a_file_goes_on_where_it_was(monkeypatch, quick_clock, folder, capsys):
    """`calm train mine.h5`, interrupted and started again, ends as a run without interruption: steps are timed once."""
    sets.operator_arrays(folder / "mine.h5")
    line = ["train", "mine.h5", "--minutes", "0.1", "--train.seed", "3"]
    cli.main([*line, "--out", "whole"])
    assert "The recipe is in whole/recipe.yaml" in capsys.readouterr().out
    with monkeypatch.context() as patch:
        patch.setattr(Show, "step", lambda *_: (_ for _ in ()).throw(Interrupted("now")))
        with pytest.raises(SystemExit):
            cli.main(line)
    monkeypatch.setattr(probes, "seconds_of_step", lambda *_: 0.01)  # the machine is faster now, and nobody asks
    cli.main(line)
    runs.assert_same_run(Path("runs/mine"), Path("whole"))
    assert load_recipe("runs/mine/recipe.yaml").train.seed == 3
    with pytest.raises(CalmError, match=r"minutes: runs/mine was begun with 0\.1 minutes, got 5"):
        cp.fit("mine.h5", minutes=5)
    with pytest.raises(CalmError, match=r"train\.seed: 3 then, 4 now"):
        cp.fit("mine.h5", changes={"train": {"seed": 4}})


def test_minutes_are_for_any_recipe(quick_clock, folder):
    run = cp.fit(runs.recipe(), "run", minutes=2 / 60)
    assert len(run.losses) == 2
    assert run.surrogate.card.model["processor"]["blocks"] == 1


def test_other_files_become_a_data_file_first(quick_clock, folder, capsys):
    grid = np.arange(16) / 16
    np.savez("mine.npz", points=grid, fields=sets.waves(grid[:, None]))
    cli.main(["init", "mine.npz", "--minutes", "0.1"])
    assert {path.name for path in folder.iterdir()} == {"mine.npz", "mine.h5", "mine.yaml"}
    assert load_recipe("mine.yaml").data.file == Path("mine.h5")
    said = capsys.readouterr().out
    assert "10 trajectories" in said
    assert "train with: calm train mine.yaml" in said
    cli.main(["train", "mine.yaml", "--train.epochs", "1", "--train.batches-per-epoch", "2"])
    assert "the surrogate is in runs/mine/surrogate" in capsys.readouterr().out
    (folder / "parts").mkdir()
    for name, values in np.load("mine.npz").items():
        np.save(folder / "parts" / f"{name}.npy", values)
    assert recipe_for("parts", minutes=0.1).model == load_recipe("mine.yaml").model


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: recipe_for("none.h5"), "none.h5: there is no such file"),
        (lambda: recipe_for("none.npz"), "none.npz: there is no such file or folder"),
        (lambda: recipe_for("notes.txt"), r"notes.txt: is taken by no reader by its name. Say which with --reader"),
        (lambda: recipe_for("mine.h5", "mine.txt"), r"out: expected a file name that ends in .yaml, got mine.txt"),
        (lambda: recipe_for("mine.h5", "mine.yaml"), "mine.yaml: is there already"),
        (lambda: recipe_for("mine.npz"), "mine.h5: is there already"),
        (lambda: cp.fit("mine.npz"), "calm init mine.npz"),
    ],
)
def test_wrong_turns_are_told(make, words, folder):
    for name in ("notes.txt", "mine.yaml", "mine.npz", "mine.h5"):
        (folder / name).touch()
    with pytest.raises((FileError, ConfigError), match=words):
        make()


def test_it_speaks_where_it_is_asked_to(quick_clock, folder):
    console = Console(record=True, file=io.StringIO())
    recipe_for(sets.operator_arrays(folder / "mine.h5").path, minutes=0.1, console=console)
    assert "timing a few steps of mine" in console.export_text()


def test_places_count_across_the_translations_that_are_declared(folder):
    """Under a force along (1, 1) a flow is alike along (1, −1) alone, and a state need not tell where that force is."""
    grid = tensor_grid(np.arange(8) / 8, np.arange(8) / 8)
    shifts = {"everywhere": [(1.0, 0.0), (0.0, 1.0)], "in part": [(1.0, -1.0)], "twice the same": [(1.0, -1.0), (-2.0, 2.0)]}
    for name, declared in shifts.items():
        symmetries = [{"name": str(shift), "shift": shift, "any_multiple": True} for shift in declared]
        file = sets.arrays(folder / f"{name}.h5", grid, sets.waves(grid), periodic=True, symmetries=symmetries)
        expected = "alike everywhere" if name == "everywhere" else "alike in part"
        assert survey(cp.Dataset(file)).layout == expected, name
