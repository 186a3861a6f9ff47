"""Generation: the same seed gives the same content, over any number of processes, killed or not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from calm_pde.data.generate import generate
from calm_pde.errors import FileError, InputError
from calm_pde.records.trajectory import SPLITS, Trajectory
from calm_pde.solvers import Burgers
from tests.files.holders import holder

SMALL = Burgers(points=64, frames=3, duration=0.05)
COMMAND = ["burgers", "--points", "64", "--frames", "3", "--duration", "0.05", "--samples", "40", "--seed", "7"]


def test_same_seed_same_content_over_any_number_of_processes(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    one = generate(SMALL, tmp_path / "a.h5", samples=20, seed=3, processes=1)
    two = generate(SMALL, tmp_path / "b.h5", samples=20, seed=3, processes=2, progress=lambda *done: seen.append(done))
    other = generate(SMALL, tmp_path / "c.h5", samples=20, seed=4, processes=1)
    assert one.fingerprint == two.fingerprint != other.fingerprint
    assert seen[0] == (0, 20)
    assert seen[-1] == (20, 20)
    assert [len(one.indices(split)) for split in SPLITS] == [16, 2, 2]
    assert one.header.provenance["generate"]["seed"] == 3
    assert "versions" in one.header.provenance
    assert one.trajectory(0).seconds > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.h5", "b.h5", "c.h5"]


def test_a_trajectory_depends_on_its_own_number_alone(tmp_path: Path) -> None:
    few = generate(SMALL, tmp_path / "a.h5", samples=3, processes=1)
    many = generate(SMALL, tmp_path / "b.h5", samples=18, processes=1)
    for index in range(3):
        assert (few.trajectory(index).fields == many.trajectory(index).fields).all()


@pytest.mark.parametrize("kills", [3])
def test_killed_and_started_again_ends_with_the_same_fingerprint(kills: int, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole.h5", tmp_path / "broken.h5"
    calm = [sys.executable, "-m", "calm_pde", "generate", *COMMAND, "--out"]
    subprocess.run([*calm, str(whole)], check=True, capture_output=True)
    for attempt in range(kills):
        job = subprocess.Popen([*calm, str(broken)], stdout=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + 60
        folder = tmp_path / "broken.h5.parts"
        while len(list(folder.glob("0*.npz"))) <= 12 * attempt and job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
    subprocess.run([*calm, str(broken)], check=True, capture_output=True)
    from calm_pde.data.storage import DataFile

    assert DataFile(broken).fingerprint == DataFile(whole).fingerprint
    assert not folder.exists()


def test_other_settings_do_not_take_up_a_broken_job(tmp_path: Path) -> None:
    folder = tmp_path / "a.h5.parts"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    (folder / "000001.npz").write_bytes(b"")
    with pytest.raises(FileError, match="another, interrupted job"):
        generate(SMALL, tmp_path / "a.h5", samples=2)
    assert (folder / "000001.npz").exists()


def test_a_broken_job_without_a_finished_trajectory_is_in_nobodys_way(tmp_path: Path) -> None:
    folder = tmp_path / "a.h5.parts"
    folder.mkdir()
    (folder / "settings.json").write_text("{}")
    (folder / ".000001.npz.part").write_bytes(b"half")
    generate(SMALL, tmp_path / "a.h5", samples=2, processes=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


class Failing(Burgers):
    """Whose settings turn out to be impossible when it solves."""

    def solve(self, draws: Sequence[np.random.Generator]) -> Iterator[Trajectory]:
        raise InputError("points", expected="another number", got="this", fix="Choose another.")


@pytest.mark.parametrize(
    ("problem", "change", "message"),
    [
        (SMALL, {"processes": -1}, "processes: expected at least 1, got -1"),
        (SMALL, {"processes": 0}, "processes: expected at least 1, got 0"),
        (Failing(**SMALL.model_dump()), {"processes": 1}, "points: expected another number"),
    ],
)
def test_a_job_that_fails_at_once_leaves_nothing(problem: Burgers, change: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        generate(problem, tmp_path / "a.h5", samples=2, **change)
    assert not list(tmp_path.iterdir())


def test_a_job_that_fails_later_keeps_what_is_finished(tmp_path: Path) -> None:
    def stop(done: int, _: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        generate(SMALL, tmp_path / "a.h5", samples=40, processes=1, progress=stop)
    assert len(list((tmp_path / "a.h5.parts").glob("*.npz"))) == SMALL.together


def test_a_second_job_for_the_same_file_is_refused(tmp_path: Path) -> None:
    out, folder = tmp_path / "a.h5", tmp_path / "a.h5.parts"
    folder.mkdir()
    with holder(folder) as process, pytest.raises(FileError, match=f"parts: is in use by process {process.pid} on "):
        generate(SMALL, out, samples=2, processes=1)
    assert not out.exists()
    generate(SMALL, out, samples=2, processes=1)
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_wrong_turns_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="samples: expected at least 1"):
        generate(SMALL, tmp_path / "a.h5", samples=0)
    with pytest.raises(FileError, match="no such folder"):
        generate(SMALL, tmp_path / "none" / "a.h5", samples=1)
    with pytest.raises(FileError, match="is a folder, expected a file"):
        generate(SMALL, tmp_path, samples=1, overwrite=True)
    generate(SMALL, tmp_path / "a.h5", samples=1)
    with pytest.raises(FileError, match="exists already"):
        generate(SMALL, tmp_path / "a.h5", samples=1)
