"""The table: means over seeds, the paper's values, failures, and names that stand there as they are."""

from __future__ import annotations

import csv
import io
import math
import statistics
from pathlib import Path

import pytest

from calm_pde.bench.measured.result import Failure, Result, load, save
from calm_pde.bench.runs.trials import trials
from calm_pde.bench.shown.table import COLUMNS, comma_separated, markdown, rows, seconds_text
from calm_pde.errors import FileError
from tests.bench.campaigns import result, suite

HOSTILE = "<script>alert('x')</script> | [a](b) `c` {{style}} \n# d"


def table(found: dict[str, Result | Failure], **changes):
    chosen = suite(**changes)
    return chosen, rows(chosen, trials(chosen, Path("out")), found)


def cells_of(text: str) -> list[list[str]]:
    """The lines of the Markdown tables, as their cells."""
    return [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def test_seeds_become_mean_and_deviation():
    errors = (0.1, 0.2, 0.4)
    found = {f"sample-fno-seed{seed}": result(seed=seed, error=error) for seed, error in enumerate(errors)}
    chosen, made = table(found, seeds=[0, 1, 2])
    fno, calm, other = made["sample"]
    assert fno.error == pytest.approx(statistics.mean(errors))
    assert fno.spread == pytest.approx(statistics.stdev(errors))
    assert (calm.error, calm.waiting) == (None, 3)
    assert (other.title, other.ours, other.paper_error) == ("LE-PDE", False, 0.5)
    lines = cells_of(markdown(chosen, made))
    assert [name.strip() for name in lines[0]] == list(COLUMNS)
    assert [cell.strip() for cell in lines[1]][:4] == ["FNO", "0.2333 ± 0.1528", "0.0811 ± 0.0004", "1,000"]
    assert [cell.strip() for cell in lines[2]][:3] == ["CALM-PDE", "not run yet", "0.0301 ± 0.0014"]
    assert [cell.strip() for cell in lines[3]][:3] == ["LE-PDE", "–", "0.5"]


def test_a_power_of_ten_over_the_papers_column_is_told_and_counted():
    data = {"sample": suite().data["sample"].model_dump() | {"paper_unit": 1e-2}}
    _, made = table({}, data=data)
    fno = made["sample"][0]
    assert fno.paper == "0.0811 ± 0.0004 × 0.01"
    assert fno.paper_error == pytest.approx(0.000811)


def test_failures_and_divergence_are_told():
    failed = Failure(data="sample", model="fno", title="FNO", seed=0, reason="the loss is not finite")
    diverged = result(model="calm", title="CALM-PDE", error=math.nan, diverged=2)
    chosen, made = table({"sample-fno-seed0": failed, "sample-calm-seed0": diverged})
    text = markdown(chosen, made)
    assert "| FNO | failed |" in text
    assert "FNO, seed 0, failed: the loss is not finite" in text
    assert "| CALM-PDE | diverged |" in text


def test_a_run_comes_back_from_the_csv():
    found = {"sample-fno-seed0": result(error=1 / 3, commit=None), "sample-calm-seed0": result(model="calm", title=HOSTILE)}
    _, made = table(found)
    lines = list(csv.DictReader(io.StringIO(comma_separated(made))))
    assert [line["model"] for line in lines] == ["fno", "calm", "LE-PDE"]
    for line, (name, wanted) in zip(lines, found.items(), strict=False):
        given = {key: value or None for key, value in line.items() if key in Result.model_fields}
        back = Result.model_validate(given | {"curve": wanted.curve})
        assert back == wanted, name
    assert lines[0]["paper"] == "0.0811 ± 0.0004"


def test_hostile_names_stay_in_their_cell():
    chosen, made = table({"sample-fno-seed0": result()}, models={"fno": {"title": HOSTILE}}, about=HOSTILE, paper={})
    text = markdown(chosen, made)
    (line,) = [line for line in text.splitlines() if line.startswith("| ") and "alert" in line]
    bars = [place for place, sign in enumerate(line) if sign == "|" and line[place - 1] != "\\"]
    assert len(bars) == len(COLUMNS) + 1
    assert "<script" not in text.replace("\\<", "")
    assert all("\n" not in cell for cell in line)


def test_results_are_kept_and_replace_failures(tmp_path):
    failed = Failure(data="sample", model="fno", title="FNO", seed=0, reason="x")
    assert load(tmp_path) is None
    save(tmp_path, failed)
    assert load(tmp_path) == failed
    wanted = result(error=math.inf)
    save(tmp_path, wanted)
    assert load(tmp_path) == wanted
    assert not (tmp_path / "failure.json").exists()
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(FileError, match=r"result.json: cannot be read"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.00123, "1.23 ms"), (1.5, "1.5 s"), (180.0, "3 min"), (9000.0, "2.5 h")]
)
def test_seconds_are_told_in_a_fitting_unit(value, text):
    assert seconds_text(value) == text
