"""The page of the report, driven in a headless browser on made-up contents."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

from tests.report import pages
from tests.report.browser import TWO_FRAMES, Opened, launch, open_page

CONTENTS: dict[str, Callable[[], pages.Content]] = {
    name: functools.cache(getattr(pages, name))
    for name in ("line", "grid", "holed", "crowded", "per_sample", "cloud", "space", "steady", "told", "hostile")
}
TIMED = ["line", "grid", "holed", "per_sample", "cloud", "space"]
MARGINS = {"left": 44, "right": 8, "top": 6, "bottom": 32}  # around the drawn area of a picture in the plane
SIDES = (("x", "width"), ("y", "height"))
Show = Callable[..., Opened]


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="module")
def chromium(playwright: Playwright) -> Iterator[Browser]:
    started = launch(playwright)
    yield started
    started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("pages")

    def file(name: str) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(pages.page(CONTENTS[name]()), encoding="utf-8")
        return path

    return file


@pytest.fixture(scope="module")
def opened_pages(chromium: Browser, files: Callable[[str], Path]) -> Iterator[Show]:
    """Opens each page once, 1280 pixels wide and light, and leaves it open; each use begins at the first frame."""
    shown: dict[str, Opened] = {}

    def open_one(name: str) -> Opened:
        if name not in shown:
            shown[name] = open_page(chromium, files(name))
        shown[name].home()
        return shown[name]

    yield open_one
    for opened in shown.values():
        opened.page.context.close()


@pytest.fixture
def show(opened_pages: Show) -> Iterator[Show]:
    """A page by its name, as at the start; in the end it may not have complained nor asked for anything."""
    used: list[Opened] = []

    def use(name: str) -> Opened:
        used.append(opened_pages(name))
        return used[-1]

    yield use
    for opened in used:
        quiet(opened)


def quiet(opened: Opened) -> None:
    assert opened.complained() == []
    assert [url for url in opened.requests if not url.startswith("data:")] == [opened.page.url.split("#")[0]]
    assert opened.page.url.startswith("file:")


def differs(before: list[np.ndarray], after: list[np.ndarray], share: float = 0.001) -> bool:
    """Whether every picture changed in at least this share of its pixels."""
    return all(
        one.shape == two.shape and np.any(one != two, axis=-1).mean() > share for one, two in zip(before, after, strict=True)
    )


def pictures(opened: Opened, where: str = "#viewer .view") -> list[np.ndarray]:
    opened.at_rest()
    return opened.pictures(where)


def slide(opened: Opened, frame: int) -> None:
    opened.page.get_by_role("slider", name="Time").fill(str(frame))


def point_cloud(content: pages.Content, mesh: int = 0) -> np.ndarray:
    return pages.unpack(content["meshes"][mesh]["points"]).astype(float)


def place(opened: Opened, points: np.ndarray, at: np.ndarray, panel: int = 0) -> tuple[float, float]:
    """Where coordinates in the plane lie in the window, before any zoom: the whole cloud fits, in proportion, in the middle."""
    box = opened.page.locator("#viewer .view").nth(panel).bounding_box()
    width = box["width"] - MARGINS["left"] - MARGINS["right"]
    height = box["height"] - MARGINS["top"] - MARGINS["bottom"]
    low, high = points.min(0), points.max(0)
    scale = min(width / (high - low)[0], height / (high - low)[1])
    x, y = (at - (low + high) / 2) * scale
    return box["x"] + MARGINS["left"] + width / 2 + x, box["y"] + MARGINS["top"] + height / 2 - y


def check_reading(opened: Opened, content: pages.Content, sample: int, field: int, frame: int, index: int) -> None:
    """The reading is the arrays' values at this point, within the step of the quantization."""
    points = point_cloud(content, content["samples"][sample]["mesh"])
    truth, residual = pages.truth_and_residual(points, np.array(content["times"]), sample, field)
    steps = [np.ptp(values) / 65535 for values in (truth, residual)]
    reading = opened.state("reading")
    assert reading["index"] == index
    assert np.allclose(reading["x"], points[index], atol=1e-6)
    assert abs(reading["truth"] - truth[frame, index]) <= steps[0]
    assert abs(reading["prediction"] - (truth + residual)[frame, index]) <= sum(steps)
    assert abs(reading["error"] - abs(residual[frame, index])) <= steps[1]


