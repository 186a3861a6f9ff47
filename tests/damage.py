"""Bytes damaged as files come to be: cut off, a bit or a block of them changed, a block of zeros."""

from __future__ import annotations

import numpy as np

DAMAGES = ("truncate", "flip", "block", "zeros")


def damaged(whole: bytes, kind: str, draw: np.random.Generator, most: int = 512) -> bytes:
    """What is left of a file after one of DAMAGES, at a place and of a length that are drawn.

    Args:
        most: one more than the most bytes of a block.
    """
    raw = bytearray(whole)
    place = int(draw.integers(max(1, len(raw))))
    length = min(int(draw.integers(1, most)), len(raw) - place)
    if kind == "truncate":
        del raw[place:]
    elif kind == "flip":
        raw[place] ^= 1 << int(draw.integers(8))
    else:
        raw[place : place + length] = bytes(length) if kind == "zeros" else draw.bytes(length)
    return bytes(raw)
