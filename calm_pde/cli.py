"""The `calm` command."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any, Literal

import tyro
from pydantic import create_model
from rich.console import Console
from rich.markup import escape

from calm_pde.bench.measured.speed import speed
from calm_pde.bench.runs.job import SuiteJob
from calm_pde.bench.runs.suite import load_suite
from calm_pde.config import Config, Seed, suggestion
from calm_pde.data import check as data_check
from calm_pde.data.picture import trajectory_picture
from calm_pde.data.readers import READERS
from calm_pde.data.readers.base import Reader
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import CalmError, InputError
from calm_pde.files.atomic import check_free
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.metrics.scores import table
from calm_pde.models import CalmConfig
from calm_pde.models.calm.memory import predicted_peak
from calm_pde.progress import progress
from calm_pde.report.content import LIMIT, content
from calm_pde.report.figures import figure_inputs, write_figures
from calm_pde.report.findings import Findings
from calm_pde.report.page import page_size, write_page
from calm_pde.solvers import PROBLEMS
from calm_pde.solvers.problem import Problem
from calm_pde.surrogate import evaluate as evaluation
from calm_pde.surrogate import predict as prediction
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.config import Recipe, TrainConfig, load_recipe, model_changes, recipe_names
from calm_pde.train.loop import Interrupted, Trainer
from calm_pde.train.making import announce, make_data, make_missing
from calm_pde.train.show import Show

PICTURES = (".png", ".pdf", ".svg")


def demo(folder: Path = Path("demo"), epochs: int | None = None, samples: int | None = None) -> None:
    """Make data with our solver, train a small CALM-PDE, evaluate it on unseen initial conditions, write a report.

    Interrupted and started again, it goes on.

    Args:
        folder: Where everything goes.
        epochs: Fewer epochs than the recipe's, for a quick look.
        samples: Fewer trajectories than the recipe's.
    """
    recipe = load_recipe("navier_stokes_2d_demo", {"data": {"file": folder / "data.h5"}})
    if epochs is not None:
        recipe = recipe.model_copy(update={"train": recipe.train.model_copy(update={"epochs": epochs})})
    if samples is not None and recipe.data.generate is not None:
        made = recipe.data.generate.model_copy(update={"samples": samples})
        recipe = recipe.model_copy(update={"data": recipe.data.model_copy(update={"generate": made})})
    run = folder / "run"
    train_recipe(recipe, run)
    evaluate(run)
    report(run, out=folder / "report.html")


class Output(Config):
    out: Path
    """The data file to write."""
    overwrite: bool = False
    """Replace a file that exists."""


class Generation(Output):
    samples: int = 100
    """How many trajectories; 80 % of them for training, 10 % for validation, 10 % for the test."""
    seed: Seed = 0
    """The same seed gives the same data."""
    processes: int | None = None
    """By default one per core."""


def convert(kind: str, reader: Reader, output: Output) -> None:
    """Turn published files or your own arrays into a data file."""
    console = Console()
    source = reader.source()
    if "checksums" in source.description.provenance:
        console.print(f"checksums: {source.description.provenance['checksums']}", highlight=False)
    with progress(f"convert {kind}", console) as show:
        done = itertools.count(1)
        file = write(source, output.out, output.overwrite, lambda _: show(next(done), source.count))
    announce(file, console)


def generate_data(kind: str, problem: Problem, job: Generation) -> None:
    """Make a data file with our own solvers; an interrupted job goes on where it was."""
    make_data(
        kind,
        problem,
        job.out,
        Console(),
        samples=job.samples,
        seed=job.seed,
        processes=job.processes,
        overwrite=job.overwrite,
    )


def check(
    file: tyro.conf.Positional[Path], picture: Path | None = None, trajectory: int = 0, preset: str | None = None
) -> None:
    """Say in plain words whether a data file is fit for training; exit code 1 if something is wrong.

    Args:
        file: The data file.
        picture: Also draw one trajectory, to this file (.png, .pdf or .svg).
        trajectory: Which one to draw.
        preset: Also tell the memory that training this preset on the file would take.
    """
    console = Console()
    if picture is not None:
        if picture.suffix not in PICTURES:
            raise InputError(
                "picture", expected=f"a file name that ends in {', '.join(PICTURES)}", got=str(picture), fix="Choose one."
            )
        check_free([picture], overwrite=True)
    opened = DataFile(file)
    wrong = 0
    for finding in data_check.check(opened):
        mark = {"good": "[green]good    [/]", "doubtful": "[yellow]doubtful[/]", "wrong": "[red]wrong   [/]"}[finding.level]
        console.print(f"{mark} {escape(finding.subject)}: {escape(finding.text)}", highlight=False, soft_wrap=True)
        wrong += finding.level == "wrong"
    if preset is not None:
        console.print(f"[green]good    [/] {preset}: {_preset_needs(opened, preset)}", highlight=False, soft_wrap=True)
    if picture is not None:
        trajectory_picture(opened, trajectory).savefig(picture, dpi=110)
        console.print(f"A picture of trajectory {trajectory} is in {picture}", highlight=False, soft_wrap=True)
    verdict = "Something is wrong; see above." if wrong else "Ready to train."
    console.print(verdict, style="red" if wrong else "green", highlight=False)
    if wrong:
        sys.exit(1)


class DataOptions(Config):
    file: Path
    """The data file."""
    fields: tuple[str, ...] = ()
    """Names of the fields to learn; by default the file's targets."""
    frame_stride: int = 1
    """Take every so many-th frame."""


