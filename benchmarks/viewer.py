"""Frame rates of the report's viewer at 20,000 and 200,000 points per panel, in a headless browser that draws in software."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from playwright.sync_api import Browser

from benchmarks.measure import report
from tests.report import pages
from tests.report.browser import browser, open_page

SECONDS = 6.0
SIDES = (141, 448)  # 20,000 and 200,000 points
# Moves the slider by one frame as soon as the last one has been drawn, as a hand would; the intervals in milliseconds.
MOVE = """async seconds => {
    const slider = document.querySelector("#viewer input[type=range]");
    const intervals = [];
    const drawn = new Set();
    let last = performance.now();
    for (const end = last + 1000 * seconds; last < end;) {
        slider.value = (Number(slider.value) + 1) % (Number(slider.max) + 1);
        slider.dispatchEvent(new Event("input"));
        await new Promise(done => requestAnimationFrame(done));
        drawn.add(calmReport.state.drawn);
        intervals.push(performance.now() - last);
        last = performance.now();
    }
    return {intervals: intervals.slice(3), drawn: [...drawn]};
}"""
# Draws everything once and waits until the pixels can be read; milliseconds.
REST = """async () => {
    const canvas = document.querySelector("#viewer canvas.gl");
    const before = performance.now();
    window.dispatchEvent(new Event("beforeprint"));
    canvas.getContext("webgl2").readPixels(0, 0, 1, 1, 6408, 5121, new Uint8Array(4));
    return performance.now() - before;
}"""


def cloud(side: int, triangles: bool) -> pages.Content:
    mesh = (pages.grid_points(side, side), pages.grid_triangles(side, side) if triangles else None)
    return pages.content([mesh], frames=4, fields=1, analyses=False, samples=1)


def measure(started: Browser, side: int, triangles: bool) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        path.write_text(pages.page(cloud(side, triangles)), encoding="utf-8")
        opened = open_page(started, path)
        opened.at_rest()
        opened.page.locator("#viewer .view").first.scroll_into_view_if_needed()
        moved = opened.page.evaluate(MOVE, SECONDS)
        opened.at_rest()
        rest = min(opened.page.evaluate(REST) for _ in range(5))
        opened.page.context.close()
    intervals = sorted(moved["intervals"])
    rate, middle, slowest = 1000 * len(intervals) / sum(intervals), intervals[len(intervals) // 2], intervals[-1]
    kind = "triangles" if triangles else "points"
    drawn = max(moved["drawn"])
    return f"| {side**2:,} | {kind} | {drawn:,} | **{rate:.0f}** | {middle:.0f} ms | {slowest:.0f} ms | {rest:.0f} ms |"


def main() -> None:
    load = os.getloadavg()[0]
    columns = (
        "points per panel",
        "drawn as",
        "drawn while moving",
        "frames per second",
        "median frame",
        "slowest frame",
        "at rest",
    )
    with browser() as started:
        lines = [
            f"Truth, prediction and error side by side, 1280 × 900 pixels, in headless Chromium {started.version}, WebGL drawn",
            f"in software (SwiftShader). The slider moves from frame to frame for {SECONDS:.0f} s; at rest: all points, once.",
            f"Other work loaded the machine with {load:.1f} at the start.",
            "",
            f"| {' | '.join(columns)} |",
            "|---" * len(columns) + "|",
        ]
        lines += [measure(started, side, triangles) for side in SIDES for triangles in (True, False)]
    report("viewer", lines)


if __name__ == "__main__":
    main()
