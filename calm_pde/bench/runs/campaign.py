"""A campaign: the runs of a suite one after the other, each a run folder of the one training loop, and a table of them all."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from rich.console import Console

from calm_pde.bench.measured.clock import CLOCK, ClockShow
from calm_pde.bench.measured.measure import Measured, measured
from calm_pde.bench.measured.process import last_words
from calm_pde.bench.measured.result import Failure, Result, load, save
from calm_pde.bench.runs.budget import Allowance, allowance_of
from calm_pde.bench.runs.side_by_side import side_by_side
from calm_pde.bench.runs.trials import Trial
from calm_pde.errors import CalmError
from calm_pde.files.folders import make_folder, replace_file
from calm_pde.files.locks import held
from calm_pde.metrics import METRICS
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

    def found(self) -> dict[str, Result | Failure | None]:
        """Of each trial by name."""
        return {trial.name: load(self.folder(trial)) for trial in self.trials}

    def run(self, chosen: Sequence[Trial], workers: int = 1) -> None:
        """Finished runs are not repeated, an interrupted one goes on, a failed one is tried again.

        Args:
            workers: how many runs go on side by side, each in a process of its own.
        """
        left = []
        for number, trial in enumerate(chosen, start=1):
            place = f"[{number}/{len(chosen)}] {trial.title} on {trial.data}, seed {trial.seed}"
            found = load(self.folder(trial))
            if isinstance(found, Result):
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
            found = load(self.folder(trial))
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

    def _attempt(self, trial: Trial) -> Result | Failure:
        """A run that fails, for whatever reason, is told of in the table and does not stop the others."""
        try:
            return self._result(trial)
        except Interrupted:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, CalmError) else f"{type(error).__name__}: {error}"
            return _failure(trial, reason)

    def _result(self, trial: Trial) -> Result:
        run = self.folder(trial)
        make_missing(trial.recipe.data, self.console)
        allowance = allowance_of(trial, self.out / ALLOWANCES / f"{trial.name}.json")
        show = ClockShow(self.console, run)
        try:
            Trainer(allowance.recipe, run, show).fit()
        finally:
            show.close()
        surrogate = Surrogate.load(run)
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
    clock = [line for line in read_record(run / CLOCK) if line["validation"] is not None]
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
        curve=tuple((line["seconds"], line["validation"]) for line in clock),
        fingerprint=evaluation.fingerprint,
        commit=card.provenance.get("commit"),
        machine=str(card.provenance.get("machine")),
        date=str(card.metrics.get("date")),
    )


def _failure(trial: Trial, reason: str) -> Failure:
    return Failure(data=trial.data, model=trial.model, title=trial.title, seed=trial.seed, reason=reason)


def _reached(found: Result | Failure) -> str:
    if isinstance(found, Failure):
        return f"failed: {found.reason}"
    return (
        f"test error {found.error:.4f} ({found.baseline_kind} {found.baseline:.4f}), {found.steps} steps "
        f"in {found.training_seconds / 60:.1f} min"
    )
