"""A user's own arrays as a data file, in one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calm_pde.data.readers.arrays import array_source
from calm_pde.data.storage import DataFile
from calm_pde.data.writing import write


def from_arrays(
    points: Any,
    fields: Any,
    times: Any = None,
    *,
    out: str | Path,
    overwrite: bool = False,
    **more: Any,
) -> DataFile:
    """Write arrays or tensors to the data file `out`, and open it.

    Args:
        points: (point, dim) for all samples, in 1-D also (point,), or one such array per sample; physical coordinates.
        fields: (sample, time, point, channel), or one array (time, point, channel) per sample.
        times: (time,); by default 0, 1, 2, …
        more: what `array_source` takes: box, periodic, names, units, cells, node_type, features, parameters, signals,
            prescribed, split, ….
    """
    return write(array_source(points, fields, times, **more), out, overwrite)
