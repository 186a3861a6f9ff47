"""Every figure of every kind of problem is there, shows something, and shows the numbers it was given."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

from calm_pde.errors import InputError
from calm_pde.records.description import Field
from calm_pde.report import animation, figures
from calm_pde.report.figures import FigureInputs, figure_inputs, write_figures
from calm_pde.report.findings import Findings
from tests.report.drawings import FIELDS, drawing
from tests.report.runs import trained

ALWAYS = {"error", "sample_1_u", "positions", "paths", "influence_u", "kernels_encoder_1", "kernels_encoder_1_absolute"}
TWO_FIELDS = {"sample_1_pressure", "influence_pressure"}
CASES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "grid": ({"kind": "grid", "frames": 3}, {"error_map", "training"}),
    "line": ({"kind": "line", "frames": 12}, {"error_map", "sample_1_u_to_the_end", "sample_1_space_time"}),
    "triangles": ({"kind": "triangles", "frames": 2}, {"sample_2_u"}),
    "volume": ({"kind": "volume", "frames": 2, "task": "autoencoder", "fields": FIELDS}, {"error_map", *TWO_FIELDS}),
    "cloud": ({"kind": "cloud", "frames": 1, "task": "steady"}, {"sample_2_u"}),
}


@pytest.fixture(autouse=True)
def _coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "_DPI", 60)
    monkeypatch.setattr(animation, "_DPI", 50)


def assert_shows_something(path: Path) -> None:
    pixels = (255 * imread(path)[..., :3]).round().astype(int) @ np.array([2**16, 2**8, 1])
    colors, counts = np.unique(pixels, return_counts=True)
    assert len(colors) > 30, path.name
    assert counts.max() < 0.97 * pixels.size, path.name


def frames_of(path: Path) -> int:
    with Image.open(path) as moving:
        return moving.n_frames


@pytest.mark.parametrize("case", CASES)
def test_every_figure_is_there_and_not_blank(case, tmp_path):
    options, more = CASES[case]
    whole = case == "grid"
    inputs = drawing(**({"fields": FIELDS[:1]} | options))
    inputs = dataclasses.replace(inputs, kernels=inputs.kernels[:1], training=inputs.training if whole else None)
    formats = ("png", "pdf") if whole else ("png",)
    seen: list[tuple[int, int]] = []
    paths = write_figures(inputs, tmp_path / "new" / "figures", formats, lambda done, total: seen.append((done, total)))
    moves = options["frames"] > 1
    wanted = {f"{name}.{form}" for name in ALWAYS | more for form in formats} | ({"animation.gif"} if moves else set())
    assert {path.name for path in paths} - {"animation.mp4"} == wanted
    assert seen == [(done, len(seen)) for done in range(1, len(seen) + 1)]
    for path in paths:
        if path.suffix == ".png":
            assert_shows_something(path)
        if path.suffix == ".pdf":
            content = path.read_bytes()
            assert content.startswith(b"%PDF-")
            assert b"/Type /Font" in content
            assert len(content) > 5_000
            assert b"CreationDate" not in content
    if moves:
        assert frames_of(tmp_path / "new" / "figures" / "animation.gif") == options["frames"]


def test_every_layer_has_its_kernels_twice():
    names = [name for name, _ in figures._named_figures(drawing("grid", 2))]
    layers = ("encoder_1", "encoder_2", "decoder_1", "decoder_2")
    assert names[-8:] == [f"kernels_{layer}{ending}" for layer in layers for ending in ("", "_absolute")]


def test_other_models_have_no_figures_of_layers(tmp_path):
    inputs = drawing("grid", 2, fields=FIELDS[:1])
    bare = FigureInputs(inputs.samples, inputs.evaluation, inputs.points)
    names = {path.name for path in write_figures(bare, tmp_path, ("png",))} - {"animation.mp4"}
    assert names == {"error.png", "sample_1_u.png", "animation.gif"}


def test_hostile_names_stay_text_and_inside_the_folder(tmp_path):
    names = ("<script>alert(1)</script>", "../../$\\frac{$", "<script>alert(1)<script>")
    fields = tuple(Field(name=name, unit="$m^") for name in names)
    inputs = drawing("grid", 1, task="steady", fields=fields[:2])
    bare = dataclasses.replace(inputs, training=None, layers=(), kernels=())
    paths = write_figures(bare, tmp_path, ("png", "svg"))
    assert all(path.parent == tmp_path and path.exists() for path in paths)
    assert {path.stem for path in paths} >= {"sample_1_script_alert_1_script", "sample_1_frac"}
    assert "&lt;script&gt;alert(1)" in (tmp_path / "sample_1_script_alert_1_script.svg").read_text()
    assert r"../../$\frac{$ [$m^]" in (tmp_path / "sample_1_frac.svg").read_text()
    sample = dataclasses.replace(inputs.samples[0], fields=(fields[0], fields[2], Field(name="ü/ü")))
    assert figures._names(sample) == ["field_1_script_alert_1_script", "field_2_script_alert_1_script", "field_3"]


def test_what_is_drawn_of_a_run_on_a_volume():
    findings = Findings(trained("volume"))
    inputs = figure_inputs(findings)
    worst, whole = inputs.samples[0], findings.sample(findings.ranked[0][0])
    middle = np.arange(512).reshape(8, 8, 8)[:, :, 4].ravel()
    np.testing.assert_array_equal(worst.mesh.points, whole.points[middle, :2])
    np.testing.assert_array_equal(worst.truth, whole.truth[:, middle])
    np.testing.assert_array_equal(worst.prediction, whole.prediction[:, middle])
    np.testing.assert_array_equal(worst.frame_errors, whole.frame_errors)
    assert worst.name == f"trajectory {whole.trajectory} (worst)"
    assert [sample.name.split("(")[1] for sample in inputs.samples] == ["worst)", "median)", "best)"]
    assert worst.given == 1
    assert inputs.points.shape == (512, 3)
    assert findings.error_map is not None
    np.testing.assert_array_equal(inputs.error_map, findings.error_map[middle])
    assert inputs.influence is not None
    assert inputs.influence[0].at_once.shape == (8, 64, 1)
    assert inputs.influence[1].points.shape == (64, 2)


def test_many_points_are_thinned_for_the_influence_alone(monkeypatch):
    monkeypatch.setattr(figures, "_MOST", 100)
    findings = Findings(trained("meshes"))
    inputs = figure_inputs(findings)
    median = findings.sample(findings.median)
    assert inputs.error_map is None
    assert inputs.influence is not None
    influence, mesh = inputs.influence
    stride = -(-len(median.points) // 100)
    np.testing.assert_array_equal(mesh.points, median.points[::stride])
    assert influence.at_once.shape == (8, len(mesh.points), 2)
    whole = findings.influence(np.arange(len(median.points)))
    assert whole is not None
    np.testing.assert_allclose(influence.at_once, whole.at_once[:, ::stride], atol=1e-6)
    assert len(inputs.samples[1].mesh.points) == len(median.points)
    np.testing.assert_array_equal(inputs.samples[1].mesh.cells, median.cells)


def test_wrong_formats_are_refused(tmp_path):
    inputs = drawing("grid", 2)
    for formats in (("gif",), ()):
        with pytest.raises(InputError, match="png, pdf, svg"):
            write_figures(inputs, tmp_path / "nothing", formats)
    with pytest.raises(InputError, match="at least one sample"):
        write_figures(dataclasses.replace(inputs, samples=[]), tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
