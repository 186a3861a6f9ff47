"""Suites: the shipped ones fit together, the paper's numbers are the paper's, and wrong ones are told of with a suggestion."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from calm_pde.bench.runs.setups import problems, setup, tiny, title
from calm_pde.bench.runs.suite import Suite, load_suite, suite_names
from calm_pde.bench.runs.trials import chosen, trials
from calm_pde.errors import CalmError, ConfigError
from calm_pde.models import MODELS
from calm_pde.models.fno import FnoConfig
from calm_pde.models.practice import Practice
from calm_pde.solvers import PROBLEMS
from calm_pde.train.config import TrainConfig
from tests.bench.campaigns import SEARCH, SUITE, suite, write_suite


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", suite_names())
def test_shipped_suites_become_runs(name, small):
    """Every preset and setting exists, and every model that the paper has a value for is either trained or only shown."""
    loaded = load_suite(name)
    found = trials(loaded, Path("out"), small)
    assert len({trial.name for trial in found}) == len(found)
    for trial in found:
        model = dict(trial.recipe.model)
        assert model.pop("preset") in MODELS[model.pop("kind")].presets
        made = trial.recipe.data.generate
        if made is not None:
            PROBLEMS[made.kind](**made.problem)
        assert trial.recipe.train.seed == trial.seed
    for data, entry in loaded.data.items():
        trained = {trial.model for trial in found if trial.data == data}
        assert trained
        printed = set(loaded.paper.get(data, {}))
        assert not printed or trained - UNPUBLISHED.get(name, set()) <= printed, (
            f"{entry.title}: the paper's value of a model is missing"
        )


UNPUBLISHED = {
    "steady_small": {"upt"},
    "paper_steady": {"upt"},
    "irregular_small": {"upt", "gaot", "mesh_graph_nets", "transolver"},
    "regular_small": {"unet", "upt", "gaot"},
}
"""Models that the paper has no values of."""
OTHERS = ("fno", "ffno", "oformer", "pit", "lno", "aroma")
STEADY = ("geo_fno", "ffno", "galerkin", "oformer", "gnot", "ono", "transolver", "lno")
DEVIATIONS = {
    ("paper_regular", "burgers", OTHERS): (46, 47, 134, 391, 26, 281),
    ("paper_regular", "navier_stokes_1e-4", OTHERS): (169, 187, 26, 55, 28, 252),
    ("paper_regular", "navier_stokes_1e-5", OTHERS): (-12, -18, 88, 58, -24, 87),
    ("paper_regular", "compressible", OTHERS): (2, -4, -1, 10, 4, 97),
    ("paper_irregular", "airfoil", ("geo_fno", *OTHERS[1:])): (-25, 110, 1, 74, 13, -28),
    ("paper_irregular", "cylinder", ("geo_fno", *OTHERS[1:])): (17, 26, 91, 18, 39, -4),
    ("paper_steady", "airfoil", STEADY): (138, 3, 103, 216, 29, 5, -19, -12),
    ("paper_steady", "elasticity", STEADY): (332, 249, 353, 245, 66, 123, 17, -2),
    ("paper_ablations", "airfoil", ("fixed queries", "fixed queries, no mesh prior", "no modulation")): (38, 216, 23),
    ("paper_ablations", "navier_stokes", ("no modulation", "weighting 1/M", "distance-based kernel")): (19, 96, 492),
    ("paper_autoencoder", "navier_stokes", ("aroma",)): (141,),
}


@pytest.mark.parametrize(("place", "deviations"), DEVIATIONS.items(), ids=lambda value: str(value)[:50])
def test_values_have_the_deviations_that_the_paper_prints(place, deviations):
    """The percentages stand in the paper beside the values, so that a wrong digit in either shows."""
    name, data, models = place
    printed = load_suite(name).paper[data]
    ours = float(printed["calm" if "calm" in printed else "CALM-PDE"].split()[0])
    found = [100 * (float(printed[model].split()[0]) / ours - 1) for model in models]
    assert found == pytest.approx(deviations, abs=1.0)  # the paper's values are rounded too


def test_small_suites_show_the_same_values_as_the_papers():
    for small, large, names in (
        ("regular_small", "paper_regular", {"burgers": "burgers", "navier_stokes": "navier_stokes_1e-4"}),
        ("irregular_small", "paper_irregular", {"airfoil": "airfoil", "cylinder": "cylinder"}),
        ("steady_small", "paper_steady", {"airfoil": "airfoil", "elasticity": "elasticity"}),
        ("steady_small", "paper_steady", {"airfoil_index": "airfoil"}),
        ("paper_steady", "paper_steady", {"airfoil_index": "airfoil"}),
    ):
        for ours, theirs in names.items():
            assert load_suite(small).paper[ours] == load_suite(large).paper[theirs]
    curriculum = load_suite("paper_curriculum").paper["navier_stokes"]
    regular = load_suite("paper_regular").paper["navier_stokes_1e-4"]
    assert (curriculum["FNO, curriculum"], curriculum["PIT, curriculum"]) == (regular["fno"], regular["pit"])


@pytest.mark.parametrize("problem", problems())
def test_every_problem_has_tiny_data_that_can_be_made(problem):
    made = tiny(problem)
    PROBLEMS[made.kind](**made.problem)


def test_setups_hold_settings_of_the_trainer_alone():
    counted = 0
    for kind, config in MODELS.items():
        for preset in config.presets:
            if kind != "calm" and not preset.endswith("_small"):
                TrainConfig.model_validate(setup(kind, preset, "paper").train)
                assert setup(kind, preset, "small").model["preset"] in config.presets
                counted += 1
    assert counted == sum(len(config.practice.problems) for config in MODELS.values())


@pytest.mark.parametrize("kind", [kind for kind, config in MODELS.items() if "elasticity" in config.presets])
@pytest.mark.parametrize("problem", ["steady_airfoil", "elasticity"])
def test_steady_setups_have_no_time(kind, problem):
    """Features in, one field out: nothing of a curriculum, and no frames that could be fed back."""
    for size in ("paper", "small"):
        found = setup(kind, problem, size)
        config = MODELS[kind].preset(found.model["preset"]) if kind != "calm" else None
        assert config is None or (config.task, config.in_channels, config.out_channels) == ("steady", 2, 1)
        assert TrainConfig.model_validate(found.train).feeding == "rollout"


def test_features_of_a_suite_are_normalized_as_it_says():
    """With tiny data too."""
    for small in (False, True):
        found = {trial.data: trial.recipe.data for trial in trials(load_suite("steady_small"), Path("out"), small)}
        normalized = {name: data.normalize_features for name, data in found.items()}
        assert normalized == {"airfoil": "point", "airfoil_index": "point", "elasticity": "channel"}
        made = {name: data.generate and data.generate.problem.get("coordinates") for name, data in found.items()}
        assert made == {"airfoil": None, "airfoil_index": "index", "elasticity": None}


def test_what_is_laid_over_what():
    """The suite's settings over the setup's, the data set's over them, the model's over those; the seed last."""
    changed = suite(
        train={"batch_size": 3, "epochs": 5, "learning_rate": 0.5},
        data={"sample": SUITE["data"]["sample"] | {"train": {"epochs": 6, "learning_rate": 0.25}}},
        models={"fno": {"train": {"learning_rate": 0.125}}},
        seeds=[3],
    )
    (trial,) = trials(changed, Path("out"))
    train = trial.recipe.train
    assert (train.feeding, train.batch_size, train.epochs, train.learning_rate, train.seed) == ("prefix", 3, 6, 0.125, 3)


def test_an_edition_names_another_recipe():
    """<problem>_<edition>, its size behind it; models that are not trained by recipes have none."""
    small, paper = (setup("calm", "navier_stokes_2d", size, edition="1e-5").preset for size in ("small", "paper"))
    assert (small, paper) == ("navier_stokes_2d_1e-5_small", "navier_stokes_2d_1e-5")
    changed = suite(
        data={"sample": SUITE["data"]["sample"] | {"problem": "navier_stokes_2d"}}, models={"calm": {"edition": "1e-5"}}
    )
    (trial, *_) = trials(changed, Path("out"))
    assert trial.preset.startswith("navier_stokes_2d_1e-5")
    with pytest.raises(ConfigError, match=r"edition: fno is not trained by recipes, so it has no 'plus'"):
        setup("fno", "navier_stokes_2d", "small", edition="plus")


def test_a_model_without_practice_is_told_where_it_belongs(monkeypatch):
    class Mine(FnoConfig):
        practice = Practice()
        title = ""

    monkeypatch.setitem(MODELS, "mine", Mine)
    assert title("mine") == "mine"
    with pytest.raises(ConfigError, match=r"nothing says how the model 'mine' is trained.*`practice` of its config"):
        setup("mine", "burgers_1d", "small")


def test_iterations_of_a_setup_count_where_no_budget_does():
    paper = {trial.model: trial for trial in trials(load_suite("paper_irregular"), Path("out")) if trial.data == "airfoil"}
    assert paper["oformer"].length.iterations == 48000
    assert paper["geo_fno"].length.iterations is None
    small = {trial.model: trial for trial in trials(load_suite("irregular_small"), Path("out"))}
    assert (small["oformer"].length.iterations, small["oformer"].length.minutes) == (None, 3.0)


def wrong(text: str) -> dict:
    """The tiny suite with one thing changed."""
    path, _, value = text.partition("=")
    *parents, last = path.split("/")
    content = yaml.safe_load(yaml.safe_dump(SUITE))
    place = content
    for parent in parents:
        place = place[parent]
    place[last] = yaml.safe_load(value)
    return content | content.pop("@both", {})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("modles={}", "unknown key 'modles'. Did you mean 'models'?"),
        ("models/fnoo={}", "fnoo: there is no model 'fnoo'. Did you mean 'fno'?"),
        ("models/fno/kid=calm", "unknown key 'kid'. Did you mean 'kind'?"),
        ("models/fno/data=[sampel]", "there is no 'sampel'. Did you mean 'sample'?"),
        ("models/fno=3", "fno: expected settings, got 3"),
        ("models/geo_fno={}", "geo_fno is not made for navier_stokes_2d, only for airfoil_2d, cylinder_2d"),
        ("models/fno/train={epoch: 3}", "models: fno on sample: train: unknown key 'epoch'. Did you mean 'epochs'?"),
        ("data/sample/problem=navier_stoks_2d", "there is no 'navier_stoks_2d'. Did you mean 'navier_stokes_2d'?"),
        ("data/sample/recipe=burger_1d", "there is no 'burger_1d'. Did you mean 'burgers_1d'?"),
        ("data/sample/generat={}", "unknown key 'generat'. Did you mean 'generate'?"),
        ("paper/samples={fno: '0.1'}", "there is no data set 'samples'. Did you mean 'sample'?"),
        ("size=large", "'paper' or 'small'"),
        ("seeds=[]", "at least 1"),
        ("minutes=0", "greater than 0"),
        ("@both={minutes: 3, steps: 4}", "leave the other out"),
        ("search={settings: {x: {}}}", "search: minutes, steps: say one of them"),
        ("search={minutes: 1, steps: 2, settings: {x: {}}}", "search: minutes, steps: say one of them"),
        ("search={minutes: 1}", "search: settings: Field required"),
        ("search={minutes: 1, settings: {}}", "settings: expected at least one entry"),
        ("search={minutes: 1, setings: {x: {}}}", "unknown key 'setings'. Did you mean 'settings'?"),
        ("search={minutes: 1, strongest: 0, settings: {x: {}}}", "search: strongest: Input should be greater than 0"),
        ("search={minutes: 1, settings: {own: {}}}", "settings: 'own' stands for the settings without a search"),
        ("search={minutes: 1, settings: {x: {reduction: spacetime}}}", "x: reduction: must be the same in all"),
        ("search={minutes: 1, settings: {x: {seed: 3}}}", "x: seed: must be the same in all"),
        ("models/fno/search={settings: {x: {}}}", "models: fno: search: the suite has none"),
        ("data/sample/search={settings: {x: {}}}", "data: sample: search: the suite has none"),
        ("models/fno={search: false, ours: true}", "models: fno: search, ours: a model that is never searched"),
        ("models/fno/search=3", "models: fno: search: "),
    ],
)
def test_wrong_suites_are_told_of(tmp_path, change, words):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(wrong(change)))
    with pytest.raises(ConfigError) as raised:
        trials(load_suite(str(path)), tmp_path)
    assert words in str(raised.value)
    assert "mine" in str(raised.value) or "tiny" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smok", "Did you mean 'smoke'?"),
        ("none.yaml", "there is no file none.yaml. Shipped suites: "),
    ],
)
def test_unknown_suites_are_told_of(name, words):
    with pytest.raises(ConfigError, match=None) as raised:
        load_suite(name)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "words"), [("[1, 2]", "expected keys data and models"), ("on: 3", "got True. Put it in quotes")]
)
def test_other_files_are_told_of(tmp_path, text, words):
    (tmp_path / "x.yaml").write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_suite(str(tmp_path / "x.yaml"))
    assert words in str(raised.value)


@pytest.mark.parametrize("name", suite_names())
def test_other_seeds_and_minutes_leave_all_else(name):
    """Also what is said by leaving it out: a data set without a file has that of its recipe."""
    loaded = load_suite(name)
    changed = loaded.with_changes(2, 1.5)
    assert (changed.seeds, changed.minutes, changed.steps) == ((0, 1), 1.5, None)
    assert (changed.data, changed.models, changed.train) == (loaded.data, loaded.models, loaded.train)
    ours, theirs = ({trial.name: trial for trial in trials(one, Path("out"))} for one in (changed, loaded))
    for key in ours.keys() & theirs.keys():
        assert ours[key].recipe == theirs[key].recipe


def test_a_suite_keeps_its_search_with_other_seeds():
    changed = suite(**SEARCH).with_changes(3, 1.0)
    assert changed == suite(**(SEARCH | {"seeds": [0, 1, 2], "minutes": 1.0}))
    assert [entry.search.wanted for entry in changed.models.values()] == [True, True, True, True, False]


def test_two_names_that_make_one_folder_are_refused():
    twins = {"a b": {"kind": "fno"}, "a_b": {"kind": "fno"}}
    with pytest.raises(ConfigError, match="share the folder sample-a_b-seed0"):
        trials(suite(models=twins), Path("out"))


def test_only_narrows_by_models_and_by_data_sets(tmp_path):
    found = trials(load_suite("smoke"), tmp_path)
    assert {trial.data for trial in chosen(found, ("cylinder",))} == {"cylinder"}
    assert [trial.name for trial in chosen(found, ("cylinder", "pit"))] == ["cylinder-pit-seed0"]
    assert {trial.model for trial in chosen(found, ("pit", "lno"))} == {"pit", "lno"}
    assert chosen(found, ()) == found
    with pytest.raises(CalmError, match="Did you mean 'cylinder'"):
        chosen(found, ("cylindr",))


def test_a_suite_read_back_is_the_suite(tmp_path):
    assert load_suite(str(write_suite(tmp_path))) == Suite.model_validate(SUITE)
