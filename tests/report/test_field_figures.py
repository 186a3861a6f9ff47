"""The panels of field figures hold the numbers of their frames."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

from calm_pde.report.field_figures import error_map_figure, first_frames, frames_figure, space_time_figure, spread_frames
from tests.report.drawings import SHAPES, sample


def arrays(figure: Figure) -> list[np.ndarray]:
    """What the panels show, one by one."""
    return [np.asarray(place.images[0].get_array()) for place in figure.axes if place.images]


@pytest.mark.parametrize("kind", ["grid", "volume"])
def test_frames_of_a_grid_are_its_values(kind):
    shown, frames = sample(kind), [0, 2, 3]
    figure = frames_figure(shown, 0, frames)
    truth, prediction = shown.truth[..., 0], shown.prediction[..., 0]
    rows = []
    for frame in frames:  # the domain is wide: frames from top to bottom
        for values in (truth, prediction, np.abs(prediction - truth)):
            field = values[frame].reshape(SHAPES[kind])
            rows.append((field if kind == "grid" else field[:, :, 3]).T)
    np.testing.assert_array_equal(arrays(figure), rows)
    panels = [place.images[0] for place in figure.axes if place.images]
    low, high = panels[0].get_clim()
    assert -low == high == np.abs(truth[frames]).max()
    assert panels[1].get_clim() == (low, high)
    assert panels[0].get_cmap().name == "RdBu_r"
    assert panels[2].get_clim() == (0, np.abs(prediction - truth)[frames].max())
    headings = [place.get_ylabel() for place in figure.axes]
    assert "t = 0\ngiven" in headings
    assert "t = 1.5" in headings
    wrong = np.linalg.norm(prediction[3] - truth[3]) / np.linalg.norm(truth[3])
    assert f"rel. L2\n{wrong:.3g}" in headings
    assert "u [m/s]" in [place.get_xlabel() for place in figure.axes]


def test_a_field_of_one_sign_has_no_middle():
    figure = frames_figure(sample("triangles"), 1, [1])
    panel = figure.axes[0].collections[0]
    assert panel.get_cmap().name == "viridis"
    assert panel.get_clim()[0] > 0


def test_frames_of_a_line_are_curves():
    shown = sample("line", 14)
    figure = frames_figure(shown, 0, first_frames(shown))
    panels = figure.axes[:3]
    assert [len(place.lines) for place in panels] == [11, 11, 11]
    for place, values in zip(panels, shown.shown(0), strict=True):
        np.testing.assert_array_equal([line.get_ydata() for line in place.lines], values[:11])
    assert spread_frames(shown) == [1, 4, 7, 10, 13]
    assert first_frames(sample("line", 3)) == [0, 1, 2]
    assert spread_frames(sample("triangles", 1)) == [0]


def test_space_and_time():
    shown = sample("line", 5)
    order = np.random.default_rng(0).permutation(48)  # points in any order are drawn from left to right
    mesh = dataclasses.replace(shown.mesh, points=shown.mesh.points[order])
    mixed = dataclasses.replace(shown, mesh=mesh, truth=shown.truth[:, order], prediction=shown.prediction[:, order])
    figure = space_time_figure(mixed)
    wanted = [values for channel in (0, 1) for values in shown.shown(channel)]
    np.testing.assert_array_equal([place.collections[0].get_array().reshape(5, 48) for place in figure.axes[:6]], wanted)


def test_error_map():
    shown = sample("grid")
    errors = np.abs(shown.prediction - shown.truth).mean(axis=0)
    figure = error_map_figure(shown.mesh, errors, shown.fields)
    np.testing.assert_array_equal(arrays(figure), [errors[:, channel].reshape(24, 12).T for channel in (0, 1)])
    assert {place.images[0].get_cmap().name for place in figure.axes if place.images} == {"Reds"}
