"""The table of a campaign: per data set a row for every model, beside the paper's value; as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from calm_pde.bench.measured.result import Failure, Outcome, Result
from calm_pde.bench.runs.phases import Searched
from calm_pde.bench.runs.setups import title
from calm_pde.bench.runs.suite import Suite
from calm_pde.bench.runs.trials import Trial
from calm_pde.bench.shown import search_table
from calm_pde.bench.shown.words import plain
from calm_pde.metrics import METRICS
from calm_pde.metrics.metric import Metric
from calm_pde.metrics.relative_l2 import RelativeL2
from calm_pde.models import MODELS


@dataclass
class Row:
    """A model on a data set, over all seeds; one that only the paper has is not `ours`."""

    model: str
    title: str
    paper: str = ""
    """As printed."""
    paper_error: float | None = None
    ours: bool = True
    results: list[Result] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    waiting: int = 0
    settings: str = ""
    """What the search settled on, in suites that have one."""

    @property
    def error(self) -> float | None:
        return statistics.fmean(found.error for found in self.results) if self.results else None

    @property
    def spread(self) -> float | None:
        """Over seeds, where there are several."""
        errors = [found.error for found in self.results]
        return statistics.stdev(errors) if len(errors) > 1 and all(map(math.isfinite, errors)) else None

    @property
    def metric(self) -> type[Metric]:
        """What the error is."""
        return METRICS.get(self.results[0].metric, RelativeL2) if self.results else RelativeL2

    def mean(self, value: Callable[[Result], float | None]) -> float | None:
        """Over seeds, of those that have it."""
        known = [number for found in self.results if (number := value(found)) is not None]
        return statistics.fmean(known) if known else None


def rows(
    suite: Suite,
    trials: Sequence[Trial],
    found: Mapping[str, Outcome | None],
    settings: Mapping[tuple[str, str], str] | None = None,
) -> dict[str, list[Row]]:
    """By data set, in the suite's order; models that only the paper has come last.

    Args:
        settings: what is said of those of each data set and model, in suites with a search.
    """
    table: dict[str, list[Row]] = {}
    for data, entry in suite.data.items():
        printed = suite.paper.get(data, {})
        made: dict[str, Row] = {}
        for trial in trials:
            if trial.data == data:
                row = made.setdefault(trial.model, _row(trial.model, trial.title, printed, entry.paper_unit))
                row.settings = (settings or {}).get((data, trial.model), "")
                result = found.get(trial.name)
                if isinstance(result, Result):
                    row.results.append(result)
                elif isinstance(result, Failure):
                    row.failures.append(result)
                else:
                    row.waiting += 1
        for model in printed.keys() - made.keys():
            made[model] = _row(model, title(model) if model in MODELS else model, printed, entry.paper_unit)
            made[model].ours = False
        known = [*suite.models, *printed]
        table[data] = sorted(made.values(), key=lambda row: known.index(row.model))
    return table


def _row(model: str, name: str, printed: Mapping[str, str], unit: float) -> Row:
    if model not in printed:
        return Row(model, name)
    number = re.match(r"\s*([0-9.]+)", printed[model])
    return Row(model, name, paper(printed[model], unit), float(number[1]) * unit if number else None)


def paper(printed: str, unit: float) -> str:
    """A value as the paper has it, with the power of ten that stands over its column."""
    return printed if unit == 1 else f"{printed} × {unit:g}"


COLUMNS: dict[str, Callable[[Row], str]] = {
    "model": lambda row: row.title,
    "test error": lambda row: error_text(row),
    "paper": lambda row: row.paper or "–",
    "parameters": lambda row: _whole(row.mean(lambda found: found.parameters)),
    "latent numbers": lambda row: _whole(row.mean(lambda found: found.latent_numbers)),
    "training step": lambda row: seconds_text(row.mean(lambda found: found.seconds_per_step)),
    "step memory": lambda row: bytes_text(row.mean(lambda found: found.step_bytes)),
    "inference": lambda row: seconds_text(row.mean(lambda found: found.inference_seconds)),
    "inference memory": lambda row: bytes_text(row.mean(lambda found: found.inference_bytes)),
    "steps": lambda row: _whole(row.mean(lambda found: found.steps)),
    "training": lambda row: seconds_text(row.mean(lambda found: found.training_seconds)),
    "preset": lambda row: row.results[0].preset if row.results else "–",
}
_SETTINGS: dict[str, Callable[[Row], str]] = {"settings": lambda row: row.settings or "–"}
NOTES = (
    "Test error: mean over all test trajectories, for relative L2 over frames after the first; mean ± deviation over seeds.",
    "Training step: mean over the schedule, measured before the run. Inference: per trajectory in a batch of 8.",
    "Memory: the peak of a training step at the end of the schedule and of that inference, each beyond what the process held "
    "before, in a process of its own.",
)


def columns(found: Sequence[Row]) -> dict[str, Callable[[Row], str]]:
    """What a table tells of each row; where there was a search, its settings behind the name."""
    if not any(row.settings for row in found):
        return COLUMNS
    model, *others = COLUMNS.items()
    return dict([model, *_SETTINGS.items(), *others])


def best(rows: Sequence[Row]) -> Row | None:
    """The row with the best error of all."""
    known = [row for row in rows if row.error is not None and math.isfinite(row.error)]
    if not known:
        return None
    sign = 1 if known[0].metric.better == "lower" else -1
    return min(known, key=lambda row: sign * (row.error or 0.0))


def error_text(row: Row) -> str:
    if row.error is None:
        return "failed" if row.failures else "not run yet" if row.ours else "–"
    diverged = sum(found.diverged for found in row.results)
    words = f"{row.error:.4f}" if math.isfinite(row.error) else "diverged"
    words += f" ± {row.spread:.4f}" if row.spread is not None else ""
    if diverged and math.isfinite(row.error):
        words += f", {diverged} samples diverged"
    left = [f"{len(row.failures)} failed"] * bool(row.failures) + [f"{row.waiting} not run yet"] * bool(row.waiting)
    return ", ".join([words, *left])


def markdown(suite: Suite, table: Mapping[str, Sequence[Row]], searches: Mapping[str, Sequence[Searched]] | None = None) -> str:
    """All data sets one after the other; names are shown as they are, whatever they hold."""
    lines = [f"# {plain(suite.name)}", ""]
    lines += [f"{plain(suite.about)}", ""] if suite.about else []
    lines += [f"- {plain(fact)}" for fact in facts(suite, table)] + [""]
    for data, found in table.items():
        lines += [f"## {plain(suite.data[data].title or data)}", ""]
        told = columns(found)
        lines += [f"| {' | '.join(told)} |", "|" + "---|" * len(told)]
        lines += [f"| {' | '.join(plain(text(row)) for text in told.values())} |" for row in found]
        lines += ["", *(plain(note) for note in remarks(found)), ""]
        lines += search_table.markdown(suite, (searches or {}).get(data, ()))
    return "\n".join([*lines, *NOTES]) + "\n"


def facts(suite: Suite, table: Mapping[str, Sequence[Row]]) -> list[str]:
    """What stands over every number: budget, seeds, commits and machines."""
    results = [found for found_rows in table.values() for row in found_rows for found in row.results]
    budgets = sorted({found.minutes for found in results if found.minutes is not None})
    words = [f"seeds {', '.join(map(str, sorted({found.seed for found in results})))}"] if results else []
    words += [f"budget {', '.join(f'{minutes:g}' for minutes in budgets)} min of training per run"] if budgets else []
    words += search_table.facts(suite) if any(row.settings for found_rows in table.values() for row in found_rows) else []
    words += [f"batch size {', '.join(map(str, sorted({found.batch_size for found in results})))}"] if results else []
    words += [f"commit {name}" for name in sorted({found.commit or "not known" for found in results})]
    words += [f"on {name}" for name in sorted({found.machine for found in results})]
    words += [f"last run {max(found.date for found in results)}"] if results else []
    return words


def remarks(found: Sequence[Row]) -> list[str]:
    """What a reader must know beside a table: the trivial predictor and the runs that failed."""
    results = [result for row in found for result in row.results]
    words = []
    if results:
        metric = next(row.metric for row in found if row.results)
        words.append(f"Test error: {metric.title}. {results[0].baseline_kind.capitalize()}: {results[0].baseline:.4f}.")
    words += [f"{failure.title}, seed {failure.seed}, failed: {failure.reason}" for row in found for failure in row.failures]
    return words


def comma_separated(table: Mapping[str, Sequence[Row]]) -> str:
    """A line per run with all its numbers, unrounded; what has many per run is left out."""
    searched = any(row.settings for found in table.values() for row in found)
    hidden = {"curve", "others", "frame_errors"} | (set() if searched else {"validation", "setting"})
    names = [name for name in Result.model_fields if name not in hidden]
    others = [metric.name for metric in METRICS.values() if metric.overall]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*names, *others, "paper", "reason"])
    for data, found in table.items():
        for row in found:
            for result in row.results:
                found_errors = result.others | {result.metric: result.error}
                numbers = [*(getattr(result, name) for name in names), *(found_errors.get(name, "") for name in others)]
                writer.writerow([*numbers, row.paper, ""])
            for failure in row.failures:
                writer.writerow([*(getattr(failure, name, "") for name in names + others), row.paper, failure.reason])
            if not row.ours:
                known = {"data": data, "model": row.model, "title": row.title}
                writer.writerow([*(known.get(name, "") for name in names + others), row.paper, ""])
    return out.getvalue()


def seconds_text(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 1:
        return f"{1000 * value:.3g} ms"
    return f"{value:.3g} s" if value < 120 else f"{value / 60:.3g} min" if value < 7200 else f"{value / 3600:.3g} h"


def bytes_text(value: int | float | None) -> str:
    return "–" if value is None else f"{value / 2**20:,.0f} MiB"


def _whole(value: float | None) -> str:
    return "–" if value is None else f"{round(value):,}"
