"""Shape-annotated tensor types; jaxtyping where it is installed (development), plain tensors elsewhere.

One vocabulary of axes holds everywhere: `batch time point query neighbor channel in out dim head token`; `cloud` counts
the distinct geometries of a call: 1 where all samples share one, else the batch; `row` runs over batch × time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

if TYPE_CHECKING:
    from jaxtyping import Bool, Complex, Float, Int
else:
    try:
        from jaxtyping import Bool, Complex, Float, Int
    except ImportError:  # annotations are only evaluated by the test run's import hook, which needs jaxtyping anyway

        class _Unchecked:
            def __class_getitem__(cls, item):
                return item[0]

        Bool = Complex = Float = Int = _Unchecked

__all__ = ["Bool", "Complex", "Float", "Int", "Tensor"]