def test_it_opens_at_the_last_frame(chromium: Browser, files: Callable[[str], Path]) -> None:
    """The first is what was given."""
    opened = open_page(chromium, files("grid"))
    last = len(CONTENTS["grid"]()["times"]) - 1
    assert opened.state("frame") == last
    assert opened.page.get_by_role("slider", name="Time").input_value() == str(last)
    assert f"frame {last + 1} of" in opened.page.locator("#viewer .time").text_content()
    opened.page.context.close()


@pytest.mark.parametrize("name", TIMED)
def test_slider_moves_the_picture(show: Show, name: str) -> None:
    opened = show(name)
    before = pictures(opened)
    assert all(len(np.unique(picture @ [65536, 256, 1])) > 100 for picture in before)  # not blank
    slide(opened, 4)
    assert opened.state("frame") == 4
    assert differs(before, pictures(opened))
    assert "frame 5" in opened.page.locator("#viewer .time").text_content()
    error = CONTENTS[name]()["samples"][0]["frame_errors"][0][4]
    assert f"{error:.4g}" in opened.page.locator(".frame-error").text_content()


def test_colors_follow_the_values(show: Show) -> None:
    content = CONTENTS["grid"]()
    opened = show("grid")
    points = point_cloud(content)
    truth, residual = pages.truth_and_residual(points, np.array(content["times"]), 0, 0)
    shot = pictures(opened)
    for panel, values in enumerate([truth[0], (truth + residual)[0]]):
        inner = np.abs(points - 0.5).max(1) < 0.4
        shown, box = shot[panel], opened.page.locator("#viewer .view").nth(panel).bounding_box()
        for wanted, index in [(1, np.argmax(np.where(inner, values, -9))), (-1, np.argmin(np.where(inner, values, 9)))]:
            x, y = place(opened, points, points[index], panel)
            red, _, blue = shown[int(y - box["y"]), int(x - box["x"])].astype(int)
            assert np.sign(red - blue) == wanted
            assert abs(red - blue) > 60


def test_play_runs_on_and_stops(show: Show) -> None:
    opened = show("grid")
    assert not opened.state("playing")
    slide(opened, 9)
    opened.page.get_by_role("button", name="Play").click()
    opened.wait("s.playing && s.frame === 11")
    opened.wait("s.frame < 9")  # from the beginning
    opened.page.get_by_role("button", name="Pause").click()
    opened.at_rest()
    frame = opened.state("frame")
    opened.page.wait_for_timeout(900)
    assert opened.state("frame") == frame


@pytest.mark.parametrize("name", ["line", "grid", "per_sample", "space", "steady"])
def test_fields_and_samples_switch(show: Show, name: str) -> None:
    opened = show(name)
    page = opened.page
    options = page.get_by_label("Sample", exact=True).locator("option").all_text_contents()
    assert [rank in text for rank, text in zip(("worst", "median", "best"), options, strict=True)] == [True] * 3
    assert all("error 0.0" in text for text in options)
    before = pictures(opened)
    page.locator("#viewer").get_by_label("Field").select_option("pressure")
    opened.wait("s.field === 1")
    second = pictures(opened)
    assert differs(before, second)
    page.get_by_label("Sample", exact=True).select_option(index=2)
    opened.wait("s.sample === 2")
    assert differs(second, pictures(opened))
    shared = pictures(opened)
    page.get_by_label("Color scale", exact=True).select_option(index=1)
    assert differs(shared[:2], pictures(opened)[:2])


@pytest.mark.parametrize("name", ["grid", "holed", "per_sample", "cloud", "steady"])
def test_pointer_reads_the_nearest_stored_point(show: Show, name: str) -> None:
    content = CONTENTS[name]()
    opened = show(name)
    page = opened.page
    sample = 1 if name == "per_sample" else 0
    page.get_by_label("Sample", exact=True).select_option(index=sample)
    opened.wait(f"s.sample === {sample}")
    frame = 0 if name == "steady" else 3
    if frame:
        slide(opened, frame)
    opened.at_rest()
    page.locator("#viewer .view").nth(0).scroll_into_view_if_needed()
    points = point_cloud(content, content["samples"][sample]["mesh"])
    low, size = points.min(0), np.ptp(points, axis=0)
    for panel, share in enumerate([(0.21, 0.83), (0.52, 0.47), (0.9, 0.13)]):
        at = low + size * share
        nearest = np.argsort(np.linalg.norm(points - at, axis=1))
        at = at + 0.6 * (points[nearest[0]] - at)  # clearly nearest, whatever half a pixel does
        page.mouse.move(*place(opened, points, at, panel))
        opened.wait(f"s.reading && s.reading.index === {nearest[0]}")
        check_reading(opened, content, sample, 0, frame, int(nearest[0]))
    assert page.locator(".reading .error dd").text_content().endswith(content["fields"][0]["unit"])


