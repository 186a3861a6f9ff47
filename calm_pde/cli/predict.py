"""`calm predict`: answers of a surrogate as files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from calm_pde.errors import InputError
from calm_pde.progress import progress
from calm_pde.surrogate import predict as prediction


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
    parameters: tuple[str, ...] = (),
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
        parameters: As name=value, instead of those of the input.
    """
    console = Console()
    with progress("predict", console) as show:
        written = prediction.predict(
            run,
            input,
            out,
            times=times or None,
            queries=queries,
            split=split,
            samples=samples,
            all=all,
            overwrite=overwrite,
            allow_nonfinite=allow_nonfinite,
            parameters=dict(map(_pair, parameters)),
            progress=show,
        )
    more = "" if written == out else "; every sample has such a file, for ParaView"
    console.print(f"The prediction is in {written}{more}", highlight=False, soft_wrap=True)


def _pair(word: str) -> tuple[str, float]:
    """name=value."""
    name, equals, value = word.partition("=")
    try:
        if not (name and equals):
            raise ValueError(word)
        return name, float(value)
    except ValueError as error:
        fix = "Write --parameters conductivity=0.5."
        raise InputError("parameters", expected="name=value", got=repr(word), fix=fix) from error
