"""Layers with everything frozen that depends on the geometry alone: neighbors, and kernels or hidden features."""

from __future__ import annotations

from calm_pde.nn.convolution import Work, convolve, frozen
from calm_pde.nn.layer import CalmLayer
from calm_pde.types import Float, Tensor


class BakedLayer:
    """One layer on one geometry. What is kept depends on the order of contraction, which depends on the number of rows."""

    def __init__(self, layer: CalmLayer, points: Tensor, queries: Tensor | None, mask: Tensor | None, clouds: int) -> None:
        self.layer = layer
        self.clouds = clouds
        self.points = points.detach()
        self.where = layer.where(queries).detach()
        self.neighbors = layer.neighbors(self.points, queries, mask)
        self.filters, self.offset = (None, None) if layer.kernel.filters is None else layer.folded(layer.kernel.filters)
        self._works: dict[str, Work] = {}

    def convolve_rows(self, x: Float[Tensor, "cloud point row in"]) -> Float[Tensor, "cloud query row out"]:
        layer, rows = self.layer, x.shape[2]
        work, points, where = layer.work(self.neighbors, self.points, self.where, self.clouds, x.shape[1], rows, baked=True)
        kept = self._works.get(work.plan.order)
        if kept is None:
            parameters = layer.kernel.geometry_parameters
            kept = frozen(work, points, where, self.filters, self.offset, layer.bias, parameters)
            self._works[work.plan.order] = kept
        kept.plan = work.plan
        x = x.flatten(0, 1)
        if self.filters is None:
            x = layer.mix(x)
        tail = () if layer.mlp is None else layer.mlp.weights
        y = convolve(kept, x, points, where, self.filters, None, layer.bias, tail, ())
        return y.view(self.clouds, -1, rows, layer.out_channels)
