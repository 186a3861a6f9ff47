"""The Fourier transform between scattered points and the kept modes of a grid, with separable factors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch.utils.checkpoint import checkpoint

from calm_pde.types import Complex, Float, Tensor

Symmetry = Literal["fixed", "legacy"]

_BASIS_BYTES = 64 * 2**20  # of the waves at some points, held at once


def waves(positions: Float[Tensor, "cloud point dim"], modes: int) -> tuple[Complex[Tensor, "cloud point _"], ...]:
    """exp(2πi k ξ_a) for every axis a and each of its kept k; their product over the axes is exp(2πi k·ξ)."""
    last = torch.arange(modes, device=positions.device)
    full = torch.cat([last, last - modes])
    found = []
    for axis, coordinate in enumerate(positions.unbind(dim=-1)):
        k = last if axis == positions.shape[-1] - 1 else full
        phase = 2 * math.pi * coordinate[..., None] * k
        found.append(torch.polar(torch.ones_like(phase), phase))
    return tuple(found)


def conjugate_waves(
    positions: Float[Tensor, "cloud point dim"], modes: int, symmetry: Symmetry
) -> tuple[Complex[Tensor, "cloud point _"], ...]:
    """The waves with what the dropped half of the spectrum adds to each: h(ξ) = Re Σ_k V[k]·w(k, ξ)·exp(2πi k·ξ).

    A real field has V[−k] = V[k]*, so each mode off the plane k_last = 0 counts twice: w = 2, `fixed`, the exact
    counterpart of the real inverse FFT. The published Geo-FNO mirrors the rows instead, which pairs k₁ with −k₁ − 1 and
    gives w = 1 + exp(2πi Σ_{a<d} ξ_a), `legacy`: it does not invert the forward transform, though training can live with it.
    """
    *rows, last = waves(positions, modes)
    if symmetry == "fixed":
        weight = last.new_full((), 2.0)
    else:
        phase = 2 * math.pi * positions[..., :-1].sum(dim=-1, keepdim=True)
        weight = 1 + torch.polar(torch.ones_like(phase), phase)
    return (*rows, torch.cat([last[..., :1], weight * last[..., 1:]], dim=-1))


class NonuniformTransform:
    """Sums over scattered points, or over modes at scattered points, with waves given by their factors.

    There is no fast way for points without order: both directions are one real matrix product with the matrix
    (point, mode × 2) of the waves' real and minus their imaginary parts. It is kept where it is small. Where it is not,
    it is made anew for some points at a time, and again in the backward pass, so that memory stays bounded.
    """

    def __init__(self, factors: tuple[Complex[Tensor, "cloud point _"], ...]) -> None:
        self.factors = factors
        self.shape = tuple(factor.shape[-1] for factor in factors)
        bytes_per_point = len(factors[0]) * math.prod(self.shape) * factors[0].element_size()
        self.chunk = max(1, _BASIS_BYTES // bytes_per_point)
        self._whole = _matrix(*factors) if self.chunk >= factors[0].shape[1] else None

    def modes_of(self, values: Float[Tensor, "cloud row point"]) -> Complex[Tensor, "cloud row *mode"]:
        """ĥ[k] = Σ_n h[n]·exp(−2πi k·ξ_n): a plain sum, without weights."""
        pieces = values.split(self.chunk, dim=-1)
        sums = [self._with_matrix(start, torch.matmul, piece) for start, piece in self._places(pieces)]
        total = sums[0] if len(sums) == 1 else torch.stack(sums).sum(dim=0)
        return torch.view_as_complex(total.unflatten(-1, (*self.shape, 2)))

    def values_of(self, spectrum: Complex[Tensor, "cloud row *mode"]) -> Float[Tensor, "cloud row point"]:
        """h(ξ_n) = Re Σ_k V[k]·wave_k(ξ_n), not divided by anything."""
        parts = torch.view_as_real(spectrum).flatten(2)
        starts = range(0, self.factors[0].shape[1], self.chunk)
        return torch.cat([self._with_matrix(start, _times_transposed, parts) for start in starts], dim=-1)

    def _places(self, pieces: tuple[Tensor, ...]) -> list[tuple[int, Tensor]]:
        return [(place * self.chunk, piece) for place, piece in enumerate(pieces)]

    def _with_matrix(self, start: int, product: Callable[[Tensor, Tensor], Tensor], x: Tensor) -> Tensor:
        if self._whole is not None:
            return product(x, self._whole)
        some = [factor[:, start : start + self.chunk] for factor in self.factors]

        def anew(x: Tensor, *factors: Tensor) -> Tensor:
            return product(x, _matrix(*factors))

        return checkpoint(anew, x, *some, use_reentrant=False)  # pyright: ignore[reportReturnType]


def _matrix(*factors: Complex[Tensor, "cloud point _"]) -> Float[Tensor, "cloud point _"]:
    """Re and −Im of the factors' products, side by side for each mode."""
    product = factors[0]
    for factor in factors[1:]:
        product = (product[..., None] * factor[..., None, :]).flatten(2)
    return torch.view_as_real(product.conj().resolve_conj()).flatten(2)


def _times_transposed(x: Tensor, matrix: Tensor) -> Tensor:
    return x @ matrix.mT
