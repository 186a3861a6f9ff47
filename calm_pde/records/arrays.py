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


def check_undifferentiated(name: str, values: object) -> None:
    """Nothing that derivatives are asked by, in lists neither: turned into numbers, it would lose them."""
    if isinstance(values, list | tuple):
        for place, value in enumerate(values):
            check_undifferentiated(f"{name}[{place}]", value)
    elif isinstance(values, Tensor) and values.requires_grad:
        fix = f"Pass {name}.detach(); for derivatives use surrogate.differentiable(points), a module."
        raise InputError(
            name, expected="plain numbers, through which nothing is differentiated", got="a tensor with gradient", fix=fix
        )


def _is_complex(values: object) -> bool:
    if isinstance(values, Tensor):
        return values.is_complex()
    return isinstance(values, complex | np.complexfloating) or getattr(getattr(values, "dtype", None), "kind", "") == "c"


def finite_numbers(name: str, values: object) -> np.ndarray:
    """Finite real numbers in float64."""
    check_plain(name, values)
    check_undifferentiated(name, values)
    try:
        if values is None:
            raise TypeError("None")
        array = np.asarray(values.cpu() if isinstance(values, Tensor) else values, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(name, expected="an array of numbers", got=str(error), fix="Convert it with np.asarray.") from error
    if not np.isfinite(array).all():
        raise InputError(
            name, expected="finite numbers", got=f"{int((~np.isfinite(array)).sum())} that are not", fix="Remove them."
        )
    return array
