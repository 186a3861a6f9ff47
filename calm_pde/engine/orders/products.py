"""Matrix products that add to a sum or write to memory that no cache holds, and rows that are gathered."""

from __future__ import annotations

from calm_pde.types import Float, Tensor


def add_product(total: Tensor, a: Tensor, b: Tensor) -> None:
    """total += a @ b, for matrices or batches of them; a total in a wider type than theirs takes the product as it comes."""
    if total.dtype != a.dtype:
        total += a @ b
    elif a.ndim == 2:
        total.addmm_(a, b)
    else:
        total.baddbmm_(a, b)


def write_product(out: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """out = a @ b, for matrices or batches of them, where little is summed into an `out` that no cache holds.

    Zeros first: they fetch the memory at full speed, which a product that writes a little here and there does not.
    """
    return out.zero_().addmm_(a, b) if a.ndim == 2 else out.zero_().baddbmm_(a, b)


def chosen_rows(rows: Float[Tensor, "row column"], index: Tensor) -> Tensor:
    """rows[index], as a copy of whole rows."""
    return rows.index_select(0, index.flatten()).view(*index.shape, -1)