class TrainOptions(Config):
    recipe: tyro.conf.Positional[str]
    """A shipped recipe, or a .yaml file of your own."""
    out: Path | None = None
    """The run folder; by default runs/RECIPE."""
    resume: Literal["auto", "never", "force"] = "auto"
    """auto: go on where the run folder left off; force: also with other settings; never: refuse a folder that has a run."""
    data: DataOptions
    train: TrainConfig


def train(arguments: list[str]) -> None:
    """Train a surrogate from a recipe; an interrupted run goes on when started again.

    Any setting of a recipe can be given: --train.epochs 50, --data.file my.h5, --model.processor.blocks 3.
    """
    if not arguments or arguments[0].startswith("-"):
        listed = ", ".join(recipe_names())
        text = f"usage: calm train RECIPE [--train.epochs 50 …]\n\n{cleandoc(train.__doc__ or '')}\n\nShipped recipes: {listed}"
        Console(stderr=not arguments).print(text, highlight=False, markup=False)
        sys.exit(0 if arguments else 2)
    arguments, model = model_changes(arguments)
    recipe = load_recipe(arguments[0], {"model": model} if model else None)
    given = recipe.data.model_dump(include=set(DataOptions.model_fields))
    default = TrainOptions(recipe=arguments[0], data=DataOptions(**given), train=recipe.train)
    options = tyro.cli(
        TrainOptions, prog="calm train", description=cleandoc(train.__doc__ or ""), default=default, args=arguments
    )
    data = recipe.data.model_copy(update=options.data.model_dump())
    recipe = recipe.model_copy(update={"data": data, "train": options.train})
    train_recipe(recipe, options.out or Path("runs") / recipe.name, options.resume)


def train_recipe(recipe: Recipe, run: Path, resume: Literal["auto", "never", "force"] = "auto") -> Path:
    console = Console()
    if resume == "never" and (run / "checkpoints").exists():
        raise CalmError(f"{run}: holds a run already. Name another with --out, or let it go on with --resume auto.")
    make_missing(recipe.data, console)
    make_folder(run)
    show = Show(console)
    try:
        with held(run):
            return Trainer(recipe, run, show, force=resume == "force").fit()
    finally:
        show.close()