def test_pointer_marks_the_point_in_every_panel(show: Show) -> None:
    opened = show("grid")
    opened.page.get_by_label("Point", exact=True).fill("0")
    before = pictures(opened)
    box = opened.page.locator("#viewer .view").nth(1).bounding_box()
    opened.page.mouse.move(box["x"] + 150, box["y"] + 150)
    opened.wait("s.reading.index > 0")
    assert differs(before, pictures(opened))


def test_pointer_on_a_line(show: Show) -> None:
    content = CONTENTS["line"]()
    opened = show("line")
    page = opened.page
    slide(opened, 7)
    opened.at_rest()
    curves = page.locator("#viewer .lines .u-over").first
    curves.scroll_into_view_if_needed()
    points = point_cloud(content)
    index = int(np.argmin(np.abs(points[:, 0] - 0.4)))
    box = curves.bounding_box()
    share = (points[index, 0] - points.min()) / np.ptp(points)
    page.mouse.move(box["x"] + share * box["width"], box["y"] + 40)
    opened.wait(f"s.reading && s.reading.index === {index}")
    check_reading(opened, content, 0, 0, 7, index)
    view = page.locator("#viewer .view").first
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    width, height = box["width"] - MARGINS["left"] - MARGINS["right"], box["height"] - MARGINS["top"] - MARGINS["bottom"]
    # in the space-time picture the height is the time: here that of frame 12 of 20
    page.mouse.move(box["x"] + MARGINS["left"] + share * width, box["y"] + MARGINS["top"] + (1 - 12 / 19) * height)
    opened.wait("s.reading")
    check_reading(opened, content, 0, 0, 12, index)


def test_typed_point_is_read(show: Show) -> None:
    opened = show("space")
    opened.page.get_by_label("Point", exact=True).fill("1505")
    opened.wait("s.reading")
    check_reading(opened, CONTENTS["space"](), 0, 0, 0, 1505)


@pytest.mark.parametrize("name", ["line", "holed", "space"])
def test_overlay_of_query_points_toggles(show: Show, name: str) -> None:
    opened = show(name)
    before = pictures(opened)
    box = opened.page.get_by_role("checkbox", name="Query points")
    box.check()
    opened.wait("s.overlay")
    first = pictures(opened)
    assert differs(before, first)
    opened.page.get_by_label("of layer").select_option("encoder 3")
    second = pictures(opened)
    assert differs(first, second)
    box.uncheck()
    opened.wait("!s.overlay")
    assert np.array_equal(before[0], pictures(opened)[0])


def test_zoom_and_pan_are_linked_and_reset(show: Show) -> None:
    opened = show("holed")
    page = opened.page
    before = pictures(opened)
    view = page.locator("#viewer .view").nth(1)
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    opened.wait("s.reading")
    index = opened.state("reading")["index"]
    page.mouse.wheel(0, -300)
    opened.wait("s.zoom > 1.2")
    page.mouse.move(box["x"] + 201, box["y"] + 100)
    opened.at_rest()
    assert opened.state("reading")["index"] == index  # what lies under the pointer stays there
    zoomed = pictures(opened)
    assert differs(before, zoomed, 0.05)
    page.mouse.down()
    page.mouse.move(box["x"] + 120, box["y"] + 160, steps=3)
    page.mouse.up()
    assert differs(zoomed, pictures(opened), 0.05)
    page.get_by_role("button", name="Reset the view").click()
    opened.wait("s.zoom === 1")


