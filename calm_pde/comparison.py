"""A picture of truth, prediction and error over time."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from calm_pde.data.dataset import Dataset
from calm_pde.data.picture import draw_plane, limits
from calm_pde.data.windows import Window
from calm_pde.surrogate import Surrogate

_FRAMES = 5


def comparison_picture(surrogate: Surrogate, dataset: Dataset, position: int = 0, channel: int = 0) -> Figure:
    """Rows: truth, prediction, absolute error; columns: frames from the first predicted to the last. 1-D: curves."""
    frames = 1 if surrogate.task == "autoencoder" else dataset.num_frames
    batch = next(dataset.batches([[Window(position, 0, frames)]]))
    predicted = surrogate.predicted(batch.to(surrogate.device))[0, ..., channel].cpu().numpy()
    truth = batch.fields[0, -len(predicted) :, :, channel].numpy()
    times = dataset.times[:frames][-len(predicted) :]
    chosen = np.unique(np.linspace(0, len(predicted) - 1, _FRAMES).round().astype(int))
    points = dataset.box.to_physical((batch.points if batch.points.ndim == 2 else batch.points[0]).numpy())
    error = np.abs(predicted - truth)
    relative = np.linalg.norm(predicted - truth, axis=1) / np.linalg.norm(truth, axis=1)
    field = surrogate.card.fields[channel]
    name = f"{field.name} [{field.unit}]" if field.unit else field.name
    description = dataset.file.description
    figure = Figure(figsize=(2.6 * len(chosen) + 1.6, 7.4), layout="constrained")
    axes = figure.subplots(3, len(chosen), squeeze=False)
    scale, error_scale = limits(truth[chosen]), {"vmin": 0.0, "vmax": float(error[chosen].max()) or 1.0, "cmap": "magma_r"}
    cells = description.cells if description.points is not None else dataset.file.trajectory(int(batch.samples[0])).cells
    rows = (("truth", truth, scale), ("prediction", predicted, scale), ("absolute error", error, error_scale))
    for row, (label, values, norm) in zip(axes, rows, strict=True):
        for place, frame in zip(row, chosen, strict=True):
            if points.shape[1] == 1:
                place.plot(points[:, 0], values[frame], linewidth=1.2)
                place.set_ylim(*(0, error_scale["vmax"]) if label == "absolute error" else (scale["vmin"], scale["vmax"]))
            else:
                drawn = draw_plane(place, points, cells, values[frame], description, norm)
                place.set(xticks=[], yticks=[])
                place.set_aspect("equal")
                if frame == chosen[-1]:
                    figure.colorbar(drawn, ax=row.tolist(), shrink=0.85)
        row[0].set_ylabel(label)
    for place, frame in zip(axes[0], chosen, strict=True):
        place.set_title(f"t = {times[frame]:.4g}\nrelative L2 {relative[frame]:.3f}", fontsize="medium")
    figure.suptitle(f"{name}, {dataset.split} trajectory {int(batch.samples[0])}")
    return figure