def evaluate(
    run: tyro.conf.Positional[Path],
    data: Path | None = None,
    split: Literal["test", "validation", "train"] = "test",
    frame_stride: int | None = None,
    legacy_padding_metric: bool = False,
) -> None:
    """Errors of a surrogate on a data file, beside persistence; a table here, evaluation.json in the run folder.

    Args:
        run: The run folder, or a surrogate folder.
        data: The data file; by default the one it was trained on.
        split: Which part of it.
        frame_stride: Take every so many-th frame; by default as in training.
        legacy_padding_metric: Count padded points as the published evaluation did, for comparison with it.
    """
    console = Console()
    surrogate = Surrogate.load(run)
    file, stride = evaluation.data_of(surrogate, run, data)
    with progress("evaluate", console) as show:
        found = evaluation.evaluate(
            surrogate,
            file,
            split=split,
            frame_stride=frame_stride or stride,
            legacy_padding_metric=legacy_padding_metric,
            progress=show,
        )
    console.print(table(found))
    out = run / ("evaluation.json" if data is None and split == "test" else f"evaluation_{file.path.stem}_{split}.json")
    replace_file(out, found.model_dump_json(indent=1).encode())
    console.print(f"All numbers are in {out}", highlight=False, soft_wrap=True)


def predict(
    run: tyro.conf.Positional[Path],
    input: Path,
    out: Path,
    times: tuple[float, ...] = (),
    queries: Path | None = None,
    split: Literal["train", "validation", "test"] | None = None,
    samples: int | None = None,
    all: bool = False,
    overwrite: bool = False,
    allow_nonfinite: bool = False,
) -> None:
    """Solve new initial conditions with a surrogate.

    Args:
        run: The run folder, or a surrogate folder.
        input: A data file, of which first frames are taken, or an .npz file with `initial` and `points`.
        out: The data file (.h5) or .npz file to write; y.vtkhdf or y.vtu for ParaView, one file per sample (y_0003.vtkhdf).
        times: Physical, from the initial state; by default the trained frames.
        queries: Where to answer: a mesh (.vtu, .vtk, .msh, …; extra `mesh`), or points as .npy or .npz; by default those of
            the input.
        split: Which part of a data file; by default all of it.
        samples: Only so many, the first.
        all: Also where more than 50 samples would each become a file for ParaView.
        overwrite: Replace files that exist.
        allow_nonfinite: Write answers that blew up as they are, instead of saying which did and when.
    """
    console, surrogate = Console(), Surrogate.load(run)
    with progress("predict", console) as show:
        written = prediction.predict(
            surrogate,
            input,
            out,
            times=times or None,
            queries=queries,
            split=split,
            samples=samples,
            all=all,
            overwrite=overwrite,
            allow_nonfinite=allow_nonfinite,
            progress=show,
        )
    more = "" if written == out else "; every sample has such a file, for ParaView"
    console.print(f"The prediction is in {written}{more}", highlight=False, soft_wrap=True)


def report(
    run: tyro.conf.Positional[Path],
    data: Path | None = None,
    split: Literal["test", "validation", "train"] = "test",
    samples: int | None = None,
    out: Path | None = None,
    figures: Path | None = None,
) -> None:
    """One HTML file to look at: truth, prediction and error on the mesh, errors, training, and what the model learned.

    Args:
        run: The run folder, or a surrogate folder.
        data: The data file; by default the one it was trained on.
        split: Which part of it.
        samples: How many trajectories to hold; by default worst, median, best and as many more as fit in 8 MB.
        out: The file to write; by default report.html in the run folder.
        figures: Also write the figures for papers (PNG and PDF) and an animation to this folder.
    """
    console, path = Console(), out or run / "report.html"
    check_free([path] if out else [], overwrite=True)
    if figures is not None:
        make_folder(figures)
    with progress("evaluate", console) as show:
        findings = Findings(run, data, split, show)
    with progress("report", console) as show:
        found = content(findings, samples=samples, room=LIMIT - page_size(), progress=show)
    size, held = write_page(found, path), len(found["samples"])
    words = f"{path} ({size / 1e6:.1f} MB, {held} of {len(findings.ranked)} trajectories)"
    console.print(f"Open the report in a browser: {words}", highlight=False, soft_wrap=True)
    if figures is not None:
        with progress("figures", console) as show:
            written = write_figures(figure_inputs(findings), figures, progress=show)
        console.print(f"{len(written)} figures are in {figures}", highlight=False, soft_wrap=True)


