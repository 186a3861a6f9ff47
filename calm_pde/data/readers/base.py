"""What a reader of published files is, and what all readers share: files at the door, splits, provenance."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import tyro
from pydantic import PositiveInt

from calm_pde.config import Config
from calm_pde.errors import CalmError, FileError, InputError
from calm_pde.records.trajectory import SPLITS, Source, Split

DOWNLOAD_AGAIN = "The download may be incomplete: compare its size with the published one, and fetch it again."

_SIGNATURES = {
    b"\x89HDF\r\n\x1a\n": "an HDF5 file",
    b"\x93NUMPY": "a .npy array",
    b"PK\x03\x04": "a zip archive",
    b"\x1f\x8b": "a gzip archive",
    b"\x89PNG": "a PNG image",
    b"%PDF": "a PDF document",
    b"MATLAB": "a MATLAB file",
    b"version https://git-lfs": "a Git LFS pointer, not the file itself",
    b"<": "an HTML or XML page, as servers send instead of a file",
}


class Reader(Config, ABC):
    """One kind of file; fields of a subclass are the options of `calm convert`, with the paper's choices as defaults."""

    path: tyro.conf.Positional[Path]
    """The published file, or the folder that holds its files."""

    endings: ClassVar[tuple[str, ...]] = ()
    """How names of its files end, or of the files in its folder, where they tell the kind."""

    @abstractmethod
    def source(self) -> Source:
        """The description at once, the trajectories lazily, one in memory at a time."""

    def surveyed(self, progress: Callable[[int, int], None]) -> Source:
        """As `source`; a reader that must look into many files first tells how many it has looked into, and of how many."""
        return self.source()

    @classmethod
    def takes(cls, path: Path) -> bool:
        """Whether a file, or the files of a folder, look by their names as if they were of this kind."""
        names = [*path.glob("*"), *path.glob("*/*")] if path.is_dir() else [path]
        return any(name.suffix.lower() in cls.endings for name in names)


class PublishedReader(Reader):
    """A reader of files whose splits are published with them, or in the paper."""

    samples: PositiveInt | None = None
    """Take at most this many samples of each split; all by default."""

    def chosen(self, splits: Sequence[Split | None]) -> list[tuple[int, Split]]:
        """Index and split of the samples to read, at most `samples` of each split; None is in no split."""
        taken: dict[Split, int] = dict.fromkeys(SPLITS, 0)
        picked = []
        for index, split in enumerate(splits):
            if split is not None and (self.samples is None or taken[split] < self.samples):
                taken[split] += 1
                picked.append((index, split))
        return picked

    def provenance(self, **facts: Any) -> dict[str, Any]:
        """Which file was read how, and what is known of it besides."""
        options = self.model_dump(mode="json", exclude={"path"})
        return {"reader": type(self).__name__, "file": self.path.name, "options": options, **facts}


def whole(split: Split, count: int) -> list[Split | None]:
    """One split for as many samples."""
    return [split] * count


def in_order(paths: Iterable[Path]) -> list[Path]:
    """By name, run_2 before run_10."""

    def key(path: Path) -> list[tuple[int, int, str]]:
        parts = re.split(r"(\d+)", path.name)
        return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part]

    return sorted(paths, key=key)


def existing(path: Path, fix: str = "Check the path; a download may still be running.") -> Path:
    if not path.exists():
        raise FileError(path, "there is no such file or folder", fix=fix)
    return path


def existing_file(path: Path) -> Path:
    if not existing(path).is_file():
        raise FileError(path, "is a folder, expected a file", fix="Give the published file itself.")
    return path


def existing_folder(path: Path, holds: str) -> Path:
    if not existing(path).is_dir():
        raise FileError(path, "is a file, expected a folder", fix=f"Give the folder that holds {holds}.")
    return path


def looks_like(path: Path) -> str:
    """What the first bytes of a file tell of it."""
    with damage_named(path), path.open("rb") as file:
        head = file.read(256)
    if not head:
        return "an empty file"
    for signature, kind in _SIGNATURES.items():
        if head.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(signature) or head.startswith(signature):
            return kind
    return "plain text" if all(32 <= octet < 127 or octet in b"\r\n\t" for octet in head) else "a file of unknown kind"


@contextmanager
def damage_named(path: Path, part: str = "") -> Iterator[None]:
    """Whatever a library raises about a damaged file becomes a `FileError` that names the file and the part of it."""
    try:
        yield
    except CalmError:
        raise
    except Exception as error:  # libraries raise anything from OSError to IndexError here; around single calls only
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise FileError(path, f"cannot be read ({reason})", part=part, fix=DOWNLOAD_AGAIN) from None


def check_parts(path: Path, count: int, *, test: int, train: int = 1) -> None:
    """Both parts must fit into the samples of the file without overlap."""
    if train + test > count:
        raise InputError(
            "train, test",
            expected=f"at most the {count} samples of {path.name} in both parts together",
            got=f"{train} to train and {test} to test",
            fix="Give smaller parts, or the complete file.",
        )
