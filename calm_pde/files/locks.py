"""One process at a time in a folder; a process that ends in any way, killed too, leaves it free."""

from __future__ import annotations

import datetime
import json
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from calm_pde.errors import FileError, warn

LOCK = ".lock"
_FAR = 2**20  # Windows lets no one read what is locked, so there a byte behind the holder's name is


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Nobody else who asks gets the folder within it; who comes second is told who has it.

    The operating system holds the lock as long as the file FOLDER/.lock is open here, so that a kill frees it. The file goes
    with the lock; one that a kill left behind is taken over. Of the processes of torchrun the first holds for all.
    """
    if os.environ.get("RANK", "0") != "0":
        yield
        return
    path = folder / LOCK
    handle = _opened(path)
    try:
        with suppress(OSError):  # a full disk: the lock holds without a name in it
            os.ftruncate(handle, 0)
            os.write(handle, _own_name())
        yield
    finally:
        with suppress(OSError):  # the folder may be gone by now
            path.unlink()
        os.close(handle)


def _opened(path: Path) -> int:
    """The lock file, open and locked; never one that its last holder has just removed."""
    while True:
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise FileError(path.parent, f"cannot be written: {error}", fix="Name a folder that you may write to.") from error
        try:
            _lock(handle)
        except (BlockingIOError, PermissionError) as error:
            problem = f"is in use by {_name(os.read(handle, 1000))}"
            os.close(handle)
            raise FileError(path.parent, problem, fix="Wait until it ends, stop it, or name another place.") from error
        except OSError as error:
            warn(f"{path.parent}: its disk knows no locks ({error}); start no second job in it.")
            return handle
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, _FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _own_name() -> bytes:
    now = f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"
    return json.dumps({"pid": os.getpid(), "host": platform.node(), "since": now}).encode()


def _name(content: bytes) -> str:
    """In words, of what a holder wrote; it may not have come to it yet."""
    try:
        found = json.loads(content)
        return f"process {found['pid']} on {found['host']} since {found['since']}"
    except (ValueError, LookupError, TypeError):
        return "another process"
