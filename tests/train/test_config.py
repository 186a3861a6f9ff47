"""Recipes: all shipped ones are whole, and wrong ones are refused with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from calm_pde.data.dataset import Dataset
from calm_pde.data.writing import write
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS
from calm_pde.solvers import PROBLEMS
from calm_pde.train.config import Recipe, load_recipe, model_changes, model_config, recipe_names
from tests.data.sets import shared_source
from tests.train import runs

PAPER = {  # problem: epochs, batch size, learning rate of the paper's tables
    "burgers_1d": (500, 64, 1e-3),
    "navier_stokes_2d": (500, 32, 1e-3),
    "navier_stokes_2d_1e-5": (500, 4, 1e-3),
    "compressible_3d": (250, 4, 1e-4),
    "airfoil_2d": (500, 16, 6e-4),
    "cylinder_2d": (500, 8, 1e-3),
    "steady_airfoil": (500, 4, 1e-4),
    "elasticity": (500, 4, 2e-4),
}


def test_all_experiments_of_the_paper_are_there() -> None:
    for name, numbers in PAPER.items():
        train = load_recipe(name).train
        assert (train.epochs, train.batch_size, train.learning_rate) == numbers, name
        assert (train.weight_decay, train.schedule) == (1e-4, "cosine")
    assert load_recipe("burgers_1d").train.first_length == 15
    assert load_recipe("burgers_1d").train.reduction == "spacetime"
    assert load_recipe("cylinder_2d").train.random_offset == 0.05
    assert not load_recipe("cylinder_2d").train.random_starts
    assert load_recipe("navier_stokes_2d_1e-5").train.windows_per_trajectory == 2


@pytest.mark.parametrize("name", recipe_names())
def test_recipes_are_whole(name: str) -> None:
    recipe = load_recipe(name)
    model = dict(recipe.model)
    kind, preset = model.pop("kind"), model.pop("preset")
    MODELS[kind].preset(preset, **model)
    if recipe.data.generate is not None:
        PROBLEMS[recipe.data.generate.kind](**recipe.data.generate.problem)
    assert recipe.data.file == Path("data") / f"{name.replace('_plus', '')}.h5"


@pytest.mark.parametrize("size", ["", "_small"])
@pytest.mark.parametrize("problem", PAPER)
def test_every_problem_has_a_plus_recipe_on_the_same_data(problem: str, size: str) -> None:
    """It says what differs from the recipe that it is like; the settings of the paper's stay what they are."""
    if f"{problem}{size}" not in recipe_names():
        pytest.skip("has no small twin")
    plain, plus = load_recipe(f"{problem}{size}"), load_recipe(f"{problem}_plus{size}")
    assert plus.data == plain.data
    assert (plain.train.optimizer, plus.train.optimizer) == ("adamw", "muon")
    assert plus.train.batch_size == plain.train.batch_size
    settings = [{name: value for name, value in one.model.items() if name not in ("kind", "preset")} for one in (plain, plus)]
    presets = [one.model["preset"] for one in (plain, plus)]
    old, new = (MODELS["calm"].preset(name, **given) for name, given in zip(presets, settings, strict=True))
    known = {"burgers": "relative", "compressible": "relative", "navier": "both"}  # under a force a place counts
    positions = known.get(problem.split("_")[0], "absolute")
    assert (old.processor.positions, new.processor.positions) == ("absolute", positions)
    assert (old.modulation, new.modulation) == (True, positions == "absolute")


def test_heat_has_a_plus_recipe_that_is_told_its_conditions() -> None:
    plain, plus = load_recipe("heat_small"), load_recipe("heat_plus_small")
    assert plus.data == plain.data
    assert plain.data.conditions is True
    assert (plain.train.optimizer, plus.train.optimizer) == ("adamw", "muon")
    assert plus.train.augment == "symmetries"


