"""Recipes: which data, which model, how it is trained; YAML files that list only what differs from the defaults."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from calm_pde.config import Config, Seed, merged, suggestion, yaml_mapping, yaml_text, yaml_value
from calm_pde.data.dataset import Dataset
from calm_pde.errors import ConfigError
from calm_pde.models import MODELS, OURS, Model, ModelConfig
from calm_pde.records.description import Description
from calm_pde.surrogate.parent import KeptStatistics
from calm_pde.train.loggers import LoggerName
from calm_pde.train.optimizers import OptimizerName
from calm_pde.train.rates import RateSchedule

DATA_FILES = (".h5", ".hdf5")
"""How names of data files end."""


class GenerateConfig(Config):
    """How a missing data file is made: `calm generate KIND` with these settings."""

    kind: str
    samples: PositiveInt
    seed: Seed = 0
    problem: dict[str, Any] = Field(default_factory=dict)


class DataConfig(Config):
    """The data file and what is taken from it."""

    file: Path
    """The data file."""
    generate: GenerateConfig | None = None
    fields: tuple[str, ...] = ()
    """Names of the fields to learn; by default the file's targets."""
    frame_stride: PositiveInt = 1
    """Take every so many-th frame."""
    conditions: bool | tuple[str, ...] = True
    """Which parameters, signals and features of points the model is told beside the state: all that the file has, none, or
    those that are named. (What a steady problem is given are its features, whatever stands here.)"""
    normalize_features: Literal["channel", "point"] = "channel"
    """By the mean and deviation of a channel, or of each point of a mesh that all samples share, so that what differs shows."""


