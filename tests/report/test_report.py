"""`calm report` as a user meets it: the file, its limits, hostile names, wrong turns."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

import calm_pde as cp
from calm_pde.cli import main
from calm_pde.errors import FileError, InputError
from calm_pde.report.findings import Findings
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


def test_a_surrogate_in_memory_serves_as_well(tmp_path):
    """The page of its run without what the run alone knows: the course of the training."""
    run = runs.trained("grid")
    surrogate = cp.Surrogate.load(run)
    by_hand = cp.Surrogate(surrogate.model, surrogate.card.model_copy(update={"provenance": {}}))
    told = {
        "known": (surrogate, None),
        "told": (by_hand, run.parent / "data.h5"),
        "open": (by_hand, cp.DataFile(run.parent / "data.h5")),
    }
    main(["report", str(run), "--out", str(tmp_path / "run.html")])
    wanted = content_of(tmp_path / "run.html")
    for name, (given, data) in told.items():
        report = cp.write_report(given, tmp_path / f"{name}.html", data=data)
        assert (report.held, report.total) == (5, 5)
        found = content_of(tmp_path / f"{name}.html")
        assert found["training"] is None
        assert found["title"] == "waves: CALM-PDE"
        assert dict(found["facts"]).get("Recipe") == ("rotation" if given is surrogate else None)
        for part in ("samples", "errors", "tokens", "kernels", "sizes", "fields", "times"):
            assert found[part] == wanted[part], part
        assert [layer["epochs"][-1] for layer in found["layers"]] == [layer["epochs"][-1] for layer in wanted["layers"]]
    report = cp.write_report(surrogate, tmp_path / "r.html", samples=3, figures=tmp_path / "figures")
    names = {path.name for path in report.figures}
    assert {"positions.png", "error.png", "animation.gif"} <= names
    assert "training.png" not in names


def test_what_a_surrogate_in_memory_lacks_is_named(tmp_path):
    surrogate = cp.Surrogate.load(runs.trained("grid"))
    with pytest.raises(InputError, match=r"out: expected the file to write, since a surrogate that is no folder has no place"):
        cp.write_report(surrogate)
    with pytest.raises(InputError, match="out: expected the file to write"):
        cp.write_report(Findings(surrogate))
    by_hand = cp.Surrogate(surrogate.model, surrogate.card.model_copy(update={"provenance": {}}))
    with pytest.raises(FileError, match=r"Surrogate\(calm of .*\): does not say what it was trained on\. Name a data file"):
        cp.write_report(by_hand, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []


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