def test_a_recipe_may_be_like_a_shipped_one(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("like: burgers_1d_plus_small\ntrain: {epochs: 3}\nmodel: {encoder: {temperature: [0.5, 0.5, 0.5]}}\n")
    mine, like, first = load_recipe(str(path)), load_recipe("burgers_1d_plus_small"), load_recipe("burgers_1d_small")
    assert mine.name == "mine"
    assert (mine.train.epochs, like.train.epochs) == (3, 16)
    assert mine.train.model_copy(update={"epochs": 16}) == like.train
    assert mine.model["encoder"] == like.model["encoder"] | {"temperature": [0.5, 0.5, 0.5]}
    assert like.train.growth == first.train.growth == "linear"
    path.write_text("like: burgers_1d_smal\n")
    with pytest.raises(ConfigError, match=r"like: expected the name of another shipped recipe, got 'burgers_1d_smal'.*small"):
        load_recipe(str(path))


def test_every_generated_set_has_a_small_twin() -> None:
    names = recipe_names()
    for name in PAPER:
        if load_recipe(name).data.generate is not None:
            assert f"{name}_small" in names
    assert "navier_stokes_2d_demo" in names


def test_wrong_recipes_get_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Did you mean 'navier_stokes_2d_small'"):
        load_recipe("navier_stoks_2d_small")
    with pytest.raises(ConfigError, match=r"there is no file none.yaml"):
        load_recipe("none.yaml")
    for text, message in (
        ("data: {file: a.h5}\ntrain: {epoch: 3}", "train: unknown key 'epoch'. Did you mean 'epochs'"),
        ("train: {epochs: 3}", "data: Field required"),
        ("data: {file: a.h5}\ntrain: {epochs: -3}", "train: epochs: .* got -3"),
        ("data: [", "not YAML"),
        ("just words", "expected keys data, model and train"),
        ("data: !!python/object/apply:os.system [ls]", "not YAML"),
    ):
        (tmp_path / "my.yaml").write_text(text)
        with pytest.raises(ConfigError, match=message):
            load_recipe(str(tmp_path / "my.yaml"))


def test_a_training_that_does_not_fit_the_machine_is_refused_before_it_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"parameters take .* GiB in training.*train\.check_memory"):
        runs.trainer(tmp_path, model={"processor": {"width": 4_000_000, "heads": 1}})


def test_numbers_with_exponents_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("data: {file: a.h5}\nmodel: {x: 1e-3, y: 5, z: '1e-3', w: 2.5}")
    assert load_recipe(str(tmp_path / "my.yaml")).model == {"x": 1e-3, "y": 5, "z": "1e-3", "w": 2.5}


def test_model_settings_on_the_command_line() -> None:
    rest, found = model_changes(
        ["r", "--model.processor.blocks", "3", "--out", "x", "--model.kernel-width=16", "--model.a", "[1, 2]"]
    )
    assert rest == ["r", "--out", "x"]
    assert found == {"processor": {"blocks": 3}, "kernel_width": 16, "a": [1, 2]}


def test_the_data_file_fills_in_what_it_knows(tmp_path: Path) -> None:
    write(shared_source(20), tmp_path / "a.h5")

    def config(**model: object):
        recipe = Recipe.model_validate({"name": "t", "data": {"file": tmp_path / "a.h5"}, "model": {"kind": "calm"} | model})
        return model_config(recipe, Dataset(recipe.data.file))

    found = config(preset="airfoil_2d")
    assert (found.in_channels, found.out_channels, found.periodic, found.dim) == (2, 2, (True, True), 2)
    with pytest.raises(ConfigError, match=r"burgers_1d is 1-D, and .* is 2-D"):
        config(preset="burgers_1d")
    with pytest.raises(ConfigError, match=r"model.in_channels: expected 2"):
        config(preset="airfoil_2d", in_channels=5)
    with pytest.raises(ConfigError, match=r"model.kind: there is no 'calmm'. Did you mean 'calm'"):
        config(kind="calmm")
    with pytest.raises(ConfigError, match=r"model.preset: calm has no 'airfoil'. Did you mean"):
        config(preset="airfoil")