def test_a_crowded_mesh_opens_where_its_points_are(show: Show) -> None:
    """On the middle four fifths of the points along each axis; `All` shows the whole domain, `Reset` that part again."""
    points = np.sort(pages.crowded_mesh()[0], axis=0)
    size = points[-1] - points[0]
    low, high = points[len(points) // 10], points[-(len(points) // 10) - 1]
    opened = show("crowded")
    assert opened.state("zoom") == pytest.approx((size / (high - low)).min(), rel=0.05)
    near = pictures(opened)
    opened.page.get_by_role("button", name="Show the whole domain").click()
    opened.wait("s.zoom === 1")
    assert differs(near, pictures(opened), 0.05)
    opened.page.get_by_role("button", name="Reset the view").click()
    opened.wait("s.zoom > 4")
    assert not show("holed").page.get_by_role("button", name="Show the whole domain").is_visible()


def test_two_fingers_zoom(chromium: Browser, files: Callable[[str], Path]) -> None:
    opened = open_page(chromium, files("per_sample"), has_touch=True)
    page = opened.page
    view = page.locator("#viewer .view").first
    view.scroll_into_view_if_needed()
    box = view.bounding_box()
    session = page.context.new_cdp_session(page)
    for kind, apart in [("touchStart", 20), ("touchMove", 35), ("touchMove", 60), ("touchEnd", None)]:
        fingers = [{"x": box["x"] + 180 + side * apart, "y": box["y"] + 150} for side in (-1, 1)] if apart else []
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": fingers})
    opened.wait("s.zoom > 2 && s.zoom < 4")
    quiet(opened)
    page.context.close()


def test_slices_and_points_in_space(show: Show) -> None:
    opened = show("space")
    page = opened.page
    looks = page.locator("#viewer").get_by_label("Drawn as")
    assert looks.locator("option").all_text_contents() == ["slice at z = 0.5", "slice at x = 0.5", "points"]
    assert opened.state("total") == 14**2
    first = pictures(opened)
    looks.select_option(index=1)
    opened.at_rest()
    assert differs(first, pictures(opened))
    looks.select_option("points")
    opened.wait("s.total === 14 ** 3")
    still = pictures(opened)
    box = page.locator("#viewer .view").nth(2).bounding_box()
    page.mouse.move(box["x"] + 150, box["y"] + 150)
    page.mouse.down()
    page.mouse.move(box["x"] + 210, box["y"] + 170, steps=3)
    page.mouse.up()
    assert differs(still, pictures(opened), 0.05)
    page.mouse.move(box["x"] + 160, box["y"] + 160)
    opened.wait("s.reading")
    check_reading(opened, CONTENTS["space"](), 0, 0, 0, opened.state("reading")["index"])
    assert "262,144" in page.locator("#viewer .status").text_content()


def test_conditions_of_the_sample_follow_sample_and_time(show: Show) -> None:
    """Numbers as they are, signals linear between their knots and cut to the frames; the marker is on the curve."""
    opened, content = show("told"), CONTENTS["told"]()
    page, times = opened.page, content["times"]
    items = page.locator("#viewer .conditions dl > div")
    names = ["conductivity", "age (not told to the model)", "wall", "level"]
    assert page.locator("#viewer .conditions dt").all_text_contents() == names
    assert page.locator("#viewer .conditions p").text_content() == (
        "prescribed, not predicted: vorticity at wall; pressure at all points"
    )
    low = min(np.interp(times[-1], one["signals"]["times"], one["signals"]["values"][0]) for one in content["samples"])
    for sample, frame in ((0, 0), (0, 3), (2, 3), (2, 10), (1, len(times) - 1)):
        page.get_by_label("Sample", exact=True).select_option(index=sample)
        slide(opened, frame)
        opened.wait(f"s.sample === {sample} && s.frame === {frame}")
        opened.at_rest()
        signals = content["samples"][sample]["signals"]
        wall = np.interp(times[frame], signals["times"], signals["values"][0])
        shown = [node.strip().replace("−", "-") for node in items.locator("dd").all_text_contents()]
        assert shown == [f"{40.5 + sample:g} W/(m·K)", "–", f"{wall:.4g} °C", "3"]
        curve = items.nth(2).locator(".curve").bounding_box()
        dot = items.nth(2).locator(".dot").bounding_box()
        place = [(dot[x] + dot[side] / 2 - curve[x]) / curve[side] for x, side in SIDES]
        # all samples share a scale, to 82, with 8 % of room
        assert place == pytest.approx([frame / (len(times) - 1), 0.92 - 0.84 * (wall - low) / (82 - low)], abs=0.03)
    points = items.nth(2).locator("polyline").get_attribute("points").split()
    assert [float(point.split(",")[0]) for point in points] == pytest.approx([0, 0.3, 0.5, 1])
    assert items.nth(2).locator(".curve").get_attribute("aria-label") == f"Curve of wall (°C), {wall:.4g} to 81"


def test_without_conditions_there_is_no_place_for_them(show: Show) -> None:
    assert show("grid").page.locator(".conditions").count() == 0


def test_keyboard(show: Show) -> None:
    opened = show("grid")
    page = opened.page
    page.get_by_role("button", name="Reset the view").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.classList.contains('region')")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert opened.state("frame") == 1
    page.keyboard.press("Space")
    opened.wait("s.playing && s.frame > 1")
    page.keyboard.press("Space")
    assert not opened.state("playing")
    page.keyboard.press("+")
    assert opened.state("zoom") > 1
    still = pictures(opened)
    page.keyboard.press("Shift+ArrowRight")
    assert differs(still, pictures(opened), 0.05)
    page.keyboard.press("0")
    assert opened.state("zoom") == 1
    page.keyboard.press("-")
    assert opened.state("zoom") < 1


def test_every_control_has_a_name(show: Show) -> None:
    for name in ("grid", "space"):
        unnamed = show(name).page.evaluate("""() => [...document.querySelectorAll("button, select, input")].filter(node =>
            !(node.textContent.trim() && node.tagName === "BUTTON") && !node.labels?.length && !node.ariaLabel).length""")
        assert unnamed == 0


def test_steady_has_no_time(show: Show) -> None:
    page = show("steady").page
    assert page.get_by_role("slider").count() == 0
    assert page.get_by_role("button", name="Play").count() == 0
    assert page.locator("#errors").count() == 0
    assert page.locator("#tokens .view").count() == 1


def luminance(color: str) -> float:
    values = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_are_readable(chromium: Browser, files: Callable[[str], Path], scheme: str) -> None:
    opened = open_page(chromium, files("per_sample"), scheme=scheme)
    page = opened.page

    def contrasts() -> list[float]:
        names = ["paper", "card", "ink", "muted", "accent", "error", "query"]
        read = "names => names.map(name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim())"
        paper, card, *inks = [luminance(color) for color in page.evaluate(read, names)]
        return [(max(a, b) + 0.05) / (min(a, b) + 0.05) for a in inks for b in (paper, card)]

    assert page.evaluate("document.documentElement.dataset.theme") == scheme
    assert min(contrasts()) > 4
    before = pictures(opened)
    page.get_by_role("button", name="Light colors" if scheme == "dark" else "Dark colors").click()
    assert page.evaluate("document.documentElement.dataset.theme") != scheme
    assert min(contrasts()) > 4
    assert differs(before, pictures(opened), 0.02)
    quiet(opened)
    page.context.close()


OVERLAPS = """() => {
    const kinds = "button, select, input, label, dt, dd, p, figcaption, h1, h2, output, summary, .view, .colorbar, .chart";
    const shown = node => node.getClientRects().length && !node.closest(".u-legend");
    const parts = [...document.querySelectorAll(kinds)].filter(shown);
    const boxes = parts.map(node => node.getBoundingClientRect());
    const name = node => `${node.tagName} ${node.textContent.slice(0, 30)}`;
    const found = [];
    parts.forEach((one, i) => {
        const a = boxes[i];
        if ((a.right > innerWidth + 0.5 || a.left < -0.5) && !one.closest(".scroll, pre")) found.push(`out: ${name(one)}`);
        for (let j = i + 1; j < parts.length; j++) {
            const two = parts[j], b = boxes[j];
            if (one.contains(two) || two.contains(one)) continue;
            const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (across > 1 && down > 1) found.push(`${name(one)} × ${name(two)}`);
        }
    });
    return found;
}"""


@pytest.mark.parametrize("name", list(CONTENTS))
def test_nothing_overlaps_or_sticks_out(show: Show, name: str) -> None:
    opened = show(name)
    page = opened.page
    for width in (1280, 400, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate(TWO_FRAMES)
        opened.at_rest()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(OVERLAPS) == []


def test_hostile_names_are_text(show: Show) -> None:
    opened = show("hostile")
    page = opened.page
    slide(opened, 2)
    page.locator("#viewer .view").first.scroll_into_view_if_needed()
    box = page.locator("#viewer .view").first.bounding_box()
    page.mouse.move(box["x"] + 100, box["y"] + 100)
    opened.wait("s.reading")
    page.locator("#viewer").get_by_label("Field").select_option(index=1)
    page.get_by_role("checkbox", name="Query points").check()
    opened.at_rest()
    assert page.evaluate("window.harmed") is None
    assert page.evaluate("document.querySelectorAll('img, main script, header script').length") == 0
    assert page.locator("h1").text_content() == page.title() == pages.HOSTILE[1]
    facts = page.locator(".facts dd").all_text_contents()
    assert facts == pages.HOSTILE
    assert page.locator("#tables td, #tables tbody th").all_text_contents() == pages.HOSTILE
    assert page.locator("#config pre").text_content() == "\n".join(pages.HOSTILE)
    assert page.locator("#viewer").get_by_label("Field").locator("option").all_text_contents() == pages.HOSTILE[:2]
    told = page.locator("#viewer .conditions dt").all_text_contents()
    assert told == [pages.HOSTILE[0], f"{pages.HOSTILE[0]} (not told to the model)", *[pages.HOSTILE[0]] * 2]
    assert page.locator("#viewer .conditions dd").first.text_content() == f"40.5 {pages.HOSTILE[1]}"
    samples = page.get_by_label("Sample", exact=True).locator("option").all_text_contents()
    assert all(text.startswith(name) for text, name in zip(samples, pages.HOSTILE[:3], strict=True))


def test_numbers_that_are_missing_are_dashes(chromium: Browser, tmp_path: Path) -> None:
    content = pages.cloud()
    content["headline"] |= {"error": None, "spread": None, "baseline": None, "solver_seconds": None, "speedup": None}
    content["samples"][0] |= {"error": None, "rank": None, "frame_errors": [[None] * 6]}
    content["errors"]["fields"][0] |= {"mean": [0.1, None, 0.2, None, 0.3, None], "std": [0.01, None, 0.02, None, 0.03, None]}
    path = tmp_path / "missing.html"
    path.write_text(pages.page(content), encoding="utf-8")
    opened = open_page(chromium, path)
    assert opened.page.locator(".figure.first strong").text_content() == "–"
    assert opened.page.get_by_label("Sample", exact=True).locator("option").first.text_content() == "trajectory 0 · error –"
    assert opened.page.locator("#errors canvas").count() == 1
    quiet(opened)
    opened.page.context.close()


def test_tokens_are_chosen_by_click_number_and_button(show: Show) -> None:
    content = CONTENTS["holed"]()
    opened = show("holed")
    page = opened.page
    number = page.get_by_label("Token", exact=True)
    assert number.input_value() == "0"
    view = page.locator("#tokens .view").first
    view.scroll_into_view_if_needed()
    before = pictures(opened, "#tokens .view")
    points, tokens = point_cloud(content), pages.unpack(content["tokens"]["positions"]).astype(float)
    inner = np.flatnonzero(np.abs(tokens).max(1) < 0.9)
    away = np.linalg.norm(tokens[:, None] - tokens[None], axis=-1) + 9 * np.eye(len(tokens))
    wanted = int(inner[np.argmax(away.min(1)[inner])])  # far from the others
    box = view.bounding_box()
    width, height = box["width"] - MARGINS["left"] - MARGINS["right"], box["height"] - MARGINS["top"] - MARGINS["bottom"]
    scale = min(width, height) / np.ptp(points[:, 0])
    page.mouse.click(
        box["x"] + MARGINS["left"] + width / 2 + tokens[wanted, 0] * scale + 3,
        box["y"] + MARGINS["top"] + height / 2 - tokens[wanted, 1] * scale,
    )
    opened.wait(f"document.querySelector('#tokens input').value === '{wanted}'")
    clicked = pictures(opened, "#tokens .view")
    assert differs(before, clicked, 0.01)
    number.fill("3")
    page.locator("#tokens").get_by_role("button", name="Next").click()
    assert number.input_value() == "4"
    page.locator("#tokens").get_by_label("Scale", exact=True).select_option(index=1)
    assert differs(clicked, pictures(opened, "#tokens .view"), 0.01)


@pytest.mark.parametrize("name", ["line", "grid", "space"])
def test_kernels_of_every_layer_and_query(show: Show, name: str) -> None:
    opened = show(name)
    page = opened.page
    part = page.locator("#kernels")
    assert part.locator(".kernels canvas").count() == 16
    assert part.get_by_label("Query", exact=True).locator("option").count() == 8
    part.scroll_into_view_if_needed()
    filters = "#kernels .kernels canvas"
    signed = opened.pictures(filters)[:1]
    part.get_by_label("Weights", exact=True).select_option("absolute")
    absolute = opened.pictures(filters)[:1]
    assert differs(signed, absolute)
    part.get_by_label("Query", exact=True).select_option(index=5)
    opened.wait("true")
    assert differs(absolute, opened.pictures(filters)[:1])
    part.get_by_label("Layer").select_option("encoder 2")
    opened.wait("document.querySelectorAll('#kernels .kernels canvas').length === 64")


def test_without_webgl_the_rest_works(playwright: Playwright, files: Callable[[str], Path]) -> None:
    blind = launch(playwright, "--disable-3d-apis")
    for name in ("grid", "line"):
        opened = open_page(blind, files(name))
        assert "WebGL" in opened.page.locator("#viewer [role=alert]").text_content()
        assert opened.page.locator("#errors canvas").count() > 0
        assert opened.page.locator("#kernels .kernels canvas").count() == 16
        assert opened.page.locator("#tables table").count() == 1
        opened.page.get_by_label("Sample", exact=True).select_option(index=1)
        opened.page.get_by_label("Point", exact=True).fill("7")
        opened.wait("s.sample === 1 && s.reading && s.reading.index === 7")
        quiet(opened)
    blind.close()


def test_many_points_are_thinned_only_while_something_moves(chromium: Browser, tmp_path: Path) -> None:
    content = pages.large()
    path = tmp_path / "large.html"
    path.write_text(pages.page(content), encoding="utf-8")
    opened = open_page(chromium, path)
    page = opened.page
    opened.at_rest()
    total = 448**2
    assert opened.state("drawn") == opened.state("total") == total
    status = page.locator("#viewer .status")
    assert f"all {total:,} points" in status.text_content()
    moves = {
        "play": lambda: page.get_by_role("button", name="Play").click(),
        "pause": lambda: page.get_by_role("button", name="Pause").click(),
        "slider": lambda: slide(opened, 2),
        "zoom": lambda: page.get_by_role("button", name="Zoom in").click(),
    }
    watch = """() => { window.seen = []; const node = document.querySelector("#viewer .status");
        new MutationObserver(() => seen.push([node.textContent, calmReport.state.drawn])).observe(node, {childList: true}); }"""
    page.evaluate(watch)
    for name, move in moves.items():
        page.evaluate("() => { window.seen.length = 0; }")
        move()
        if name == "play":
            opened.wait("s.drawn < s.total && s.frame > 0")
            assert 20_000 <= opened.state("drawn") < 25_000
            assert f"drawing {opened.state('drawn'):,} of {total:,} points while moving" in status.text_content()
            continue
        opened.at_rest()
        assert f"all {total:,} points" in status.text_content()
        if name != "pause":
            assert any("while moving" in text and 20_000 <= drawn < 25_000 for text, drawn in page.evaluate("window.seen"))
    page.get_by_role("button", name="Reset the view").click()
    opened.at_rest()
    points = point_cloud(content)
    page.locator("#viewer .view").first.scroll_into_view_if_needed()
    page.get_by_role("button", name="Play").click()
    opened.wait("s.drawn < s.total")
    index = 448 * 200 + 217
    page.mouse.move(*place(opened, points, points[index]))
    opened.wait("s.reading")
    read = page.evaluate("() => ({...calmReport.state.reading, frame: calmReport.state.frame})")
    # three screen pixels hold several of the points; thinned ones are three times as far apart
    found = read["index"]
    assert np.linalg.norm(points[found] - points[index]) < 1.5 / 448
    page.get_by_role("button", name="Pause").click()
    opened.at_rest()
    check_reading(opened, content, 0, 0, opened.state("frame"), found)
    assert opened.complained() == []
    page.context.close()


def test_built_asset_is_small_whole_and_licensed() -> None:
    script = (pages.PAGE / "page.js").read_text()
    assert len(script) < 600_000
    assert "</script" not in script.lower()
    assert "<!--" not in script
    template = (pages.PAGE / "page.html").read_text()
    assert all(template.count("{{" + name + "}}") == 1 for name in ("title", "style", "content", "script"))
    licenses = (pages.PAGE / "LICENSES.txt").read_text()
    assert "three.js authors" in licenses
    assert "Leon Sorokin" in licenses
    assert licenses.count("Permission is hereby granted") == 2
    viewer = pages.PAGE.parents[2] / "viewer"
    lock = json.loads((viewer / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    assert "http" not in (viewer / ".npmrc").read_text()
