"""Which samples a folder holds, and which files each consists of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from calm_pde.data.readers.base import existing, in_order
from calm_pde.data.readers.simulations.tables import SampleTable, read_samples
from calm_pde.errors import FileError

FRAMES = (".vtu", ".vtk", ".vtp", ".vti", ".vts", ".vtr", ".pvtu", ".pvtp", ".pvti", ".pvts", ".pvtr", ".vtm")
"""Endings of files that hold one frame."""

STEPS = (".pvd", ".series", ".vtkhdf", ".xdmf", ".xmf", ".exo", ".ex2", ".exii", ".e", ".case", ".cgns")
"""Endings of files that hold or list all frames of a sample."""

TABLE, SIGNALS = "samples.csv", "signals.csv"
_NUMBERED = re.compile(r"(?P<name>.*?)(?P<between>[_.\-]?)(?P<number>\d+)", re.DOTALL)


@dataclass(frozen=True)
class SampleFiles:
    """One sample: a file with all its frames or a case, or its frames file by file; and where its signals would stand."""

    name: str
    paths: tuple[Path, ...]
    numbers: tuple[int, ...] = ()
    """Of the frames, where each is a file."""
    signals: Path | None = None

    @property
    def place(self) -> Path:
        return self.paths[0]


def sample_files(root: Path, pattern: str = "") -> tuple[list[SampleFiles], SampleTable | None]:
    """The samples of a folder in the order of its table, or of their names; a single file is one sample.

    Args:
        pattern: of the files to look at, like *.vtu; empty for all that are known.
    """
    if existing(root).is_file():
        return [SampleFiles(root.stem, (root,), signals=root.with_name(f"{root.stem}_{SIGNALS}"))], None
    table = read_samples(root / TABLE) if (root / TABLE).is_file() else None
    here = grouped(root, pattern) if any(_known(root, pattern)) else {}
    named = table is not None and all(name in here for name in table.samples)
    if here and (named or any(len(one.paths) == 1 and one.place.suffix in STEPS for one in here.values())):
        found = here  # a list of frames may point into folders beside it
    else:
        inside = {
            folder.name: folder for folder in in_order(root.iterdir()) if folder.is_dir() and any(_known(folder, pattern))
        }
        found = {name: _only(folder, pattern) for name, folder in inside.items()} or here
    if not found:
        raise nothing(root, f"files ending in {', '.join((*FRAMES, *STEPS))}")
    return matched(root, found, table), table


def matched(root: Path, found: dict[str, SampleFiles], table: SampleTable | None) -> list[SampleFiles]:
    """The samples as the table orders them; it must name them all, and no others."""
    if table is None:
        return list(found.values())
    for name in table.samples:
        if name not in found:
            there = ", ".join(list(found)[:5])
            fix = f"There are {there}{' …' if len(found) > 5 else ''}; correct the name, or take out the row."
            raise FileError(root / TABLE, "is not there", part=f"sample {name!r}", fix=fix)
    if surplus := [name for name in found if name not in table.samples]:
        fix = "Give it a row, or take it out of the folder."
        raise FileError(root / TABLE, "has no row", part=f"sample {surplus[0]!r}", fix=fix)
    return [found[name] for name in table.samples]


def nothing(root: Path, wanted: str) -> FileError:
    fix = "Give a folder with one folder per sample, or one file with all frames per sample (docs/readers.md)."
    return FileError(root, f"holds no {wanted}", fix=fix)


def grouped(folder: Path, pattern: str = "") -> dict[str, SampleFiles]:
    """Samples that lie beside each other: one file with all frames each, or frames as name_0000.vtu, name_0001.vtu, …."""
    files = in_order(_known(folder, pattern))
    lists = [path for path in files if path.suffix in STEPS]
    if lists:
        return {_stem(path): SampleFiles(_stem(path), (path,), signals=folder / f"{_stem(path)}_{SIGNALS}") for path in lists}
    groups: dict[str, list[tuple[int, Path]]] = {}
    for path in files:
        found = _NUMBERED.fullmatch(path.stem)
        name, number = (found["name"], int(found["number"])) if found else (path.stem, 0)
        groups.setdefault(name or folder.name, []).append((number, path))
    return {name: _frames(name, frames, folder / f"{name}_{SIGNALS}") for name, frames in groups.items()}


def _numbered(paths: Sequence[Path]) -> list[tuple[int, Path]]:
    """The numbers of files that could hold all frames, and yet are alike but for a number; none where they are not."""
    found = [_NUMBERED.fullmatch(path.stem) for path in paths]
    if len({path.suffix for path in paths}) > 1 or len({one["name"] if one else "" for one in found}) > 1:
        return []
    return [(int(one["number"]), path) for one, path in zip(found, paths, strict=True) if one]


def _frames(name: str, frames: Sequence[tuple[int, Path]], signals: Path) -> SampleFiles:
    ordered = sorted(frames)
    numbers = tuple(number for number, _ in ordered)
    if len(set(numbers)) < len(numbers):
        twice = next(place for place in range(1, len(numbers)) if numbers[place] == numbers[place - 1])
        problem = f"has the number of {ordered[twice - 1][1].name}"
        raise FileError(ordered[twice][1], problem, fix="Choose the files by --pattern, like '*.vtu'.")
    return SampleFiles(name, tuple(path for _, path in ordered), numbers, signals)


def _only(folder: Path, pattern: str) -> SampleFiles:
    """The one sample of a folder."""
    found = list(grouped(folder, pattern).values())
    if len(found) > 1 and (frames := _numbered([one.place for one in found])):
        return _frames(folder.name, frames, folder / SIGNALS)
    if len(found) > 1:
        files = ", ".join(one.place.name for one in found[:3])
        fix = "Choose by --pattern, like '*.pvd', or give each sample a folder of its own."
        raise FileError(folder, f"holds several series: {files}{' …' if len(found) > 3 else ''}", fix=fix)
    return SampleFiles(folder.name, found[0].paths, found[0].numbers, folder / SIGNALS)


def _known(folder: Path, pattern: str) -> Iterable[Path]:
    for path in folder.glob(pattern or "*"):
        if path.suffix in (*FRAMES, *STEPS) and path.is_file():
            yield path


def _stem(path: Path) -> str:
    return Path(path.stem).stem if path.suffix == ".series" else path.stem
