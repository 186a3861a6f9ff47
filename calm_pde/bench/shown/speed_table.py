"""The table of the comparison of speed, as ratios to CALM-PDE, beside the paper's."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from pydantic import BaseModel, Field

from calm_pde.bench.measured.contenders import TRAJECTORIES, Setting
from calm_pde.bench.runs.setups import title
from calm_pde.bench.shown.table import bytes_text, seconds_text
from calm_pde.models import MODELS, OURS


class Speed(BaseModel):
    """What was measured of one contender, or why not."""

    name: str
    what: str
    problem: str | None = None
    parameters: int | None = None
    step_seconds: list[float] = Field(default_factory=list)
    step_bytes: int | None = None
    inference_bytes: int | None = None
    inference_seconds: dict[int, float] = Field(default_factory=dict)
    """Medians by number of steps."""

    @property
    def whole(self) -> str:
        """The model: its parts are trained one by one, and answer together."""
        return self.name.split(",")[0]

    @property
    def step(self) -> float | None:
        return statistics.median(self.step_seconds) if self.step_seconds else None


def speed_markdown(found: Sequence[Speed], setting: Setting, head: Sequence[str], date: str) -> str:
    """Training and inference; every number with its ratio to CALM-PDE's of the same run."""
    ours = next(speed for speed in found if speed.name == title(OURS))
    size = f"{setting.points} × {setting.points} points"
    lines = [f"# speed, {date}", "", *(f"- {line}" for line in head)]
    lines.append(f"- {'small sizes of all models' if setting.small else 'the paper’s 2-D sizes'}, float32")
    lines += [
        "",
        f"## Training step: {TRAJECTORIES} trajectories of {setting.frames} frames at {size}, all "
        f"{setting.frames - 1} transitions",
        "",
        "| model | step | time | fastest to slowest | ratio | paper's | peak memory | ratio | paper's | parameters |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for speed in found:
        if speed.problem is not None:
            lines.append(f"| {speed.name} | {speed.what} | {speed.problem} |" + " – |" * 7)
            continue
        low, high = min(speed.step_seconds), max(speed.step_seconds)
        cells = [
            speed.name,
            speed.what,
            seconds_text(speed.step),
            f"{seconds_text(low)} to {seconds_text(high)}",
            _ratio(speed.step, ours.step),
            _paper(speed.name, 0),
            bytes_text(speed.step_bytes),
            _ratio(speed.step_bytes, ours.step_bytes),
            _paper(speed.name, 1),
            f"{speed.parameters:,}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"## Inference: {TRAJECTORIES} trajectories at {size}", "", *_inference(found, ours, setting.horizons), ""]
    lines += [
        "A training step is what the training loop does with a batch that has been read: forward, loss, backward, AdamW. Peak "
        "memory is beyond what the process held before, in a process of its own; that of inference is for the longest one. The "
        "paper's ratios are for 32 trajectories on an A100 (its table of time and memory).",
    ]
    return "\n".join(lines) + "\n"


def _inference(found: Sequence[Speed], ours: Speed, horizons: Sequence[int]) -> list[str]:
    head = "".join(f" {steps} steps | ratio |" for steps in horizons)
    rows = [f"| model |{head} memory |", "|---|" + "---|---|" * len(horizons) + "---|"]
    for speed in found:
        if speed.inference_seconds:
            pairs = [(speed.inference_seconds.get(steps), ours.inference_seconds.get(steps)) for steps in horizons]
            cells = "".join(f" {seconds_text(mine)} | {_ratio(mine, theirs)} |" for mine, theirs in pairs)
            rows.append(f"| {speed.whole} |{cells} {bytes_text(speed.inference_bytes)} |")
    return rows


def _paper(name: str, place: int) -> str:
    printed = {title(kind): config.practice.paper_step for kind, config in MODELS.items()}
    mine, theirs = printed.get(name), MODELS[OURS].practice.paper_step
    return "–" if mine is None or theirs is None else f"{mine[place] / theirs[place]:.2f}"


def _ratio(value: int | float | None, reference: int | float | None) -> str:
    return "–" if value is None or not reference else f"{value / reference:.2f}"
