"""Arrays for the page: quantized, delta-coded in time, deflated, as base64 text."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np


def packed(values: np.ndarray) -> dict[str, Any]:
    """Exact: floats as float32, whole numbers as uint32."""
    kind = "<f4" if np.asarray(values).dtype.kind == "f" else "<u4"
    return _array(np.ascontiguousarray(values, dtype=kind), 0.0, 0.0)


def quantized(values: np.ndarray, *, bits: int = 16, deltas: bool = False) -> tuple[dict[str, Any], np.ndarray]:
    """As whole numbers of 8 or 16 bits on the range of the values, and what the page will see of them.

    The page is off by at most (high − low) / (2 (2ᵇⁱᵗˢ − 1)).

    Args:
        deltas: keep differences along the first axis instead, modulo 2ᵇⁱᵗˢ, which deflate better where time goes on smoothly.
    """
    values = np.asarray(values, dtype=np.float64)
    low, high = (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)
    steps, kind = 2**bits - 1, f"<u{bits // 8}"
    codes = np.rint((values - low) * (steps / (high - low if high > low else 1.0))).astype(kind)
    seen = low + codes * ((high - low) / steps)
    if deltas:
        codes[1:] -= codes[:-1].copy()
    return _array(codes, low, high, deltas), seen


def _array(values: np.ndarray, low: float, high: float, deltas: bool = False) -> dict[str, Any]:
    """Byte planes, all lowest bytes first: neighbors in them are alike, and that deflates better."""
    size = values.dtype.itemsize
    planes = np.ascontiguousarray(values).view(np.uint8).reshape(-1, size).T.tobytes()
    text = base64.b64encode(zlib.compress(planes, 6)).decode()
    kind = {"f": "float", "u": "uint"}[values.dtype.kind] + str(8 * size)
    return {"shape": list(values.shape), "type": kind, "low": low, "high": high, "deltas": deltas, "data": text}
