"""The page: well-formed, self-contained, with every name as text, readable in light and dark."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calm_pde.bench.measured.result import Failure
from calm_pde.bench.runs.suite import Suite
from calm_pde.bench.runs.trials import trials
from calm_pde.bench.shown.drawing import Axis, curves
from calm_pde.bench.shown.page import page
from calm_pde.bench.shown.table import rows
from tests.bench.campaigns import result, suite
from tests.bench.shown.test_table import HOSTILE
from tests.report.browser import browser

EMPTY = {"meta", "link", "rect", "path", "circle"}


def shown(**changes) -> str:
    chosen: Suite = suite(seeds=[0, 1], **changes)
    found = {
        "sample-fno-seed0": result(error=0.125),
        "sample-fno-seed1": result(error=0.25, seed=1, curve=((50.0, 0.6), (150.0, 0.3))),
        "sample-calm-seed0": result(model="calm", title="CALM-PDE", error=0.0625, curve=((10.0, 0.5), (170.0, 0.07))),
        "sample-calm-seed1": Failure(data="sample", model="calm", title="CALM-PDE", seed=1, reason=HOSTILE),
    }
    return page(chosen, rows(chosen, trials(chosen, Path("out")), found))


class Reader(HTMLParser):
    """Collects tags and texts, and minds that what opens closes."""

    def __init__(self) -> None:
        super().__init__()
        self.open, self.tags, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag not in EMPTY:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def read(text: str) -> Reader:
    reader = Reader()
    reader.feed(text)
    assert reader.open == []
    return reader


def test_tables_bars_and_curves():
    found = read(shown())
    texts = " ".join(found.texts)
    assert "0.1875 ± 0.0884" in texts
    assert "0.0625, 1 failed" in texts
    bars = [float(given["width"]) for tag, given in found.tags if tag == "rect"]
    assert bars[0] == pytest.approx(0.1875 / 0.0625 * bars[1], abs=0.2)  # widths are told to a tenth of a pixel
    lines = [given for tag, given in found.tags if tag == "path" and given["class"].startswith("line")]
    assert len(lines) == 3 + 2  # two seeds, one of the other model, and the legend
    assert len([tag for tag, given in found.tags if tag == "path" and given["class"] == "paper"]) == 3


def test_hostile_names_are_text():
    """In the suite's name, its words, a model, a data set, a reason."""
    data = {HOSTILE: suite().data["sample"].model_dump() | {"title": HOSTILE}}
    chosen = suite(name=HOSTILE, about=HOSTILE, data=data, models={HOSTILE: {"kind": "fno"}}, paper={})
    names = [cell.name for cell in trials(chosen, Path("out"))]
    assert all(re.fullmatch(r"[A-Za-z0-9._+-]+", name) for name in names)
    found = {names[0]: result(model=HOSTILE, title=HOSTILE)}
    reader = read(page(chosen, rows(chosen, trials(chosen, Path("out")), found)))
    assert {tag for tag, _ in reader.tags}.isdisjoint({"script", "a", "img"})
    assert sum(HOSTILE in text for text in reader.texts) >= 4
    assert "alert" in " ".join(read(shown()).texts)


def test_nothing_is_asked_for_and_nothing_runs():
    found = read(shown())
    for tag, given in found.tags:
        assert not any(name.startswith("on") for name in given), tag
        assert given.get("href", "data:,") == "data:,"
        assert "src" not in given


def test_a_curve_that_began_out_of_bounds_does_not_squeeze_the_others():
    curve = ((1.0, 1e6), (50.0, 0.6), (150.0, 0.3))
    row = rows(suite(), trials(suite(), Path("out")), {"sample-fno-seed0": result(curve=curve)})["sample"][0]
    drawn = read(curves([row], {"fno": 0}))
    (line,) = [given["d"] for tag, given in drawn.tags if tag == "path" and given["d"].count("L") == 2]
    first, second, third = (float(point.split()[1]) for point in line[1:].split("L"))
    axis = Axis(0.3, 2.0)
    assert (second - first) / (third - first) == pytest.approx((1 - axis.place(0.6)) / (1 - axis.place(0.3)), abs=0.02)


def test_axes_have_round_ticks():
    assert Axis(0.05, 0.7).ticks() == pytest.approx([0.05, 0.1, 0.2, 0.5])
    assert Axis(1, 1000).ticks() == pytest.approx([1, 10, 100, 1000])
    assert Axis(2, 8).place(4) == pytest.approx(0.5)


def test_it_is_readable_in_light_and_dark(tmp_path):
    """The background follows the scheme, bars stand out from it, and a narrow window cuts nothing off."""
    path = tmp_path / "table.html"
    path.write_text(shown(), encoding="utf-8")
    with browser() as started:
        levels = {}
        for scheme in ("light", "dark"):
            context = started.new_context(viewport={"width": 420, "height": 900}, color_scheme=scheme)
            opened, asked, said = context.new_page(), [], []
            opened.on("request", lambda request, asked=asked: asked.append(request.url))
            opened.on("console", lambda message, said=said: said.append(message.text))
            opened.goto(path.as_uri())
            assert opened.evaluate("document.documentElement.scrollWidth") <= 420
            shot = tmp_path / f"{scheme}.png"
            opened.locator("svg").first.screenshot(path=shot)
            pixels = np.asarray(Image.open(shot).convert("L")).astype(float)
            levels[scheme] = np.median(pixels)
            assert np.abs(pixels - levels[scheme]).max() > 100
            assert ([url for url in asked if not url.startswith(("file:", "data:"))], said) == ([], [])
            context.close()
        assert levels["light"] > 200
        assert levels["dark"] < 60
