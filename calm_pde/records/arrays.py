"""Arrays as users give them: what must not be lost on the way in is refused by name."""

from __future__ import annotations

import numpy as np

from calm_pde.errors import InputError
from calm_pde.types import Tensor


def check_plain(name: str, values: object) -> None:
    """No hidden entries and no imaginary parts, which NumPy would drop without a word; in lists of arrays neither."""
    if isinstance(values, list | tuple):
        for place, value in enumerate(values):
            check_plain(f"{name}[{place}]", value)
    elif isinstance(values, np.ndarray) and np.ma.is_masked(values):
        count = int(np.ma.getmaskarray(values).sum())
        fix = "Fill or leave out what the mask hides; its values would be used as they are."
        raise InputError(name, expected="an array without a mask", got=f"{count} masked entries", fix=fix)
    elif _is_complex(values):
        fix = "Give real and imaginary parts as two channels, or the part that you mean."
        raise InputError(name, expected="real numbers", got=f"{getattr(values, 'dtype', 'complex')}", fix=fix)


def _is_complex(values: object) -> bool:
    if isinstance(values, Tensor):
        return values.is_complex()
    return isinstance(values, complex | np.complexfloating) or getattr(getattr(values, "dtype", None), "kind", "") == "c"
