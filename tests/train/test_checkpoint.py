"""Damaged folders are never believed: no silent wrong number, no crash, one kind of error, and no code is ever run.

`python -m tests.train.test_checkpoint CHECKPOINTS SURROGATE SCRATCH FIRST LAST` tries mutants in a process of its own, one line
each: number, kind, place, then `error MESSAGE`, `harmless` (all is as it was) or `silent`.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calm_pde.errors import FileError
from calm_pde.files.folders import MANIFEST, Folder, write_folder
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train import checkpoint
from calm_pde.train.checkpoint import Checkpoint, Position, load, load_newest, restore_random, save, saved
from calm_pde.train.record import Record, read_record
from tests.damage import DAMAGES, damaged
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

KINDS = (*DAMAGES, "swap", "missing", "rename", "empty")


def damage(folder: Path, other: Path, kind: str, draw: np.random.Generator) -> str:
    """Damage one file of a folder, or its name; what was damaged."""
    names = sorted(path.name for path in folder.iterdir())
    target = folder / names[int(draw.integers(len(names)))]
    if kind in DAMAGES:
        target.write_bytes(damaged(target.read_bytes(), kind, draw, most=65))
    elif kind == "empty":
        target.write_bytes(b"")
    elif kind == "swap":
        target.write_bytes((other / target.name).read_bytes())
    elif kind == "missing":
        target.unlink()
    elif kind == "rename":
        later = int(draw.integers(1, 9))
        folder.rename(folder.with_name(f"step_{int(folder.name[-9:]) + later:09d}"))
        return "the folder"
    return target.name


def content(folder: Path) -> list[Any]:
    """Everything that a checkpoint gives, for comparison."""
    found = load(folder)
    tensors = [found.weights, found.optimizer, found.best, found.average, Folder(folder).tensors("random")]
    flat = [{name: value.numpy().tobytes() for name, value in some.items()} for some in tensors]
    return [found.position, found.settings, Folder(folder).document("state"), *flat]


def answers(folder: Path) -> list[Any]:
    found = Surrogate.load(folder)
    return [found.card, {name: value.numpy().tobytes() for name, value in found.model.state_dict().items()}]


@cache
def of_source(reading: Callable[[Path], Any], source: Path) -> Any:
    return reading(source)


def try_checkpoints(source: Path, scratch: Path, kind: str, draw: np.random.Generator) -> str:
    """Damage the newest; it must be named, and the one before it used."""
    shutil.copytree(source, scratch)
    before, newest = saved(scratch)
    wanted, older = of_source(content, saved(source)[1]), of_source(load, saved(source)[0])
    place = damage(newest, before, kind, draw)
    damaged = saved(scratch)[-1]
    try:
        return f"{place} {'harmless' if content(damaged) == wanted else 'silent'}"
    except FileError as error:
        found = load_newest(scratch)
        same = found is not None and found[0].position == older.position and len(found[1]) == 1
        named = str(damaged) in str(error) and str(found[1][0] if found else "") == str(error)
        return f"{place} {f'error {error}' if same and named else 'silent: the one before is not used'}"


def try_surrogate(source: Path, scratch: Path, kind: str, draw: np.random.Generator) -> str:
    shutil.copytree(source, scratch)
    other = scratch.with_name("other_surrogate")
    place = damage(scratch, other, kind, draw)
    try:
        return f"{place} {'harmless' if answers(scratch) == of_source(answers, source) else 'silent'}"
    except FileError as error:
        return f"{place} {f'error {error}' if str(scratch) in str(error) else 'silent: unnamed'}"


def main() -> None:
    checkpoints, surrogate, scratch = map(Path, sys.argv[1:4])
    other = Surrogate.load(surrogate)
    for parameter in other.model.parameters():
        parameter.data.mul_(1.5)
    other.save(scratch / "other_surrogate")
    for number in range(*map(int, sys.argv[4:6])):
        draw = np.random.default_rng(number)
        kind, copy = KINDS[number // 2 % len(KINDS)], scratch / "copy"
        if number % 2 == 0 or kind == "rename":  # a surrogate may have any name
            outcome = try_checkpoints(checkpoints, copy, kind, draw)
        else:
            outcome = try_surrogate(surrogate, copy, kind, draw)
        shutil.rmtree(copy)
        print(number, kind, outcome.replace("\n", " "), flush=True)


def assert_refused(tmp_path: Path, first: int, last: int) -> None:
    run = runs.finished()
    sources = [str(run / "checkpoints"), str(run / "surrogate"), str(tmp_path)]
    command = [sys.executable, "-m", "tests.train.test_checkpoint", *sources, str(first), str(last)]
    child = subprocess.run(command, cwd=runs.ROOT, capture_output=True, text=True, check=False)
    lines = child.stdout.splitlines()
    assert child.returncode == 0, child.stderr
    assert len(lines) == last - first
    assert [line for line in lines if " silent" in line] == []
    harmless = [line for line in lines if line.endswith(" harmless")]
    # A file that did not change between two saves may be swapped, and a block may fall on what it was.
    assert [line for line in harmless if line.split()[1] not in ("swap", "block", "zeros") and MANIFEST not in line] == []
    assert sum(" error " in line for line in lines) > 0.9 * len(lines)


def test_mutants(tmp_path):
    assert_refused(tmp_path, 0, 200)


@pytest.mark.slow
def test_two_thousand_mutants(tmp_path):
    assert_refused(tmp_path, 200, 2200)


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.marker),)


def payloads(folder: Path) -> list[bytes]:
    marker = folder / "executed"
    torch.save({"weights": Payload(marker)}, folder / "payload.pt")
    found = [pickle.dumps(Payload(marker), protocol) for protocol in (0, 2, 5)]
    return [*found, (folder / "payload.pt").read_bytes()]


@pytest.fixture
def run(tmp_path) -> Path:
    shutil.copytree(runs.finished(), tmp_path / "run")
    return tmp_path / "run"


def load_all(folder: Path) -> None:
    load(folder)
    restore_random(folder)


def resealed(folder: Path) -> None:
    """A manifest that fits what the files hold now."""
    names = [path.name for path in folder.iterdir() if path.name != MANIFEST]
    sums = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    (folder / MANIFEST).write_text(json.dumps(sums))


@pytest.mark.parametrize("sealed", [False, True])
def test_payloads_are_never_run(run, tmp_path, sealed):
    for content in payloads(tmp_path):
        for folder in (saved(run / "checkpoints")[-1], run / "surrogate"):
            for path in sorted(folder.iterdir()):
                good = {file: file.read_bytes() for file in folder.iterdir()}
                path.write_bytes(content)
                if sealed and path.name != MANIFEST:
                    resealed(folder)
                with pytest.raises(FileError, match=path.name):
                    Surrogate.load(folder) if folder.name == "surrogate" else load_all(folder)
                for file, old in good.items():
                    file.write_bytes(old)
        (run / "checkpoints" / "latest").write_bytes(content)
        (run / "config.json").write_bytes(content)
        (run / "metrics.jsonl").write_bytes(content + b"\n")
        assert load_newest(run / "checkpoints") is not None
        with pytest.raises(FileError, match=r"metrics\.jsonl, line 1: is damaged"):
            runs.trainer(run)
    assert not (tmp_path / "executed").exists()
    pickle.loads(payloads(tmp_path)[0])
    assert (tmp_path / "executed").exists()  # the payload does what it should, where it is run


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"position": 3, "settings": {}},
        {"position": {"step": "x"}, "settings": {}},
        {"position": {"steps": 3}, "settings": {}},
        {"position": {"step": 3}, "settings": {}, "random": {"python": 1}},
    ],
)
def test_whole_folders_with_foreign_states(tmp_path, state):
    """Sums that fit do not make a checkpoint."""
    folder = tmp_path / "step_000000003"
    write_folder(folder, {name: {} for name in ("weights", "optimizer", "best", "average", "random")}, {"state": state})
    with pytest.raises(FileError, match="step_000000003"):
        load_all(folder)


HOSTILE = ['{"a\\u0000b": "0"}', '{"\\ud800": "0"}', '{"../x": "0"}', '{"": "0"}', '{"..": "0"}', '{"a": 1}', "[]"]


@pytest.mark.parametrize("manifest", [*HOSTILE, "[" * 10**5, "1" * 5000], ids=range(len(HOSTILE) + 2))
def test_hostile_manifests(tmp_path, manifest):
    (tmp_path / MANIFEST).write_text(manifest)
    with pytest.raises(FileError, match=str(tmp_path)):
        Folder(tmp_path)


def test_a_pipe_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / MANIFEST)
    with pytest.raises(FileError, match="is not a file"):
        Folder(tmp_path)


def small(step: int) -> Checkpoint:
    tensors = {"a": torch.full((3,), float(step))}
    return Checkpoint(Position(step=step), {"b": 1}, tensors, tensors, {}, {}, {})


def steps(folder: Path) -> list[int]:
    return [int(path.name[-9:]) for path in saved(folder)]


def test_the_newest_are_kept(tmp_path):
    for step in (1, 2, 5, 9):
        save(tmp_path, small(step), keep=2)
    assert steps(tmp_path) == [5, 9]
    assert (tmp_path / "latest").read_text() == "step_000000009"


@pytest.mark.parametrize("keep", [1, 2])
def test_a_damaged_newer_one_does_not_push_out_good_ones(tmp_path, keep):
    save(tmp_path, small(5), keep=2)
    save(tmp_path, small(9), keep=2)
    (tmp_path / "step_000000009" / "weights.safetensors").write_bytes(b"")
    save(tmp_path, small(7), keep)
    assert steps(tmp_path) == [5, 7][-keep:]
    found = load_newest(tmp_path)
    assert found is not None
    assert (found[0].position.step, found[1]) == (7, [])


def test_what_kills_leave_is_cleaned_and_copies_are_not(tmp_path):
    for name in (".step_000000004.part", ".step_000000004.old", "step_000000004_mine"):
        (tmp_path / name).mkdir()
    save(tmp_path, small(5), keep=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "step_000000004_mine", "step_000000005"]


def test_a_kill_between_two_renames_loses_nothing(tmp_path):
    save(tmp_path, small(5), keep=1)
    (tmp_path / "step_000000005").rename(tmp_path / ".step_000000005.old")
    found = load_newest(tmp_path)
    assert found is not None
    assert found[0].position.step == 5


def test_no_checkpoint_can_be_read(tmp_path):
    assert load_newest(tmp_path / "none") is None
    save(tmp_path, small(5), keep=1)
    (tmp_path / "step_000000005" / "state.json").unlink()
    with pytest.raises(FileError, match=r"no checkpoint can be read; the newest: .*state\.json: cannot be read"):
        load_newest(tmp_path)


def test_random_states_come_back(tmp_path, monkeypatch):
    own = random.Random(3)  # the type checks of the test run draw from the module's
    monkeypatch.setattr(checkpoint, "random", own)
    save(tmp_path, small(5), keep=1)
    wanted = own.random(), np.random.normal(), torch.rand(3).tolist()  # noqa: NPY002
    restore_random(tmp_path / "step_000000005")
    assert (own.random(), np.random.normal(), torch.rand(3).tolist()) == wanted  # noqa: NPY002


def test_the_record_is_cut_back_to_the_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    record = Record(path, 0)
    for step in (1, 2, 3):
        record.add(step=step, loss=step / 3)
    with path.open("ab") as file:
        file.write(b'{"step": 4, "lo')  # killed in a write
    Record(path, 2).add(step=3, loss=float("nan"))
    assert read_record(path) == [{"step": 1, "loss": 1 / 3}, {"step": 2, "loss": 2 / 3}, {"step": 3, "loss": None}]


if __name__ == "__main__":
    main()
