"""The paper's formulas as a careful user would write them in PyTorch: the side that benchmarks compare with.

Dense distances, `torch.quantile` once per layer, materialized kernels, gather and einsum; all frames decoded in one call. It
reads the weights of a `CalmPDE`, so that both sides compute the same numbers (tests/benchmarks).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

import calm_pde as cp
from calm_pde.models.calm.layer import CalmLayer
from calm_pde.models.calm.processor.processor import Processor


def layer(module: CalmLayer, x: Tensor, points: Tensor, queries: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """x (batch, point, in) on one shared cloud (point, dim) -> (batch, query, out), queries."""
    kernel = module.kernel
    queries = module.queries if queries is None else queries
    periodic = torch.tensor(module.periodic, dtype=x.dtype)

    difference = queries[:, None] - points[None, :]
    difference = difference - torch.floor(difference.detach() + 0.5) * periodic
    squared = difference.square().sum(-1)
    with torch.no_grad():
        distance = squared.sqrt()
        reach = torch.quantile(distance, module.receptive_field, dim=-1, keepdim=True, interpolation="lower") * (1 + 1e-5)
        inside = distance <= reach
        count = int(inside.sum(-1).max())
        nearest = distance.topk(count, dim=-1, largest=False)
        index, valid = nearest.indices, nearest.values <= reach
    near = difference.gather(1, index[..., None].expand(-1, -1, difference.shape[-1]))
    near_squared = squared.gather(1, index)

    shifted = near_squared - near_squared.amin(-1, keepdim=True)
    span = shifted.masked_fill(~valid, 0.0).amax(-1, keepdim=True) + 1e-8
    weight = (-shifted / span / kernel.temperature).masked_fill(~valid, -math.inf).softmax(-1)
    phase = 2 * math.pi * near @ kernel.fourier.frequencies
    hidden = kernel.hidden(torch.cat([phase.sin(), phase.cos()], -1))
    if kernel.scale is not None:
        hidden = hidden * kernel.scale[:, None] + kernel.shift[:, None]
    flat = F.gelu(hidden) @ kernel.filters[:-1].flatten(1) + kernel.filters[-1].flatten()
    matrices = flat.view(*index.shape, module.in_channels, module.out_channels) * weight[..., None, None]

    y = torch.einsum("bqki,qkio->bqo", module.mix(x)[:, index], matrices) + module.bias
    if module.mlp is not None:
        y = F.gelu(y)
        y = y + module.mlp.reduce(F.gelu(module.mlp.expand(y)))
    return y, queries


def processor(module: Processor, z: Tensor, p: Tensor) -> Tensor:
    x = module.to_in(torch.cat([z, module.fourier(p).expand(len(z), -1, -1)], -1))
    difference = p[:, None] - p[None, :]
    difference = difference - torch.floor(difference.detach() + 0.5) * torch.tensor(module.periodic, dtype=x.dtype)
    bias = -difference.square().sum(-1)
    for block in module.blocks:
        attention = block.attention
        q, k, v = attention.to_qkv(x).unflatten(-1, (3, attention.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = attention.norm_query(q), attention.norm_key(k)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]) + bias).softmax(-1)
        x = x + attention.to_out((scores @ v).transpose(1, 2).flatten(2))
        x = x + block.mlp.reduce(F.gelu(block.mlp.expand(x)))
    return module.to_out(x)


def encode(model: cp.CalmPDE, values: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    z, p = values, points
    for module in model.encoder:
        z, p = layer(module, z, p)
    return z, p


def advance(model: cp.CalmPDE, z: Tensor, p: Tensor, num_steps: int) -> Tensor:
    states = [z]
    for _ in range(num_steps):
        states.append(states[-1] + processor(model.processor, states[-1], p))
    return torch.stack(states, 1)


def decode(model: cp.CalmPDE, zs: Tensor, p: Tensor, queries: Tensor) -> Tensor:
    x = zs.flatten(0, 1)
    for module in model.decoder:
        x, p = layer(module, x, p, queries if module.queries is None else None)
    return x.unflatten(0, zs.shape[:2])
