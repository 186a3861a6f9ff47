"""Folders of tensors and JSON with a manifest of SHA-256 sums: written whole or not at all, verified before use, never run.

A folder is written under a temporary name, every file synced, then renamed. Reading verifies every byte first and raises one
kind of error, which names file and reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch

from calm_pde.errors import FileError
from calm_pde.files.atomic import replacing, synced
from calm_pde.types import Tensor

MANIFEST = "manifest.json"


def write_folder(path: Path, tensors: dict[str, dict[str, Tensor]], documents: dict[str, dict[str, Any]]) -> None:
    """A folder with NAME.safetensors and NAME.json files; one that is there already is replaced."""
    contents = {f"{name}.safetensors": safetensors.torch.save(_contiguous(value)) for name, value in tensors.items()}
    contents |= {f"{name}.json": json.dumps(value, indent=1).encode() for name, value in documents.items()}
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    part, old = path.with_name(f".{path.name}.part"), _set_aside(path)
    placed = False
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        recover(path)
        for stale in (part, old):
            shutil.rmtree(stale, ignore_errors=True)
        part.mkdir()
        for name, content in (contents | {MANIFEST: json.dumps(sums, indent=1).encode()}).items():
            write_file(part / name, content)
        synced(part)
        if path.exists():
            os.rename(path, old)
        os.rename(part, path)
        placed = True
        synced(path.parent)
    except OSError as error:
        with suppress(OSError):  # a disk that refuses this too leaves the new folder, which is whole
            if placed:
                os.rename(path, part)
        recover(path)
        shutil.rmtree(part, ignore_errors=True)
        raise FileError(path, f"cannot be written: {error}", fix="What was saved before is untouched.") from error
    shutil.rmtree(old, ignore_errors=True)


def recover(path: Path) -> None:
    """Put back the folder that a kill between the two renames of a replacement left aside."""
    old = _set_aside(path)
    with suppress(OSError):  # another process may be first, or the disk may be read-only
        if old.is_dir() and not path.exists():
            os.rename(old, path)


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(path, f"cannot be made: {error}", fix="Name a folder that you may write to.") from error


def write_file(path: Path, content: bytes, *, append: bool = False, sync: bool = True) -> None:
    """Write or append, and wait until it is on the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC), 0o644)
    try:
        done = 0
        while done < len(content):  # a write may take only a part, as on a disk that is almost full
            done += os.write(handle, content[done:])
        if sync:
            os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, content: bytes) -> None:
    """Put a small file in place of the one that is there, at once."""
    with replacing(path) as part:
        write_file(part, content, sync=False)


class Folder:
    """A folder whose every file has been verified; nothing in it is believed before."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_dir():
            raise FileError(path, "there is no such folder")
        sums = self._parsed(MANIFEST, self._bytes(MANIFEST))
        self._contents: dict[str, bytes] = {}
        for name, wanted in sums.items():
            if not isinstance(wanted, str) or Path(name).name != name or "\0" in name:
                raise FileError(path / MANIFEST, f"is damaged at {name!r}")
            content = self._bytes(name)
            if hashlib.sha256(content).hexdigest() != wanted:
                raise FileError(path / name, "is not what was written: its SHA-256 differs from the manifest's")
            self._contents[name] = content

    def document(self, name: str) -> dict[str, Any]:
        return self._parsed(f"{name}.json", self._content(f"{name}.json"))

    def tensors(self, name: str) -> dict[str, Tensor]:
        file = f"{name}.safetensors"
        try:
            return safetensors.torch.load(self._content(file))
        except (safetensors.SafetensorError, ValueError, RuntimeError, KeyError) as error:
            raise FileError(self.path / file, f"does not hold tensors ({error})") from error

    def _content(self, name: str) -> bytes:
        if name not in self._contents:
            raise FileError(self.path / name, "is not in the manifest")
        return self._contents[name]

    def _bytes(self, name: str) -> bytes:
        try:
            if (self.path / name).exists() and not (self.path / name).is_file():
                raise FileError(self.path / name, "is not a file")
            return (self.path / name).read_bytes()
        except (OSError, UnicodeEncodeError) as error:
            raise FileError(self.path / name, f"cannot be read: {error}") from error

    def _parsed(self, name: str, content: bytes) -> dict[str, Any]:
        try:
            found = json.loads(content)
        except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, or a number of too many digits
            raise FileError(self.path / name, f"is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise FileError(self.path / name, "is not a JSON object")
        return found


def _set_aside(path: Path) -> Path:
    """Where a folder waits while another takes its place."""
    return path.with_name(f".{path.name}.old")


def _contiguous(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of their own, as safetensors wants them: no two may share memory."""
    return {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
