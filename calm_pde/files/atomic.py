"""Writing so that a reader finds the old file or the new one, never half of one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calm_pde.errors import FileError


@contextmanager
def replacing(path: Path, overwrite: bool = True) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it takes the place of `path` when the block ends well.

    What an earlier, killed attempt left behind is overwritten; a failed attempt leaves nothing.
    """
    check_free([path], overwrite)
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        synced(part)
        os.replace(part, path)
        synced(path.parent)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise FileError(path, f"cannot be written: {error}", fix="What was there before is untouched.") from error
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise


def check_free(paths: Iterable[Path], overwrite: bool) -> None:
    """Nothing is in the way, and the folder is there; long work asks before it begins."""
    for path in paths:
        if path.exists() and not overwrite:
            raise FileError(path, "exists already", fix="Name another file, or say --overwrite.")
        if path.is_dir():
            raise FileError(path, "is a folder, expected a file", fix="Name a file.")
        if not path.parent.is_dir():
            raise FileError(path.parent, "there is no such folder", fix="Create it first.")


def synced(path: Path) -> None:
    """Wait until a file, or a folder's list of names, is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
