"""A folder belongs to one process at a time, as real processes find it; a killed one leaves it free."""

from __future__ import annotations

import os
import platform
import re
import signal
from pathlib import Path

import pytest

from calm_pde.errors import FileError
from calm_pde.files.locks import LOCK, held
from tests.files.holders import holder


def test_the_second_is_refused_with_the_first_ones_name_and_a_kill_frees_the_folder(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        since = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"
        named = f"{tmp_path}: is in use by process {process.pid} on {platform.node()} since {since}."
        with pytest.raises(FileError, match=re.escape(named).replace(re.escape(since), since)), held(tmp_path):
            pass
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert (tmp_path / LOCK).exists()
        with held(tmp_path):
            assert f'"pid": {os.getpid()}' in (tmp_path / LOCK).read_text()
    assert not list(tmp_path.iterdir())


def test_an_error_within_frees_it_and_a_folder_that_goes_within_is_no_error(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    with pytest.raises(KeyboardInterrupt), held(folder):
        raise KeyboardInterrupt
    with held(folder):
        (folder / LOCK).unlink()
        folder.rmdir()
    assert not folder.exists()


def test_a_holder_without_a_name_yet_is_refused_too(tmp_path: Path) -> None:
    with held(tmp_path):
        (tmp_path / LOCK).write_text("")
        with pytest.raises(FileError, match="in use by another process"), held(tmp_path):
            pass


def test_of_many_processes_on_one_job_only_the_first_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held(tmp_path):
        monkeypatch.setenv("RANK", "1")
        with held(tmp_path):
            pass
        assert (tmp_path / LOCK).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="none: cannot be written"), held(tmp_path / "none"):
        pass
