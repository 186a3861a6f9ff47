"""`calm report` as a user meets it: the file, its limits, hostile names, wrong turns."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from calm_pde.cli import main
from calm_pde.report.page import page
from tests.report import runs
from tests.train.runs import one_thread  # noqa: F401

HOSTILE = ("</script><script>alert('1')</script>", "\"'&<b>ü ∂u/∂t 🌊\u2028")


def content_of(path: Path) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', path.read_text(), re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def test_a_report_stands_beside_the_run(tmp_path, capsys):
    run = shutil.copytree(runs.trained("mesh"), tmp_path / "run")
    main(["report", str(run)])
    said = capsys.readouterr().out
    assert "Open the report in a browser" in said
    assert "5 of 5 trajectories" in said
    path = run / "report.html"
    text = path.read_text()
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    assert len(content_of(path)["samples"]) == 5
    assert [file.name for file in run.glob(".*")] == []


def test_figures_are_written_on_demand(tmp_path, capsys):
    main(["report", str(runs.trained("grid")), "--out", str(tmp_path / "r.html"), "--figures", str(tmp_path / "figures")])
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"positions.png", "positions.pdf", "error.png", "training.pdf", "animation.gif"} <= names
    assert "figures are in" in capsys.readouterr().out


def test_hostile_names_stay_data(tmp_path):
    run = runs.train(runs.holes(shared=True, names=HOSTILE), tmp_path, epochs=1)
    main(["report", str(run), "--out", str(tmp_path / "r.html")])
    text = (tmp_path / "r.html").read_text()
    assert "alert(" in text
    assert "<script>alert" not in text
    found = content_of(tmp_path / "r.html")
    assert [field["name"] for field in found["fields"]] == list(HOSTILE)


def test_the_title_is_escaped(tmp_path):
    text = page({"title": HOSTILE[0]})
    assert "<script>alert" not in text
    assert json.loads(re.search(r'id="content">(.*?)</script>', text, re.DOTALL)[1]) == {"title": HOSTILE[0]}  # pyright: ignore


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "there is no such folder"),
        (["RUN", "--data", "nothing.h5"], "there is no such file"),
        (["RUN", "--out", "missing/r.html"], "there is no such folder"),
        (["RUN", "--samples", "0", "--out", "r.html"], "samples: expected at least 1, got 0"),
        (["RUN", "--out", "r.html", "--figures", "file"], "cannot be made"),
    ],
)
def test_wrong_turns_are_told(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    given = [str(runs.trained("grid")) if word == "RUN" else word for word in arguments]
    with pytest.raises(SystemExit) as left:
        main(["report", *given])
    assert left.value.code == 2
    assert words in re.sub(r"\s+", " ", capsys.readouterr().err)
