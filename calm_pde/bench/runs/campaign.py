"""A campaign: the runs of a suite one after the other, each a run folder of the one training loop, and a table of them all."""

from __future__ import annotations

import math
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console

from calm_pde.bench.measured.clock import CLOCK, ClockShow, clock
from calm_pde.bench.measured.measure import Measured, measured
from calm_pde.bench.measured.process import last_words
from calm_pde.bench.measured.result import Failure, Outcome, Result, Validated, load, save
from calm_pde.bench.runs.budget import Allowance, allowance_of, written_allowance
from calm_pde.bench.runs.side_by_side import side_by_side
from calm_pde.bench.runs.trials import Trial
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.metrics import METRICS
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.metrics.scores import Evaluation
from calm_pde.models.size import num_parameters
from calm_pde.surrogate.evaluate import data_of, evaluate
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.loop import Interrupted, Trainer
from calm_pde.train.making import make_missing
from calm_pde.train.record import read_record

ALLOWANCES = "plans"
"""The folder of them, by the name that campaigns have always given it, so that old ones go on."""


class Campaign:
    """`run` does what is left to do; `found` reads back what is done.

    Args:
        out: the folder of all runs, allowances and tables.
        report: called after every run, to write the tables anew.
    """

    def __init__(self, trials: Sequence[Trial], out: Path, console: Console, report: Callable[[], None]) -> None:
        self.trials, self.out, self.console, self.report = list(trials), out, console, report

    def folder(self, trial: Trial) -> Path:
        return self.out / "runs" / trial.name

    def begun(self, trial: Trial) -> bool:
        return self.folder(trial).exists()

    def of(self, trial: Trial) -> Outcome | None:
        """What is known of a run; None where it has not come to an end."""
        return load(self.folder(trial))

    def found(self) -> dict[str, Outcome | None]:
        """Of each trial by name."""
        return {trial.name: self.of(trial) for trial in self.trials}

    def run(self, chosen: Sequence[Trial], workers: int = 1) -> None:
        """Finished runs are not repeated, an interrupted one goes on, a failed one is tried again.

        Args:
            workers: how many runs go on side by side, each in a process of its own.
        """
        left = []
        for number, trial in enumerate(chosen, start=1):
            place = f"[{number}/{len(chosen)}] {words(trial)}"
            found = self.of(trial)
            if isinstance(found, Result | Validated):
                if trial.setting:  # whose runs depend on what others found
                    written_allowance(trial, self._allowance(trial))
                self._say(f"{place}: done before, {_reached(found)}")
            else:
                left.append((place, trial))
        if workers > 1:
            self._run_side_by_side(left, workers)
        else:
            for place, trial in left:
                self._run(place, trial)
        self.report()

    def _run(self, place: str, trial: Trial) -> None:
        self._say(f"{place} …")
        make_folder(self.folder(trial))
        with held(self.folder(trial)):
            found = self._attempt(trial)
            save(self.folder(trial), found)
        self._say(f"{place}: {_reached(found)}")
        self.report()

    def _run_side_by_side(self, left: Sequence[tuple[str, Trial]], workers: int) -> None:
        """The data are made beforehand, so that no two runs make the same."""
        for _, trial in left:
            make_missing(trial.recipe.data, self.console)
        commands = []
        for _, trial in left:
            make_folder(self.folder(trial))
            path = self.folder(trial) / "trial.json"
            replace_file(path, trial.model_dump_json(indent=1).encode())
            commands.append([sys.executable, "-m", "calm_pde.bench.runs.worker", str(path), str(self.out)])

        def ended(number: int, code: int, said: list[str]) -> None:
            place, trial = left[number]
            found = self.of(trial)
            if found is None or (code and isinstance(found, Failure)):
                found = _failure(trial, f"the run ended early: {last_words(code, chr(10).join(said))}")
                save(self.folder(trial), found)
            self._say(f"{place}: {_reached(found)}")
            self.report()

        asked = side_by_side(commands, workers, lambda number: self._say(f"{left[number][0]} …"), ended)
        if asked is not None:
            raise Interrupted(f"{signal.Signals(asked).name}: saved in {self.out}. The same command goes on from there.")

    def prepare(self) -> None:
        """All data files, made where they are missing."""
        for trial in self.trials:
            make_missing(trial.recipe.data, self.console)

    def _allowance(self, trial: Trial) -> Path:
        return self.out / ALLOWANCES / f"{trial.name}.json"

    def _attempt(self, trial: Trial) -> Outcome:
        """A run that fails, for whatever reason, is told of in the table and does not stop the others."""
        try:
            return self._result(trial)
        except Interrupted:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, CalmError) else f"{type(error).__name__}: {error}"
            return _failure(trial, reason)

    def _result(self, trial: Trial) -> Result | Validated:
        run = self.folder(trial)
        make_missing(trial.recipe.data, self.console)
        allowance = allowance_of(trial, self._allowance(trial))
        show = ClockShow(self.console, run)
        try:
            Trainer(allowance.recipe, run, show, clock=clock(trial.recipe.train.threads)).fit()
        finally:
            show.close()
        surrogate = Surrogate.load(run)
        if not trial.tested:
            return validated_of(trial, allowance, surrogate, run)
        file, stride = data_of(surrogate, run)
        if torch.cuda.is_available():
            surrogate.model.cuda()
        evaluation = evaluate(surrogate, file, frame_stride=stride)
        replace_file(run / "evaluation.json", evaluation.model_dump_json(indent=1).encode())
        return result_of(trial, allowance, surrogate, evaluation, measured(run), run)

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)