class TrainConfig(Config):
    """The training procedure; the defaults are the paper's."""

    epochs: PositiveInt = 500
    """How often every training trajectory is seen."""
    batch_size: PositiveInt = 32
    """Windows per step, over all processes."""
    optimizer: OptimizerName = "adamw"
    """muon: what a model declares as its hidden matrices moves by orthogonalized momentum, all else by AdamW."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """Muon's."""
    learning_rate: PositiveFloat = 1e-3
    """At its highest."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """On everything but biases, norms, query positions, Fourier frequencies and the localities of position attention."""
    schedule: RateSchedule = "cosine"
    """Of the learning rate, stepped every iteration: half a cosine down, or level with a straight end (trapezoid), both after
    a warm-up if one is asked for; or up and down (one_cycle); or by the same factor every step (exponential); or level."""
    warm_up: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """cosine, trapezoid: the share of steps in which the rate rises from 0."""
    fall: Annotated[float, Field(gt=0, le=1)] = 0.4
    """trapezoid: the share of steps, the last ones, in which the rate falls."""
    lowest_rate: Annotated[float, Field(ge=0)] = 0.0
    """Where cosine, trapezoid and exponential end; the last needs one above 0."""
    rise: Annotated[float, Field(gt=0, lt=1)] = 0.3
    """one_cycle: the share of steps in which the rate rises."""
    rise_from: Annotated[float, Field(gt=1)] = 25.0
    """one_cycle: it starts at learning_rate divided by this, and ends at a 10⁴-th of that."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """AdamW's decay of the gradients' mean and mean square."""
    gradient_clip: PositiveFloat | None = None
    """The largest norm of a gradient."""
    feeding: Literal["rollout", "prefix", "truth"] = "rollout"
    """What a model is fed after the first frame of a window. rollout: its own answers (windows grow by the curriculum).
    prefix: whole trajectories, of which frames 1 … t_ar come from its own answers, each later one by one step from the true
    frame before it; t_ar = clamp(⌊½(1 + tanh((e/E − ½)/0.2))·T⌋, 1, T) grows over the epochs e of E. truth: every frame by
    one step from the true one before it. The last two are for models that go from frame to frame (fno, pit, lno, …)."""
    frames_at_once: PositiveInt | None = None
    """prefix, truth: how many steps from true frames are computed together; the backward pass then computes them again.
    All at once by default."""
    window: Annotated[int, Field(ge=2)] | None = None
    """truth: frames of a window; whole trajectories by default."""
    input_noise: Annotated[float, Field(ge=0)] | dict[str, Annotated[float, Field(ge=0)]] = 0.0
    """σ of the noise N(0, σ²) on every frame of the data that a model is fed: normalized, or {field: σ in its own unit}. None
    on what is prescribed."""
    stages: tuple[PositiveFloat, ...] = ()
    """Shares of the epochs for the stages of a model that is trained part by part (aroma, staged calm); equal by default."""
    curriculum: bool = True
    """Whether windows grow during training."""
    growth: Literal["tanh", "linear"] = "tanh"
    """How they grow from first_length to all T frames: as n₀ + ⌊½(1 + tanh((e/E − ½)/0.3))·T⌋ at epoch e of E, or as
    OFormer's: constant, then linear, n₀ + 2⌊max(0, 2e/(rE) − 1)·(T − n₀)/2⌋ up to epoch rE, whole from then on."""
    growth_share: Annotated[float, Field(gt=0, le=1)] = 0.16
    """linear: r."""
    first_length: PositiveInt = 7
    """n₀: frames of a window at the start, the first included."""
    random_starts: bool = True
    """Whether windows that are at least two frames shorter than a trajectory start anywhere in it."""
    windows_per_trajectory: PositiveInt = 1
    """Windows drawn from each trajectory per epoch."""
    batches_per_epoch: PositiveInt | None = None
    """An epoch ends after so many batches, and shows other trajectories than the one before; all of them by default."""
    reconstruction: bool = True
    """Whether frame 0 is in the loss of a model that decodes it (calm); it never is in that of others."""
    error: Literal["relative", "difference"] = "relative"
    """What is minimized. relative: the error by the norm of the field. difference: the mean square of the error, in deviations
    of the true differences between one frame and the next, for models that keep these (mesh_graph_nets)."""
    reduction: Literal["frame", "spacetime"] = "frame"
    """The norm in the loss: over the points of each frame (the paper's formula), or over space and time (its Burgers runs)."""
    gradient_loss: Annotated[float, Field(ge=0)] = 0.0
    """λ of the relative error of gradients that the loss has beside that of values."""
    channel_weights: tuple[PositiveFloat, ...] = ()
    """How much each field counts in the loss, in their order; all alike by default."""
    prescribed_loss: bool = False
    """Whether values that the data file declares as prescribed, and so given, are in the loss."""
    relative_to: Literal["normalized", "physical"] = "normalized"
    """What an error is divided by: the norm of the normalized field (the paper), or of the physical one, as in the metric, by
    which a field with a mean far from zero, such as a density, counts little beside others."""
    lead_times: Literal["window", "all"] = "window"
    """rollout: whether a model is rolled from frame 0 of a window alone, or from every true frame of it to its end."""
    augment: Literal["none", "symmetries"] = "none"
    """symmetries: every window is moved by a draw from what the data file declares that its equation leaves invariant."""
    random_offset: Annotated[float, Field(ge=0)] = 0.0
    """All positions of a step are shifted by one draw from U(−offset, offset) per axis, in unit coordinates."""
    precision: Literal["float32", "float64", "bfloat16"] = "float32"
    """Of the computation; bfloat16 keeps weights in float32."""
    accumulate: PositiveInt = 1
    """Parts that a batch is computed in, one after the other."""
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Decay of an exponential moving average of the weights, which is then what is validated and kept."""
    threads: PositiveInt | None = None
    """Threads that compute on a CPU, as many as torch takes by default; small models are fastest with one."""
    seed: Seed = 0
    """Of weights, order, windows, offsets and noise."""
    workers: NonNegativeInt = 0
    """Processes that read ahead."""
    validation: Literal[0, 1] = 1
    """0: no validation; the last epoch is kept."""
    validate_every: PositiveInt = 1
    """Epochs between validations."""
    save_every: PositiveInt | None = None
    """Steps between checkpoints within an epoch."""
    save_epochs: PositiveInt = 1
    """Epochs between checkpoints at the end of one."""
    keep: PositiveInt = 2
    """Checkpoints kept beside the weights that were best."""
    check_memory: bool = True
    """Whether a model whose parameters alone do not fit this machine's memory is refused before it is built."""
    log: tuple[LoggerName, ...] = ()
    """Where losses and validation errors go beside the record of the run: tensorboard (to RUN/tensorboard), mlflow, wandb; each
    needs its extra."""
    on_nan: Literal["stop", "skip"] = "stop"
    """What to do with a loss or gradient that is not finite."""

    @model_validator(mode="before")
    @classmethod
    def _read_older(cls, data: Any) -> Any:
        """Recipes said `tensorboard: true` for what is `log: [tensorboard]` now."""
        if not isinstance(data, dict) or not isinstance(data.get("tensorboard"), bool):
            return data
        rest = {name: value for name, value in data.items() if name != "tensorboard"}
        return rest | {"log": ["tensorboard", *rest.get("log", ())]} if data["tensorboard"] else rest

    @model_validator(mode="after")
    def _fits(self) -> TrainConfig:
        if self.window is not None and self.feeding != "truth":
            raise ValueError(f"window is of feeding 'truth'; leave it out with {self.feeding!r}, got {self.window}")
        if self.schedule == "exponential" and not 0 < self.lowest_rate <= self.learning_rate:
            raise ValueError(
                f"lowest_rate: an exponential schedule ends between 0 and {self.learning_rate:g}, got {self.lowest_rate:g}"
            )
        return self


