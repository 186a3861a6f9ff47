"""Published files and own arrays as a data file, in one call."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from calm_pde.config import suggestion
from calm_pde.data.readers import READERS
from calm_pde.data.readers.base import Reader
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write
from calm_pde.errors import FileError, InputError
from calm_pde.progress import barred
from calm_pde.records.trajectory import Source


@barred("convert")
def convert(
    reader: Reader | Source | str,
    out: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **options: Any,
) -> DataFile:
    """Stream what a reader finds into the data file `out`, one trajectory in memory at a time, and open it.

    Args:
        reader: a reader of `calm_pde.data.readers`, what it reads, or the name of one, whose options then follow by keyword:
            `path`, the published file or folder, and its own.
        overwrite: replace a file that exists.
        progress: called with the number done and the total.
    """
    source = _source(reader, options)
    done = itertools.count(1)

    def show(_: object) -> None:
        if progress is not None:
            progress(next(done), source.count)

    return write(source, out, overwrite, show)


def _source(reader: Reader | Source | str, options: dict[str, Any]) -> Source:
    if isinstance(reader, str):
        if reader not in READERS:
            known = suggestion(reader, list(READERS))
            raise InputError("reader", expected="a reader or the name of one", got=repr(reader), fix=known)
        reader, options = READERS[reader](**options), {}
    if options:
        raise InputError(
            ", ".join(options), expected="options beside the name of a reader", got="a reader", fix="Put them into it."
        )
    return reader if isinstance(reader, Source) else reader.source()


def reader_of(path: Path) -> str:
    """The kind of reader that takes a file or folder by its name."""
    if not path.exists():
        raise FileError(path, "there is no such file or folder", fix="Check the path.")
    found = [name for name, reader in READERS.items() if reader.takes(path)]
    if len(found) != 1:
        problem = f"is taken by several readers: {', '.join(found)}" if found else "is taken by no reader by its name"
        fix = f"Say which with --reader: {', '.join(READERS)}."
        raise FileError(path, problem, fix=fix)
    return found[0]
