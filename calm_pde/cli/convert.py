"""`calm convert`: published files and arrays as data files."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from calm_pde.config import Config
from calm_pde.data import convert as data_convert
from calm_pde.data.readers.base import Reader
from calm_pde.progress import progress
from calm_pde.train.making import announce


class Output(Config):
    out: Path
    """The data file to write."""
    overwrite: bool = False
    """Replace a file that exists."""


def convert(kind: str, reader: Reader, output: Output) -> None:
    """Turn what simulations wrote, your own arrays, or published files into a data file."""
    console = Console()
    with progress(f"look through {reader.path.name}", console) as show:
        source = reader.surveyed(show)
    for note in source.description.provenance.get("notes", ()):
        console.print(note, highlight=False, markup=False)
    if "checksums" in source.description.provenance:
        console.print(f"checksums: {source.description.provenance['checksums']}", highlight=False)
    with progress(f"convert {kind}", console) as show:
        file = data_convert.convert(source, output.out, overwrite=output.overwrite, progress=show)
    announce(file, console)