class ParentConfig(Config):
    """A run that a training goes on from: its architecture and its weights."""

    run: Path
    """The run folder, or a surrogate folder."""
    statistics: KeptStatistics = "old"
    """By whose mean and deviation fields are normalized: the parent's, as its weights know them, or those of the new data."""


class Recipe(Config):
    """A whole experiment; `load` reads one by name or from a file."""

    name: str
    data: DataConfig
    parent: ParentConfig | None = None
    """What it is fine-tuned from; the learning rate is the recipe's."""
    minutes: PositiveFloat | None = None
    """How long a training takes: epochs are chosen from the seconds of a few steps, and RUN/recipe.yaml tells them."""
    model: dict[str, Any] = Field(default_factory=lambda: {"kind": OURS})
    """`kind` and `preset`, and whatever differs from the preset."""
    train: TrainConfig = TrainConfig()


def recipe_names() -> list[str]:
    """The recipes that come with the package."""
    return sorted(path.name.removesuffix(".yaml") for path in _shipped().iterdir() if path.name.endswith(".yaml"))


def load_recipe(name: str, changes: dict[str, Any] | None = None) -> Recipe:
    """A shipped recipe by name, a YAML file, or a data file, of which the rule makes one; with changes laid over it."""
    own = Path(name).suffix in DATA_FILES
    content = {"data": {"file": name}} if own else _content(name)
    try:
        stem = Path(name).stem if own or _is_file(name) else name
        return Recipe.model_validate(merged({"name": stem} | content, changes or {}))
    except ConfigError as error:
        raise ConfigError(f"recipe {name}: {error}") from None


