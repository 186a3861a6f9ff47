"""Continuous convolution at given neighbors: gather features, weigh them by the kernel, sum over neighbors and channels."""

from __future__ import annotations

import torch

from calm_pde.types import Float, Int, Shaped, Tensor


def gather(
    values: Shaped[Tensor, "#cloud point channel"], index: Int[Tensor, "cloud query neighbor"]
) -> Shaped[Tensor, "cloud query neighbor channel"]:
    """values[cloud, index[cloud, query, neighbor]]; one cloud of values may serve all."""
    if len(values) == 1:
        return values[0][index]
    cloud = torch.arange(len(index), device=index.device)[:, None, None]
    return values[cloud, index]


def convolve_factored(
    features: Float[Tensor, "cloud query neighbor hidden"],
    filters: Float[Tensor, "hidden in out"],
    x: Float[Tensor, "cloud row point in"],
    index: Int[Tensor, "cloud query neighbor"],
) -> Float[Tensor, "cloud row query out"]:
    """Σ_m Σ_i Σ_h features_h(a_j, α_m)·filters_hio·x_i(α_m): the kernel is a product of features and filters."""
    pooled = torch.einsum("cqnh,crqni->crqhi", features, _gather_rows(x, index))
    return torch.einsum("crqhi,hio->crqo", pooled, filters)


def convolve_dense(
    kernel: Float[Tensor, "cloud query neighbor in out"],
    x: Float[Tensor, "cloud row point in"],
    index: Int[Tensor, "cloud query neighbor"],
) -> Float[Tensor, "cloud row query out"]:
    """Σ_m Σ_i k_io(a_j − α_m)·x_i(α_m) for a kernel without low rank."""
    return torch.einsum("cqnio,crqni->crqo", kernel, _gather_rows(x, index))


def _gather_rows(
    x: Float[Tensor, "cloud row point in"], index: Int[Tensor, "cloud query neighbor"]
) -> Float[Tensor, "cloud row query neighbor in"]:
    if len(x) == 1:
        return x[:, :, index[0]]
    cloud = torch.arange(len(x), device=x.device)[:, None, None, None]
    row = torch.arange(x.shape[1], device=x.device)[None, :, None, None]
    return x[cloud, row, index[:, None]]
