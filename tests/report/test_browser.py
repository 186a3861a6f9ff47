"""Reports of real runs of every dimension and kind of mesh, driven in a headless browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from calm_pde.data.storage import DataFile
from calm_pde.report.content import content
from calm_pde.report.findings import Findings
from calm_pde.report.page import write_page
from calm_pde.surrogate.surrogate import Surrogate
from tests.report import runs
from tests.report.browser import Opened, browser, open_page
from tests.report.test_page import differs, pictures, quiet, slide
from tests.train.runs import single_thread

FRAME = 3


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as started:
        yield started


def report_of(run: Path, folder: Path) -> Path:
    with single_thread():
        write_page(content(Findings(run)), folder / "report.html")
    return folder / "report.html"


def check_reading(opened: Opened, run: Path, trajectory: int, field: int, index: int) -> None:
    """The page tells the point, the data's value and the surrogate's at it, within range/65,535."""
    file = DataFile(run.parent / "data.h5")
    found, shared = file.trajectory(trajectory), file.description
    points = shared.points if found.points is None else found.points
    assert points is not None
    with single_thread():
        answer = Surrogate.load(run).solve(found.fields[0], points)
    truth, prediction = found.fields[FRAME, :, field], answer[FRAME - 1, :, field]
    step = np.ptp(np.concatenate([found.fields[..., field], answer[..., field]])) / 65_535 + 1e-6
    reading = opened.state("reading")
    assert isinstance(reading, dict)
    assert reading["index"] == index
    assert np.allclose(reading["x"], points[index], atol=1e-6)
    assert abs(reading["truth"] - truth[index]) <= step
    assert abs(reading["prediction"] - prediction[index]) <= step
    assert abs(reading["error"] - abs(prediction[index] - truth[index])) <= 2 * step


@pytest.mark.parametrize("kind", runs.SETS)
def test_a_report_of_a_run_works(chromium: Browser, tmp_path: Path, kind: str) -> None:
    run = runs.trained(kind)
    opened = open_page(chromium, report_of(run, tmp_path))
    page = opened.page
    before = pictures(opened)
    slide(opened, FRAME)
    moved = pictures(opened)
    assert differs(before, moved)
    names = page.get_by_label("Sample").locator("option").all_text_contents()
    assert ["worst" in names[0], "median" in names[1], "best" in names[2]] == [True] * 3
    index = 17
    page.get_by_label("Point", exact=True).fill(str(index))
    opened.wait("s.reading")
    check_reading(opened, run, int(names[0].split()[1]), 0, index)
    page.get_by_label("Sample").select_option(index=2)
    opened.wait("s.sample === 2")
    assert differs(moved[:1], pictures(opened)[:1])
    if kind in ("mesh", "meshes"):
        page.locator("#viewer").get_by_label("Field").select_option(index=1)
        opened.wait("s.field === 1")
        page.get_by_label("Point", exact=True).fill(str(index))
        check_reading(opened, run, int(names[2].split()[1]), 1, index)
    page.get_by_role("checkbox", name="Query points").check()
    opened.wait("s.overlay")
    page.get_by_role("button", name="Play").click()
    opened.wait("s.playing && s.frame !== 3")
    page.get_by_role("button", name="Pause").click()
    opened.at_rest()
    sections = {node.get_attribute("id") for node in page.locator("main > section").all()}
    wanted = {"viewer", "errors", "training", "queries", "tokens", "kernels", "sizes", "tables", "config"}
    assert sections == wanted | ({"error-map"} if kind != "meshes" else set())
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 400, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    quiet(opened)
    page.context.close()