def result_of(
    trial: Trial, allowance: Allowance, surrogate: Surrogate, evaluation: Evaluation, measured: Measured, run: Path
) -> Result:
    """All that the table shows of a run."""
    card, train = surrogate.card, allowance.recipe.train
    metric = METRICS[trial.metric]
    error, baseline = evaluation.overall(metric), evaluation.baseline.overall(metric)
    return Result(
        data=trial.data,
        model=trial.model,
        title=trial.title,
        seed=trial.seed,
        kind=card.kind,
        preset=trial.preset,
        metric=metric.name,
        error=error.mean,
        sample_spread=error.std,
        others={one.name: evaluation.overall(one).mean for one in METRICS.values() if one.overall and one is not metric},
        frame_errors=frame_errors(evaluation, trial.metric),
        validation=_validation(surrogate),
        setting=trial.setting,
        baseline=baseline.mean,
        baseline_kind=evaluation.baseline.kind,
        diverged=evaluation.diverged,
        parameters=num_parameters(surrogate.model),
        latent_numbers=surrogate.model.config.latent_numbers(evaluation.num_points[1]),
        steps=allowance.steps,
        epochs=train.epochs,
        batch_size=train.batch_size,
        minutes=trial.length.minutes,
        training_seconds=card.metrics["seconds"],
        seconds_per_step=allowance.seconds_per_step,
        step_bytes=measured.step_bytes,
        inference_seconds=measured.inference_seconds,
        inference_bytes=measured.inference_bytes,
        curve=_curve(run),
        fingerprint=evaluation.fingerprint,
        commit=card.provenance.get("commit"),
        machine=str(card.provenance.get("machine")),
        date=str(card.metrics.get("date")),
    )


def validated_of(trial: Trial, allowance: Allowance, surrogate: Surrogate, run: Path) -> Validated:
    """All that is known of a run of a search."""
    card, train = surrogate.card, allowance.recipe.train
    return Validated(
        data=trial.data,
        model=trial.model,
        title=trial.title,
        setting=trial.setting,
        seed=trial.seed,
        kind=card.kind,
        preset=trial.preset,
        validation=_validation(surrogate),
        steps=allowance.steps,
        epochs=train.epochs,
        batch_size=train.batch_size,
        minutes=trial.length.minutes,
        training_seconds=card.metrics["seconds"],
        seconds_per_step=allowance.seconds_per_step,
        curve=_curve(run),
        fingerprint=str(card.provenance.get("data")),
        commit=card.provenance.get("commit"),
        machine=str(card.provenance.get("machine")),
        date=str(card.metrics.get("date")),
    )


def frame_errors(evaluation: Evaluation, name: str) -> tuple[float, ...]:
    """The test error frame by frame, mean over fields: of the metric where it is told in frames, else the relative L2."""
    metric = METRICS[name] if METRICS[name].per_frame else RelativeL2
    frames = zip(*(field.curve(metric) for field in evaluation.fields), strict=True)
    known = [[found.mean for found in fields if not math.isnan(found.mean)] for fields in frames]
    return tuple(sum(errors) / len(errors) if errors else math.nan for errors in known)


def words(trial: Trial) -> str:
    """A run as a campaign speaks of it."""
    setting = f", {trial.setting}" if trial.setting else ""
    return f"{trial.title} on {trial.data}, seed {trial.seed}{setting}"


def _validation(surrogate: Surrogate) -> float:
    """What the weights of a run were kept by; infinite where no validation was finite."""
    return surrogate.card.metrics.get("validation", math.inf)


def _curve(run: Path) -> tuple[tuple[float, float], ...]:
    return tuple((line["seconds"], line["validation"]) for line in read_record(run / CLOCK) if line["validation"] is not None)


def _failure(trial: Trial, reason: str) -> Failure:
    return Failure(data=trial.data, model=trial.model, title=trial.title, seed=trial.seed, reason=reason)


def _reached(found: Outcome) -> str:
    if isinstance(found, Failure):
        return f"failed: {found.reason}"
    error = f"validation error {found.validation:.4f}"
    if isinstance(found, Result):
        error = f"test error {found.error:.4f} ({found.baseline_kind} {found.baseline:.4f})"
    return f"{error}, {found.steps} steps in {found.training_seconds / 60:.1f} min"
