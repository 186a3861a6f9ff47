"""`calm evaluate`: errors of a surrogate as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from calm_pde.metrics.scores import Evaluation, table
from calm_pde.progress import progress
from calm_pde.surrogate import evaluate as evaluation
from calm_pde.surrogate.surrogate import Surrogate


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
    console, surrogate = Console(), Surrogate.load(run)
    file, _ = evaluation.data_of(surrogate, run, data)
    with progress("evaluate", console) as show:
        found = evaluation.evaluate(
            surrogate,
            file,
            split=split,
            frame_stride=frame_stride,
            legacy_padding_metric=legacy_padding_metric,
            progress=show,
        )
    tell(found, evaluation.write_evaluation(found, run, file, own=data is None), console)


def tell(found: Evaluation, out: Path, console: Console) -> None:
    """The table, and where the numbers are kept."""
    console.print(table(found))
    console.print(f"All numbers are in {out}", highlight=False, soft_wrap=True)