def bench(
    suite: tyro.conf.Positional[str],
    small: bool = False,
    out: Path | None = None,
    only: tuple[str, ...] = (),
    list: bool = False,
    index: int | None = None,
    prepare: bool = False,
    steps: int | None = None,
    repeats: int = 5,
) -> None:
    """Train many models on many data sets and compare them; or, with `speed`, their time and memory alone.

    Interrupted and started again, it goes on; finished runs are kept.

    Args:
        suite: A shipped suite, a .yaml file of your own, or `speed`.
        small: Everything small: tiny data, small presets, a few steps.
        out: The folder of the campaign; by default bench/SUITE.
        only: Names of models and data sets; the others are left for later.
        list: Say which runs there are, and what is known of them.
        index: Do one run of the list, for an array of jobs.
        prepare: Only make the data files that are missing.
        steps: Train every run for so many steps, instead of the suite's minutes or epochs.
        repeats: speed: how often each step is timed.
    """
    folder = out or Path("bench") / f"{Path(suite).stem}{'_small' if small else ''}"
    if suite == "speed":
        written = speed(folder, Console(), small=small, repeats=repeats, only=only)
        Console().print(f"The table is in {written}", highlight=False, soft_wrap=True)
        return
    job = SuiteJob(load_suite(suite), folder, Console(), small=small, steps=steps)
    if list:
        job.show_runs()
    elif prepare:
        job.campaign.prepare()
    else:
        job.run(only, index)


COMMANDS: dict[str, Callable[..., None]] = {
    "bench": bench,
    "check": check,
    "demo": demo,
    "evaluate": evaluate,
    "predict": predict,
    "report": report,
}
KINDS: dict[str, tuple[type[Output], dict[str, Any], Callable[..., None]]] = {
    "convert": (Output, READERS, convert),
    "generate": (Generation, PROBLEMS, generate_data),
}


def main(arguments: list[str] | None = None) -> None:
    """Fast neural surrogates of time-dependent PDEs on any mesh."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments and arguments[0] in KINDS:
            _run_kind(arguments[0], arguments[1:])
        elif arguments and arguments[0] == "train":
            train(arguments[1:])
        else:
            known = COMMANDS | {name: _listed(command) for name, (_, _, command) in KINDS.items()}
            known["train"] = _listed(train)
            tyro.extras.subcommand_cli_from_dict(known, prog="calm", description=main.__doc__, args=arguments)
    except Interrupted as error:
        Console(stderr=True).print(f"calm: {error}", markup=False, highlight=False, soft_wrap=True)
        sys.exit(130)
    except CalmError as error:
        Console(stderr=True).print(f"calm: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        sys.exit(2)
    except KeyboardInterrupt:
        Console(stderr=True).print("calm: interrupted; nothing half-written is left.", style="red")
        sys.exit(130)


def _run_kind(name: str, arguments: list[str]) -> None:
    """`calm NAME KIND …`, where a kind's own options stand beside those of the command."""
    job, kinds, command = KINDS[name]
    forms = {kind: create_model(kind, __base__=(job, form), __doc__=form.__doc__) for kind, form in kinds.items()}
    if arguments and not arguments[0].startswith("-") and arguments[0] not in kinds:
        raise CalmError(f"calm {name}: expected a kind, got {arguments[0]!r}. {suggestion(arguments[0], list(kinds))}")
    chosen = tyro.extras.subcommand_cli_from_dict(forms, prog=f"calm {name}", description=command.__doc__, args=arguments)
    kind = chosen.__class__.__name__
    command(kind, _part(chosen, kinds[kind]), _part(chosen, job))


def _part(chosen: Config, form: type[Config]) -> Config:
    return form(**{name: getattr(chosen, name) for name in form.model_fields})


def _listed(command: Callable[..., None]) -> Callable[[], None]:
    def shown() -> None: ...

    shown.__doc__ = command.__doc__
    return shown


def _preset_needs(file: DataFile, preset: str) -> str:
    config = CalmConfig.preset(preset)
    dim = file.description.box.dim
    if config.dim != dim:
        raise CalmError(f"preset: {preset} is {config.dim}-D, and {file.path} is {dim}-D. Choose a preset of that dimension.")
    channels = len(file.description.fields)
    model = CalmConfig.preset(preset, in_channels=channels, out_channels=channels).build()
    peak = predicted_peak(model, int(file.num_points.max()), 1, max(1, len(file.times) - 1))
    return f"a training step of one trajectory takes {peak / 2**20:.0f} MiB"
