"""A headless Chromium or Chrome for the tests and for pictures of the report, with every request but the file's own noted."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
SOFTWARE = [
    "--no-sandbox",
    "--enable-unsafe-swiftshader",
]  # software for WebGL alone: for the whole page it takes ten times as long

TWO_FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
PATIENCE = 60.0  # seconds
ROOM = 16  # pixels around a section in its picture


def executable() -> str | None:
    """The Chromium or Chrome of this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def executable_or_skip() -> str:
    path = executable()
    if path is None:
        reason = f"no browser found: none of {', '.join(NAMES)} is on the path, so the report's page is not tested"
        if os.environ.get("CALM_CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def launch(playwright: Playwright, *arguments: str) -> Browser:
    return playwright.chromium.launch(executable_path=executable_or_skip(), args=[*SOFTWARE, *arguments])


@contextlib.contextmanager
def browser(*arguments: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = launch(playwright, *arguments)
        try:
            yield started
        finally:
            started.close()


@dataclass
class Opened:
    """A page with what it said and asked for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def state(self, name: str) -> object:
        return self.page.evaluate("name => calmReport.state[name]", name)

    def wait(self, condition: str) -> None:
        """Wait until a JavaScript expression over `s`, the state, holds."""
        until = (
            time.monotonic() + PATIENCE
        )  # asked from here, since the page's own policy forbids what playwright would do there
        while not self.page.evaluate(f"() => {{ const s = calmReport.state; return Boolean({condition}); }}"):
            if time.monotonic() > until:
                raise TimeoutError(f"{condition} did not come true: {self.page.evaluate('calmReport.state')}")
            self.page.wait_for_timeout(20)

    def at_rest(self) -> None:
        """Wait until nothing moves and everything has been drawn."""
        self.wait("!s.moving && !s.playing && s.drawn === s.total")
        self.page.evaluate(TWO_FRAMES)

    def pictures(self, where: str = "#viewer .view") -> list[np.ndarray]:
        """The pixels of all panels, (row, column, RGB) each, taken at once; they must fit in the window together."""
        self.page.locator(where).first.evaluate("node => node.scrollIntoView({block: 'center'})")
        self.page.evaluate(TWO_FRAMES)
        whole = np.asarray(Image.open(io.BytesIO(self.page.screenshot())).convert("RGB"))
        boxes = self.page.locator(where).evaluate_all("nodes => nodes.map(node => node.getBoundingClientRect().toJSON())")
        return [
            whole[round(box["top"]) : round(box["top"]) + int(box["height"]), round(box["left"]) :][:, : int(box["width"])]
            for box in boxes
        ]

    def home(self) -> None:
        """Back to the first sample, field, time and look, as if just opened but for the last reading."""
        self.page.evaluate("""() => {
            if (document.activeElement) document.activeElement.blur();
            for (const select of document.querySelectorAll("select")) {
                if (select.selectedIndex !== 0) { select.selectedIndex = 0; select.dispatchEvent(new Event("change")); }
            }
            const slider = document.querySelector("#viewer input[type=range]");
            if (slider && slider.value !== "0") { slider.value = 0; slider.dispatchEvent(new Event("input")); }
            for (const box of document.querySelectorAll("input[type=checkbox]:checked")) box.click();
            document.querySelector("#viewer [aria-label='Reset the view']").click();
        }""")
        self.wait("s.sample === 0 && s.field === 0 && s.frame === 0 && !s.overlay")
        self.at_rest()

    def complained(self) -> list[str]:
        """Console messages but for the remarks of the software that draws."""
        return [text for text in self.complaints if "GL Driver Message" not in text]


def open_page(
    browser: Browser, path: Path, width: int = 1280, height: int = 900, scheme: str = "light", **options: object
) -> Opened:
    """Open a report from its file and wait until every section is there."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, **options)
    opened = Opened(context.new_page())
    opened.page.on("console", lambda message: opened.complaints.append(f"{message.type}: {message.text}"))
    opened.page.on("pageerror", lambda error: opened.complaints.append(f"error: {error}"))
    opened.page.on("request", lambda request: opened.requests.append(request.url))
    opened.page.goto(path.as_uri())
    opened.page.evaluate("() => calmReport.complete")
    return opened


def screenshots(
    page_path: Path, out_folder: Path, prefix: str, width: int = 1280, themes: tuple[str, ...] = ("light", "dark")
) -> list[Path]:
    """A PNG of the head and of every section, per theme: `prefix_section_theme.png`."""
    out_folder.mkdir(parents=True, exist_ok=True)
    written = []
    with browser() as started:
        for theme in themes:
            opened = open_page(started, page_path, width, scheme=theme)
            written += photograph(opened, out_folder, prefix, theme)
            opened.page.context.close()
    return written


def photograph(opened: Opened, out_folder: Path, prefix: str, suffix: str) -> list[Path]:
    """Every section with some room around it, in a window as tall as the tallest, since no more is drawn at once."""
    page = opened.page
    slider = page.locator("#viewer input[type=range]")
    if slider.count():
        slider.fill(str(page.evaluate("Math.floor(calmReport.content.times.length / 2)")))
        slider.blur()
    parts = page.locator("header, main > section").all()
    width = page.viewport_size["width"]
    tallest = max(int(part.bounding_box()["height"]) for part in parts)
    page.set_viewport_size({"width": width, "height": max(page.viewport_size["height"], tallest + 2 * ROOM)})
    opened.at_rest()
    written = []
    for part in parts:
        part.evaluate(f"node => {{ scrollTo(0, node.getBoundingClientRect().top + scrollY - {ROOM}); }}")
        box = part.bounding_box()
        room = min(ROOM, box["x"])
        top = max(0, box["y"] - ROOM)
        path = out_folder / f"{prefix}_{part.get_attribute('id') or 'head'}_{suffix}.png"
        clip = {
            "x": box["x"] - room,
            "y": top,
            "width": box["width"] + 2 * room,
            "height": box["y"] + box["height"] + ROOM - top,
        }
        page.screenshot(path=path, clip=clip, animations="disabled")
        written.append(path)
    return written
