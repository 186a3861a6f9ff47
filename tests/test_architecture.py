"""The worked examples of docs/architecture.md, laid over a copy of the package: they work with the files they name alone."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "calm_pde", tmp_path / "calm_pde", ignore=ignored)
    return tmp_path


def example(title: str) -> dict[str, str]:
    """The blocks of a section, by what their first line says."""
    section = PAGE.split(f"## How to add {title}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n# (.*?)\n(.*?)```", section, flags=re.DOTALL)
    assert blocks
    return dict(blocks)


def apply(package: Path, title: str) -> None:
    for place, code in example(title).items():
        assert len(code.splitlines()) <= 40
        file, _, registry = place.partition(", ")
        path = package / file
        if not registry:
            assert not path.exists()
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
            continue
        imported, line = code.strip("\n").split("\n\n")
        text = path.read_text()
        opened = re.search(rf"^{registry}: .* = {{$", text, flags=re.MULTILINE)
        assert opened is not None
        path.write_text(text[: opened.start()] + imported + "\n\n" + opened[0] + "\n" + line + text[opened.end() :])


def calm(package: Path, *arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(package), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    done = subprocess.run(
        [sys.executable, "-m", "calm_pde", *arguments],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_pde(package):
    apply(package, "a PDE")
    calm(
        package,
        "generate",
        "diffusion",
        "--samples",
        "20",
        "--conductivity",
        "0.02",
        "--out",
        "diffusion.h5",
        "--processes",
        "1",
    )
    assert "fields: temperature [K]" in calm(package, "check", "diffusion.h5")


def test_a_reader(package):
    apply(package, "a reader")
    folder = package / "experiments"
    folder.mkdir()
    places, times = np.linspace(0, 2, 9), np.linspace(0, 1, 5)
    for number in range(20):
        table = np.sin(number + places[None] + times[:, None])
        head = np.concatenate([[0.0], places])[None]
        np.savetxt(folder / f"{number:02}.txt", np.concatenate([head, np.concatenate([times[:, None], table], axis=1)]))
    calm(package, "convert", "probes", "experiments", "--out", "probes.h5", "--unit", "bar")
    assert "20 trajectories, 5 frames" in calm(package, "check", "probes.h5")


def test_a_model(package):
    apply(package, "a model")
    assert "drift" in calm(package, "models")
    recipe = "model: {kind: drift, preset: navier_stokes_2d_small}\n"
    recipe += f"data: {{file: {ROOT / 'examples' / 'sample.h5'}}}\ntrain: {{epochs: 2, batch_size: 4, feeding: truth}}\n"
    (package / "mine.yaml").write_text(recipe)
    calm(package, "train", "mine.yaml", "--out", "run")
    assert "relative L2" in calm(package, "evaluate", "run")


def test_a_metric(package):
    apply(package, "a metric")
    data = {"file": str(ROOT / "examples" / "sample.h5")}
    suite = {
        "name": "mine",
        "size": "small",
        "steps": 2,
        "train": {"batch_size": 4, "validation": 0, "threads": 1},
        "data": {"sample": {"problem": "navier_stokes_2d", "metric": "mean_absolute"} | data},
        "models": {"fno": {"model": {"modes": 4, "width": 4, "layers": 1}}},
    }
    (package / "mine.yaml").write_text(json.dumps(suite))
    calm(package, "bench", "mine.yaml", "--out", "out")
    run = package / "out" / "runs" / "sample-fno-seed0"
    found, error = (json.loads((run / f"{name}.json").read_text()) for name in ("evaluation", "result"))
    assert error["metric"] == "mean_absolute"
    assert error["error"] == found["mean_absolute"]["mean"] > 0
    assert len(found["fields"][0]["mean_absolute_frames"]) == len(found["times"])
    assert "Test error: mean |error|." in (package / "out" / "table.html").read_text()
    assert "mean |error|" in calm(package, "evaluate", str(run))
    calm(package, "report", str(run), "--figures", "figures", "--samples", "1")
    assert (package / "figures" / "error_mean_absolute.pdf").exists()
    assert "mean |error|" in (run / "report.html").read_text()
