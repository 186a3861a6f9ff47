"""Layers with everything frozen that depends on the geometry alone: neighbors, and kernels or hidden features."""

from __future__ import annotations

from dataclasses import replace

from calm_pde.engine.baking import frozen
from calm_pde.engine.chunks import Work
from calm_pde.engine.convolution import convolve
from calm_pde.engine.orders import Order
from calm_pde.models.calm.layer import CalmLayer, regrouped
from calm_pde.types import Float, Tensor


class BakedLayer:
    """One layer on one geometry. What is kept depends on the order of contraction, which depends on the number of rows; where
    kernels see parameters, it is the neighbors alone."""

    def __init__(self, layer: CalmLayer, points: Tensor, queries: Tensor | None, mask: Tensor | None, clouds: int) -> None:
        self.layer = layer
        self.clouds = clouds
        self.points = points.detach()
        self.where = layer.where(queries).detach()
        self.neighbors = layer.neighbors(self.points, queries, mask)
        self.filters, self.offset = (None, None) if layer.kernel.filters is None else layer.folded(layer.kernel.filters)
        self.frozen: dict[Order, Work] = {}
        self._works: dict[int, tuple[Work, Tensor, Tensor]] = {}

    def answered(
        self, x: Float[Tensor, "_ point _ in"], parameters: Float[Tensor, "batch parameter"] | None = None
    ) -> Float[Tensor, "_ query _ out"]:
        """Answers to features with the rows inside; a kernel that sees parameters is evaluated for these."""
        if parameters is None or self.layer.kernel.modulator is None:
            return self._convolved(regrouped(x, self.clouds))
        x = regrouped(x, len(parameters))
        return self.layer.convolve_rows(x, self.points, None, None, self.neighbors, parameters=parameters)

    def _convolved(self, x: Float[Tensor, "cloud point row in"]) -> Float[Tensor, "cloud query row out"]:
        layer, rows = self.layer, x.shape[2]
        if rows not in self._works:
            self._works[rows] = self._work(x.shape[1], rows)
        x = x.flatten(0, 1)
        if self.filters is None:
            x = layer.mix(x)
        tail = () if layer.mlp is None else layer.mlp.weights
        work, points, where = self._works[rows]
        y = convolve(work, x, points, where, self.filters, None, layer.bias, tail, ())
        return y.view(self.clouds, -1, rows, layer.out_channels)

    def _work(self, num_points: int, rows: int) -> tuple[Work, Tensor, Tensor]:
        """The work for so many rows, its points and queries; what an order has frozen serves all numbers of rows."""
        layer = self.layer
        work, points, where = layer.work(self.neighbors, self.points, self.where, self.clouds, num_points, rows, baked=True)
        if work.plan.order not in self.frozen:
            parameters = layer.kernel.geometry_parameters()
            found = frozen(work, points, where, self.filters, self.offset, layer.bias, parameters)
            self.frozen[work.plan.order] = found
        return replace(self.frozen[work.plan.order], plan=work.plan), points, where
