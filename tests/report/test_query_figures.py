"""Figures of layers, tokens and kernels show what the analyses found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calm_pde.geometry import spread_out
from calm_pde.report.query_figures import influence_figure, kernel_figure, paths_figure, positions_figure
from tests.report.drawings import FIELDS, drawing


def test_positions_of_input_output_and_all_layers():
    inputs = drawing("triangles", 2)
    figure = positions_figure(inputs.samples[0].mesh.points, inputs.layers, inputs.box)
    assert [place.get_title() for place in figure.axes] == [
        "input (251)",
        "encoder 1 (12)",
        "encoder 2 (5)",
        "decoder 1 (9)",
        "output (251)",
    ]
    clouds = [inputs.samples[0].mesh.points, *(layer.path[-1] for layer in inputs.layers), inputs.samples[0].mesh.points]
    for place, cloud in zip(figure.axes, clouds, strict=True):
        np.testing.assert_array_equal(place.collections[0].get_offsets(), cloud)


def test_paths_go_from_the_start_to_the_end():
    inputs = drawing("grid", 2)
    figure = paths_figure(inputs.layers, inputs.box)
    for place, layer in zip(figure.axes, inputs.layers, strict=True):
        lines, start, end = place.collections
        np.testing.assert_array_equal([line.vertices for line in lines.get_paths()], layer.path.swapaxes(0, 1))
        np.testing.assert_array_equal(start.get_offsets(), layer.path[0])
        np.testing.assert_array_equal(end.get_offsets(), layer.path[-1])


def test_paths_on_a_line_run_over_epochs():
    inputs = drawing("line", 2)
    figure = paths_figure(inputs.layers, inputs.box)
    for place, layer in zip(figure.axes, inputs.layers, strict=True):
        assert [line.get_xdata().tolist() for line in place.lines] == [[0, 1, 5]] * layer.path.shape[1]
        np.testing.assert_array_equal([line.get_ydata() for line in place.lines], layer.path[..., 0].T)


@pytest.mark.parametrize("task", ["rollout", "autoencoder"])
def test_influence_of_tokens_far_from_one_another(task):
    inputs = drawing("grid", 2, task=task)
    assert inputs.influence is not None
    influence, mesh = inputs.influence
    figure = influence_figure(influence, mesh, 1, FIELDS[1])
    unit = torch.from_numpy(inputs.box.to_unit(influence.positions))
    chosen = spread_out(unit, 4, (True, False)).tolist()
    kinds = [influence.at_once] if influence.last is None else [influence.at_once, influence.last]
    panels = [place for place in figure.axes if place.images]
    wanted = [values[token, :, 1].reshape(24, 12).T for token in chosen for values in kinds]
    np.testing.assert_array_equal([place.images[0].get_array() for place in panels], wanted)
    crosses = [np.ravel(place.lines[0].get_data()) for place in panels]
    np.testing.assert_array_equal(crosses, np.repeat(influence.positions[chosen], len(kinds), axis=0))


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("kind", ["grid", "volume"])
def test_kernel_figures_show_every_weight_at_its_neighbor(kind, absolute):
    for layer in drawing(kind, 2).kernels:
        figure = kernel_figure(layer, which=1, absolute=absolute)
        kernel, axes = layer.queries[1], figure.axes[0]
        spots, colors = axes.collections[0].get_offsets(), np.asarray(axes.collections[0].get_array())
        count, (columns, rows) = len(kernel.points), {1: (1, 1), 2: (2, 1), 4: (2, 2), 5: (3, 2), 6: (3, 2)}[layer.num_filters]
        assert len(spots) == count * layer.num_filters
        away = kernel.points[:, :2] - kernel.at[:2]
        reach = 0.4 / np.abs(kernel.points - kernel.at).max()
        found = {}
        for spot, color in zip(spots, colors, strict=True):
            found.setdefault(tuple(np.round(spot, 6)), []).append(color)
        for place in range(layer.num_filters):
            corner = np.array([place % columns, -(place // columns)])
            assert place // columns < rows
            for where, weight in zip(corner + reach * away, kernel.weights[:, place], strict=True):
                assert (abs(weight) if absolute else weight) in found[tuple(np.round(where, 6))]
        low, high = axes.collections[0].get_clim()
        assert high == pytest.approx(np.abs(kernel.weights).max())
        assert low == (0 if absolute else -high)


def test_kernels_on_a_line_are_curves():
    layer = drawing("line", 2).kernels[0]
    kernel = layer.queries[0]
    curves = kernel_figure(layer).axes[0].collections[0].get_paths()
    order, top = np.argsort(kernel.points[:, 0]), np.abs(kernel.weights).max()
    for place, curve in enumerate(curves):
        np.testing.assert_allclose(curve.vertices[:, 1] + place // 2, 0.45 * kernel.weights[order, place] / top)
