"""A disk that is full or read-only at any one call, or from then on: a clear error, and what was saved before is whole."""

from __future__ import annotations

import errno
import os
import resource
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import yaml

from calm_pde.errors import FileError
from calm_pde.files.atomic import replacing
from calm_pde.surrogate.surrogate import Surrogate
from calm_pde.train.checkpoint import Checkpoint, Position, load, load_newest, save, saved
from calm_pde.train.record import Record, read_record
from tests.train import runs
from tests.train.runs import one_thread  # noqa: F401

CODES = [errno.ENOSPC, errno.EROFS]


def checkpoint(step: int) -> Checkpoint:
    tensors = {"a": torch.full((3,), float(step))}
    return Checkpoint(Position(step=step), {}, tensors, tensors, tensors, {}, {})


def refuse(code: int) -> Callable[[], None]:
    def action() -> None:
        raise OSError(code, os.strerror(code))

    return action


def at_every_call(job: Callable[[int], None], check: Callable[[int, bool], None], code: int, stays: bool) -> int:
    """Do a job again and again, with one call of each refused, until one passes untouched; how many calls it takes."""
    for at in range(1000):
        said = ""
        with runs.Tripwire(at, refuse(code), stays=stays) as wire:
            try:
                job(at)
            except FileError as error:
                said = str(error)
        assert not said or (os.strerror(code) in said and "cannot be written" in said)
        check(at, bool(said))
        if not wire.tripped:
            return at
    raise RuntimeError("a save takes more than 1000 calls")


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
@pytest.mark.parametrize("again", [False, True], ids=["new step", "same step"])
def test_a_save_that_fails_keeps_the_one_before(tmp_path, code, stays, again):
    failures = []

    def fresh(at: int) -> Path:
        return tmp_path / str(at)

    def job(at: int) -> None:
        save(fresh(at), checkpoint(1 if again else 2), keep=1)

    def check(at: int, failed: bool) -> None:
        found = load_newest(fresh(at))
        assert found is not None
        assert found[1] == []
        failures.append(failed)
        latest = (fresh(at) / "latest").read_text()
        assert latest in [path.name for path in saved(fresh(at))]
        if not again and found[0].position.step == 1:
            assert failed
            assert latest == "step_000000001"
        if failed and not again:
            assert load(fresh(at) / "step_000000001").position.step == 1
        if not failed:
            assert found[0].position.step == (1 if again else 2)
        if at < 60:
            save(fresh(at + 1), checkpoint(1), keep=1)

    save(fresh(0), checkpoint(1), keep=1)
    calls = at_every_call(job, check, code, stays)
    assert calls >= 24  # 8 files, 2 folders, 2 renames and their syncs
    assert sum(failures) >= calls - 1  # only the making of a folder that is there may fail unseen


def test_each_file_is_synced_before_the_rename_and_the_folder_after(tmp_path, monkeypatch):
    """Durable after power loss: the order of calls, by name."""
    calls: list[str] = []
    for name in ("fsync", "rename", "replace"):
        real = getattr(os, name)

        def watched(*arguments, name=name, real=real):
            target = os.readlink(f"/proc/self/fd/{arguments[0]}") if name == "fsync" else str(arguments[1])
            calls.append(f"{name} {Path(target).name}")
            return real(*arguments)

        monkeypatch.setattr(os, name, watched)
    save(tmp_path / "checkpoints", checkpoint(1), keep=1)
    files = [f"{name}.safetensors" for name in ("weights", "optimizer", "best", "average", "queries", "random")]
    assert calls == [
        *(f"fsync {name}" for name in [*files, "state.json", "manifest.json", ".step_000000001.part"]),
        "rename step_000000001",
        "fsync checkpoints",
        "fsync .latest.part",
        "replace latest",
        "fsync checkpoints",
    ]


@pytest.mark.parametrize("stays", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_an_export_that_fails_keeps_the_surrogate(tmp_path, code, stays):
    surrogate = Surrogate.load(runs.finished())
    path = tmp_path / "surrogate"
    surrogate.save(path)
    weights = {name: value.clone() for name, value in surrogate.model.state_dict().items()}
    changed = Surrogate.load(path)
    for parameter in changed.model.parameters():
        parameter.data.mul_(2)

    def check(at: int, failed: bool) -> None:
        for aside in tmp_path.glob(".surrogate.old"):  # a disk that lets nothing be renamed back
            assert stays
            if not path.exists():
                aside.rename(path)
        found = dict(Surrogate.load(path).model.state_dict())
        new = not torch.equal(next(iter(found.values())), next(iter(weights.values())))
        runs.assert_same_tensors(found, dict((changed if new else surrogate).model.state_dict()))
        assert new is not failed or stays
        surrogate.save(path)

    assert at_every_call(lambda at: changed.save(path), check, code, stays) >= 10


@pytest.mark.parametrize("code", CODES, ids=errno.errorcode.get)
def test_the_record(tmp_path, code):
    path = tmp_path / "metrics.jsonl"
    record = Record(path, 0)
    record.add(step=1, loss=0.5)
    with runs.Tripwire(0, refuse(code)), pytest.raises(FileError, match=r"metrics\.jsonl: cannot be written.*untouched"):
        record.add(step=2, loss=0.25)
    with runs.Tripwire(0, refuse(code)), pytest.raises(FileError, match=r"metrics\.jsonl: cannot be written"):
        record.sync()
    assert read_record(path) == [{"step": 1, "loss": 0.5}]
    for at in range(4):
        with runs.Tripwire(at, refuse(code), stays=True), pytest.raises(FileError, match="cannot be written"):
            Record(path, 1)
        assert read_record(path) == [{"step": 1, "loss": 0.5}]


def test_a_write_that_takes_a_part_is_continued(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, content[:7]))
    record = Record(tmp_path / "metrics.jsonl", 0)
    record.add(step=1, loss=0.123456789)
    save(tmp_path / "checkpoints", checkpoint(1), keep=1)
    assert read_record(record.path) == [{"step": 1, "loss": 0.123456789}]
    assert load_newest(tmp_path / "checkpoints") is not None


def test_replacing_on_a_disk_that_lets_nothing_go(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("old")

    def refused(*_: object, **__: object) -> None:
        refuse(errno.EROFS)()

    monkeypatch.setattr(os, "replace", refused)
    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(FileError, match="cannot be written"), replacing(tmp_path / "a") as part:
        part.write_text("new")
    assert (tmp_path / "a").read_text() == "old"


def test_a_limit_on_the_size_of_files(tmp_path):
    """As a user meets it: a message, exit code 2, and the checkpoint before is the newest."""
    shutil.copytree(runs.finished(), tmp_path / "run")
    changed = runs.recipe(train={"epochs": 14})
    (tmp_path / "my.yaml").write_text(yaml.safe_dump(changed.model_dump(mode="json", exclude_unset=True)))
    limit = 150_000  # the weights fit, the optimizer's state does not

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    options = ("train", "my.yaml", "--out", "run", "--resume", "force")
    code, said = runs.ended(runs.start(tmp_path, *options, preexec_fn=limited))
    assert code == 2, said
    assert "step_000000056: cannot be written" in said
    assert os.strerror(errno.EFBIG) in said
    assert "Traceback" not in said
    found = load_newest(tmp_path / "run" / "checkpoints")
    assert found is not None
    assert (found[0].position.step, found[1]) == (52, [])
