"""What a run of a campaign reached, or why it failed, as a file in its folder."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pydantic import model_validator

from calm_pde.errors import ConfigError, FileError
from calm_pde.files.folders import replace_file
from calm_pde.metrics.values import Found

RESULT, VALIDATED, FAILURE = "result.json", "validated.json", "failure.json"


class Result(Found):
    """Of a finished run."""

    data: str
    model: str
    title: str
    seed: int
    kind: str
    preset: str
    metric: str = "relative_l2"
    """What `error` is."""
    error: float
    """The mean on the test split."""
    sample_spread: float
    """Its deviation over the test samples."""
    others: dict[str, float] = {}  # noqa: RUF012 - pydantic copies it
    """The other metrics that are one number for all fields."""
    frame_errors: tuple[float, ...] = ()
    """In each frame after the first, mean over test samples and fields: of the metric where it is told in frames, else the
    relative L2. A frame whose truth is exactly zero has none."""
    validation: float = math.inf
    """The smallest of the training, whose weights were evaluated; infinite where none was finite."""
    setting: str = ""
    """What the search settled on, by name; `own` without one, and nothing in suites without a search."""
    baseline: float
    """The same error of the predictor that knows nothing."""
    baseline_kind: str
    diverged: int
    parameters: int
    latent_numbers: int | None
    """How many stand for a frame, as the model's config counts them."""
    steps: int
    epochs: int
    batch_size: int
    minutes: float | None
    """The budget, where there is one."""
    training_seconds: float
    seconds_per_step: float
    step_bytes: int | None
    inference_seconds: float
    inference_bytes: int | None
    curve: tuple[tuple[float, float], ...]
    """Seconds of training and validation error."""
    fingerprint: str
    """Of the data."""
    commit: str | None
    machine: str
    date: str

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, data: Any) -> Any:
        """Results of before say `latent_size`, and their validation error in the curve alone."""
        if isinstance(data, dict) and "latent_size" in data:
            data = {("latent_numbers" if name == "latent_size" else name): value for name, value in data.items()}
        if isinstance(data, dict) and "validation" not in data and data.get("curve"):
            data = data | {"validation": min(error for _, error in data["curve"])}
        return data


class Validated(Found):
    """Of a finished run of a search, for which nobody has looked at the test split."""

    data: str
    model: str
    title: str
    setting: str
    seed: int
    kind: str
    preset: str
    validation: float
    """The smallest of the training; infinite where none was finite."""
    steps: int
    epochs: int
    batch_size: int
    minutes: float | None
    training_seconds: float
    seconds_per_step: float
    curve: tuple[tuple[float, float], ...]
    """Seconds of training and validation error."""
    fingerprint: str
    """Of the data."""
    commit: str | None
    machine: str
    date: str


class Failure(Found):
    """Of a run that did not come to its end."""

    data: str
    model: str
    title: str
    seed: int
    reason: str


Outcome = Result | Validated | Failure
_FORMS: dict[str, type[Result] | type[Validated] | type[Failure]] = {RESULT: Result, VALIDATED: Validated, FAILURE: Failure}


def save(run: Path, found: Outcome) -> None:
    """A result takes the place of a failure."""
    name = next(name for name, form in _FORMS.items() if isinstance(found, form))
    replace_file(run / name, found.model_dump_json(indent=1).encode())
    if name != FAILURE:
        (run / FAILURE).unlink(missing_ok=True)


def load(run: Path) -> Outcome | None:
    """What is known of a run; None where it has not come to an end."""
    for name, form in _FORMS.items():
        if (run / name).exists():
            try:
                return form.model_validate_json((run / name).read_bytes())
            except (ConfigError, OSError) as error:
                raise FileError(run / name, f"cannot be read ({error})", fix="Remove it to run again.") from error
    return None
