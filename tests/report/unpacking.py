"""Reads the arrays of a report back, as the page does."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def unpacked(array: dict[str, Any]) -> np.ndarray:
    kind = {"float32": "<f4", "uint32": "<u4", "uint16": "<u2", "uint8": "u1"}[array["type"]]
    planes = np.frombuffer(zlib.decompress(base64.b64decode(array["data"])), dtype=np.uint8)
    values = np.ascontiguousarray(planes.reshape(np.dtype(kind).itemsize, -1).T).view(kind).reshape(array["shape"])
    if array["deltas"]:
        values = np.cumsum(values, axis=0, dtype=kind)
    if kind in ("<f4", "<u4"):
        return values
    return array["low"] + values * ((array["high"] - array["low"]) / (2 ** (8 * np.dtype(kind).itemsize) - 1))
