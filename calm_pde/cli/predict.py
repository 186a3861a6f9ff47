"""`calm predict`: answers of a surrogate as files."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import tyro
from rich.console import Console

from calm_pde.progress import progress
from calm_pde.surrogate import predict as prediction
from calm_pde.surrogate.surrogate import Surrogate


def predict(
    run: tyro.conf.Positional[Path],
    input: Path,
    out: Path,
    times: tuple[float, ...] = (),
    queries: Path | None = None,
    split: Literal["train", "validation", "test"] | None = None,
    overwrite: bool = False,
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
        overwrite: Replace files that exist.
    """
    console, surrogate = Console(), Surrogate.load(run)
    with progress("predict", console) as show:
        written = prediction.predict(
            surrogate, input, out, times=times or None, queries=queries, split=split, overwrite=overwrite, progress=show
        )
    more = "" if written == out else "; every sample has such a file, for ParaView"
    console.print(f"The prediction is in {written}{more}", highlight=False, soft_wrap=True)