def _content(name: str, likenesses: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a recipe says; one that is `like` a shipped one says only what differs from it."""
    path = Path(name)
    if _is_file(name):
        if not path.is_file():
            raise ConfigError(f"recipe: there is no file {name}. Shipped recipes: {', '.join(recipe_names())}.")
        text = yaml_text(path)
    elif name in recipe_names():
        text = _shipped().joinpath(f"{name}.yaml").read_text()
    else:
        of_data = f" For a recipe of data: calm init {name}." if path.exists() else ""
        raise ConfigError(
            f"recipe: there is no {name!r}. {suggestion(name, recipe_names())} A recipe of your own ends in .yaml, a data file "
            f"in .h5.{of_data}"
        )
    content = yaml_mapping(text, path, "data, model and train")
    like = content.pop("like", None)
    if like is None:
        return content
    if like not in recipe_names() or like in likenesses:
        known = suggestion(str(like), [known for known in recipe_names() if known != name])
        raise ConfigError(f"recipe {name}: like: expected the name of another shipped recipe, got {like!r}. {known}")
    return merged(_content(like, (*likenesses, name)), content)


def _is_file(name: str) -> bool:
    return Path(name).suffix in (".yaml", ".yml")


def model_config(recipe: Recipe, dataset: Dataset) -> ModelConfig:
    """The model that a recipe names; channels, dimension, periodic axes and node types come from the data file."""
    given = dict(recipe.model)
    kind = given.pop("kind", OURS)
    if kind not in MODELS:
        raise ConfigError(f"model.kind: there is no {kind!r}. {suggestion(kind, list(MODELS))}")
    presets = MODELS[kind].presets
    preset = given.pop("preset", None)
    if preset is not None and preset not in presets:
        raise ConfigError(f"model.preset: {kind} has no {preset!r}. {suggestion(str(preset), list(presets))}")
    content = merged(presets[preset] if preset else {}, given)
    data = dataset.description
    fields, features = len(data.fields), len(data.features)
    steady = content.get("task") == "steady"
    known = {
        "dim": data.box.dim,
        "periodic": data.periodic,
        "in_channels": (features or data.box.dim) if steady else fields,
        "out_channels": fields,
        **dict.fromkeys(("parameters", "signals", "features"), 0),
        **conditions_told(recipe.data.conditions, dataset.file.description, str(content.get("task", "rollout"))),
    }
    told = [name for name in ("parameters", "signals", "features") if known[name]]
    if content.get("node_types"):
        known["node_types"] = tuple(sorted(data.node_types))
    if "dim" in content and content["dim"] != known["dim"]:
        raise ConfigError(
            f"model: {preset or kind} is {content['dim']}-D, and {dataset.file.path} is {known['dim']}-D. "
            "Choose a preset of that dimension."
        )
    for name in ("in_channels", "out_channels", "parameters", "signals", "features"):
        if given.get(name, known[name]) != known[name]:
            raise ConfigError(
                f"model.{name}: expected {known[name]}, as {dataset.file.path} has it, got {given[name]}. Leave it out."
                + (" What a model is told is chosen by data.conditions." if "channels" not in name else "")
            )
    known |= {name: given[name] for name in ("periodic",) if name in given}
    plain = MODELS[kind].model_validate(content | known | dict.fromkeys(told, 0))
    if told and not plain.abilities.conditions:
        raise ConfigError(
            f"data.conditions: {dataset.file.path} has {', '.join(told)}, and {kind} is told nothing beside a state. Set "
            "data.conditions to false, or use another model."
        )
    if plain.abilities.cells:
        known["cells"] = cells_told(content.get("cells"), dataset)
    return MODELS[kind].model_validate(content | known)


def cells_told(wanted: bool | None, dataset: Dataset) -> bool:
    """Whether a model that reads cells is told them: where the file has some, if nobody wants it otherwise."""
    there = "cells" in dataset.file.mesh_arrays
    if wanted and not there:
        raise ConfigError(
            f"model.cells: {dataset.file.path} has no cells. Leave it out, so that edges lead to the nearest points."
        )
    return there if wanted is None else wanted


def conditions_told(chosen: bool | tuple[str, ...], data: Description, task: str) -> dict[str, int]:
    """How many parameters, signals and features of a data set a model is told.

    A steady problem has no signals, and its features are its input; an autoencoder takes no steps that parameters and signals
    could change.
    """
    there = data.conditions
    of_task = {"rollout": tuple(there), "steady": ("parameters",), "autoencoder": ("features",)}[task]
    named = chosen if isinstance(chosen, tuple) else ()
    for name in named:
        known = [known for kind in of_task for known in there[kind]]
        if name not in known:
            raise ConfigError(
                f"data.conditions: there is no {name!r} for a training of task {task!r}. {suggestion(name, known)}"
            )
    if not chosen:
        return {}
    return {kind: sum(not named or name in named for name in there[kind]) for kind in of_task}


def conditions_left_out(recipe: Recipe, data: Description) -> tuple[str, ...]:
    """Names of the parameters, signals and features of a data set that a recipe keeps from its model."""
    chosen = recipe.data.conditions
    kept = chosen if isinstance(chosen, tuple) else ()
    names = (name for known in data.conditions.values() for name in known)
    return tuple(name for name in names if not chosen or (kept and name not in kept))


def initial_model(config: ModelConfig, dataset: Dataset, seed: int) -> Model:
    """The model before training; a mesh prior draws its query points from the mesh of the first training trajectory."""
    prior = dataset.points if dataset.points is not None else dataset[0]["points"]
    return config.build(mesh=prior, seed=seed)


def model_changes(arguments: list[str]) -> tuple[list[str], dict[str, Any]]:
    """`--model.a.b value` taken out of a command line, as nested settings; values are read as YAML."""
    rest: list[str] = []
    found: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("--model."):
            rest.append(word)
            continue
        name, equals, text = word.partition("=")
        text = text if equals else next(words, "")
        value: Any = yaml_value(text, name)
        for key in reversed(name.removeprefix("--model.").replace("-", "_").split(".")):
            value = {key: value}
        found = merged(found, value)
    return rest, found


def _shipped() -> Any:
    return resources.files("calm_pde") / "recipes"
