"""`calm import-weights`: a checkpoint of the published program as a surrogate folder."""

from __future__ import annotations

from inspect import cleandoc
from pathlib import Path

import tyro
from rich.console import Console

from calm_pde.config import Config
from calm_pde.models.size import num_parameters
from calm_pde.surrogate import import_weights as importing
from calm_pde.train.config import model_changes


class ImportOptions(Config):
    checkpoint: tyro.conf.Positional[Path]
    """The state dict that the published program saved, alone or beside optimizer state."""
    preset: str
    """Whose sizes it has: burgers_1d, navier_stokes_2d, compressible_3d, airfoil_2d, cylinder_2d, …"""
    data: Path
    """The published data, converted: mean, deviation, box and units come from there."""
    out: Path
    """The surrogate folder to write."""
    fields: tuple[str, ...] = ()
    """Of the data file, in the order of the published channels; by default its targets."""
    frame_stride: int = 1
    """Take every so many-th frame of the data file."""
    overwrite: bool = False
    """Replace a surrogate that is in the folder."""


def import_weights(arguments: list[str]) -> None:
    """Turn a checkpoint of the published CALM-PDE program into a surrogate folder; nothing in the checkpoint is executed.

    What differs from the preset can be said: --model.processor.heads 4.
    """
    arguments, changes = model_changes(arguments)
    description = cleandoc(import_weights.__doc__ or "")
    options = tyro.cli(ImportOptions, prog="calm import-weights", description=description, args=arguments)
    found = importing.import_weights(**options.model_dump(), changes=changes)
    told = f"{num_parameters(found.model):,} parameters of {options.checkpoint.name}: the surrogate is in {options.out}"
    Console().print(told, highlight=False, soft_wrap=True, markup=False)
