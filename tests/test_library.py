"""Every verb is a function: docs/library.md runs as it is written, says nothing, and what comes back shows itself."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

import calm_pde as cp
from calm_pde.bench.measured.measure import Measured
from calm_pde.bench.runs import campaign
from calm_pde.errors import CalmError, InputError
from calm_pde.solvers import Burgers
from calm_pde.train.config import load_recipe
from tests.train.runs import ROOT, single_thread

DOCS = (ROOT / "docs" / "library.md").read_text()
VERBS = ("compare", "convert", "evaluate", "fit", "generate", "predict", "recipe_for", "write_report")


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> Iterator[tuple[Path, dict, str]]:
    """The folder, the names and the output of all examples, one after the other."""
    folder = tmp_path_factory.mktemp("library")
    scope: dict = {}
    said = io.StringIO()
    measured = Measured(inference_seconds=0.5, inference_bytes=1, step_bytes=1, batch=2)  # else in processes of its own
    with pytest.MonkeyPatch.context() as patch, single_thread():
        patch.chdir(folder)
        patch.setattr(campaign, "measured", lambda _: measured)
        patch.setattr(sys, "stdout", said)
        patch.setattr(sys, "stderr", said)
        for example in re.findall(r"```python\n(.*?)```", DOCS, flags=re.DOTALL):
            exec(example.replace("samples=20, ", "samples=20, processes=1, "), scope)
        yield folder, scope, said.getvalue()


def test_library_calls_are_silent(told):
    assert told[2] == ""


def test_data_files_show_themselves(told):
    _, scope, _ = told
    assert repr(scope["file"]) == (
        "DataFile(burgers.h5: burgers, 20 trajectories (16 train, 2 validation, 2 test),\n"
        "         u at 64 points in 1-D, 6 frames from 0 to 0.1)"
    )
    assert "temperature [K] at 50 points in 2-D, 4 frames" in repr(scope["mine"])
    assert repr(cp.Dataset(scope["file"])) == "Dataset(train of burgers.h5: 16 trajectories of 6 frames, u)"


def test_a_run_knows_what_it_learned(told):
    _, scope, _ = told
    run, history = scope["run"], scope["run"].history
    assert [line["epoch"] for line in history] == [1, 2]
    assert len(run.losses) == 2
    assert repr(run) == (
        f"Run(runs/burgers: 2 epochs, loss {history[-1]['mean_loss']:.4f}, "
        f"best validation error {history[-1]['validation']:.4f} after epoch 2)"
    )
    assert re.fullmatch(
        r"Surrogate\(calm of [\d,]+ parameters; u in 1-D; 2 frames of 0.04 each; validation error \d\.\d{4}\)",
        repr(run.surrogate),
    )
    assert scope["u"].shape == (2, 64, 1)


def test_an_evaluation_says_its_error(told):
    folder, scope, _ = told
    found = scope["found"]
    words = f"relative L2 {found.relative_l2.mean:.4f} ± {found.relative_l2.std:.4f}, persistence"
    assert repr(found) == str(found)
    assert repr(found).startswith("Evaluation(burgers, test: 2 trajectories, 2 frames; " + words)
    again = cp.evaluate(scope["run"].surrogate, folder / "burgers.h5", split="test")
    assert again.relative_l2 == found.relative_l2


def test_answers_and_report_are_files(told):
    folder, scope, _ = told
    assert len(scope["answers"]) == 2
    report = scope["report"]
    assert Path(report).name == "report.html"
    assert report.size == (folder / "report.html").stat().st_size
    assert (report.held, report.total, report.figures) == (2, 2, ())
    assert repr(report) == f"Report(report.html: {report.size / 1e6:.1f} MB, 2 of 2 trajectories)"
    assert report.evaluation.relative_l2 == scope["found"].relative_l2


def test_a_comparison_shows_its_errors(told):
    folder, scope, _ = told
    found = scope["both"]
    row = next(row for row in found.rows["navier_stokes"] if row.model == "fno")
    assert f"FNO {row.error:.4f}, 6 not run yet" in repr(found)
    assert found.table == (folder / "bench" / "table.md").read_text()


def test_a_console_hears_what_the_command_says(tmp_path):
    console = Console(record=True, file=io.StringIO())
    recipe = load_recipe("burgers_1d_small")
    made = {"samples": 10, "problem": {"points": 64, "frames": 5, "duration": 0.02}}
    changes = {"data": {"file": tmp_path / "data" / "b.h5", "generate": made}, "train": {"epochs": 1}}
    with single_thread():
        run = cp.fit(recipe, tmp_path / "run", changes=changes, console=console)
    said = console.export_text()
    assert "is missing; making it: calm generate burgers --samples 10" in said
    assert "the surrogate is in" in said
    with pytest.raises(CalmError, match="holds a run already"):
        cp.fit(recipe, run, changes=changes, resume="never")


def test_wrong_names_and_lost_options_are_told(tmp_path):
    with pytest.raises(InputError, match=r"problem: .* Did you mean 'burgers'"):
        cp.generate("burger", tmp_path / "b.h5")
    with pytest.raises(InputError, match="points: expected settings beside the name of a problem"):
        cp.generate(Burgers(), tmp_path / "b.h5", points=3)
    with pytest.raises(InputError, match=r"reader: .* Did you mean 'arrays'"):
        cp.convert("array", tmp_path / "b.h5")
    assert not list(tmp_path.iterdir())


def test_a_plain_script_may_generate(tmp_path):
    """Without `if __name__ == "__main__"`, since the processes that solve do not run the script again."""
    script = tmp_path / "script.py"
    call = "cp.generate('burgers', 'b.h5', samples=17, processes=2, points=64, frames=3, duration=0.02)"
    script.write_text(f"import calm_pde as cp\nprint('begun')\nprint(len({call}), __file__)\n")
    environment = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == (f"begun\n17 {script}\n", "")


@pytest.mark.parametrize("name", VERBS)
def test_every_function_is_told_of(name):
    assert name in cp.__all__
    assert f"cp.{name}(" in DOCS
    assert (getattr(cp, name).__doc__ or "").split("\n")[0].endswith(".")
    assert not (Path(cp.__file__).parent / name).exists()
