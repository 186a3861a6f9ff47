"""The latent trajectory as one differentiable function, with a backward by hand.

A step of a few hundred tokens is many small operations. Here each writes to its place in a record of all evaluations of ψ, and
the gradients of the weights are products over many evaluations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.plain import BlockWeights, ProcessorWeights, for_heads, formula_gradients, plain_attention, velocity
from calm_pde.engine.precision import full_precision
from calm_pde.engine.stepping import Method, Walk, walked
from calm_pde.engine.tail import gelu_backward_out, gelu_out
from calm_pde.engine.transforms import asks_for_formulas
from calm_pde.types import Float, Tensor

_TOGETHER = 2048  # rows (tokens of evaluations) whose weight gradients are one product


_OF_BLOCKS = ("heads", "normals", "moments", "scaled", "shares", "heard", "middles", "hidden", "active")


class _Record:
    """What evaluations of ψ leave behind for the backward, as (evaluation, row, …); rows are batch × token."""

    def __init__(self, like: Tensor, weights: ProcessorWeights, evaluations: int, heads: int) -> None:
        batch, tokens, channels = like.shape
        width, rows, blocks = len(weights.into), batch * tokens, len(weights.blocks)

        def new(*shape: int) -> Tensor:
            return POOL.new(like, evaluations, *shape)

        size = width // heads
        self.states = new(rows, channels)
        self.streams = [new(rows, width) for _ in range(blocks + 1)]
        self.heads = [new(3, batch * heads, tokens, size) for _ in range(blocks)]
        self.normals = [new(2, batch * heads, tokens, size) for _ in range(blocks)]
        self.moments = [new(2, 2, batch * heads, tokens, 1) for _ in range(blocks)]  # means, then one over the deviations
        self.scaled = [new(2, batch * heads, tokens, size) for _ in range(blocks)]
        self.shares = [new(batch * heads, tokens, tokens) for _ in range(blocks)]
        self.heard = [new(rows, width) for _ in range(blocks)]
        self.middles = [new(rows, width) for _ in range(blocks)]
        self.hidden = [new(rows, len(block.expand)) for block in weights.blocks]
        self.active = [new(rows, len(block.expand)) for block in weights.blocks]

    def tensors(self) -> tuple[Tensor, ...]:
        lists = (self.streams, *(getattr(self, name) for name in _OF_BLOCKS))
        return (self.states, *(value for values in lists for value in values))

    @classmethod
    def of(cls, tensors: tuple[Tensor, ...], blocks: int) -> _Record:
        record, rest = cls.__new__(cls), iter(tensors)
        record.states = next(rest)
        record.streams = [next(rest) for _ in range(blocks + 1)]
        for name in _OF_BLOCKS:
            setattr(record, name, [next(rest) for _ in range(blocks)])
        return record


class _Evaluator:
    """ψ − A and its transpose for tokens (batch × token, channel)."""

    def __init__(self, weights: ProcessorWeights, batch: int, heads: int, learns: bool) -> None:
        self.weights, self.batch, self.heads, self.learns = weights, batch, heads, learns
        self.tokens, self.width = weights.place.shape[-2:]
        self.size = self.width // heads
        self.scale = self.size**-0.5
        self.norms = [block.norm() for block in weights.blocks if learns]
        self.bias = for_heads(weights.nearness)
        if learns and self.bias.ndim == 4:  # of each sample or head: once for all evaluations
            self.bias = self.bias.expand(batch, heads, -1, -1).flatten(0, 1)

    def velocity(self, z: Tensor, record: _Record, number: int) -> Float[Tensor, "row channel"]:
        w = self.weights
        record.states[number] = z
        x = torch.mm(z, w.into.T, out=record.streams[0][number])
        x.view(self.batch, self.tokens, -1).add_(w.place)
        for depth, block in enumerate(w.blocks):
            qkv = torch.addmm(block.qkv_bias, x, block.qkv.T)
            heard = self._listen(qkv, record, depth, number) if self.learns else self._heard(block, qkv)
            middle = torch.add(x, block.out_bias, out=record.middles[depth][number]).addmm_(heard, block.out.T)
            hidden = torch.addmm(block.expand_bias, middle, block.expand.T, out=record.hidden[depth][number])
            x = torch.add(middle, block.reduce_bias, out=record.streams[depth + 1][number])
            x.addmm_(gelu_out(hidden, out=record.active[depth][number]), block.reduce.T)
        rate = torch.addmm(w.out_bias, x, w.out.T)
        return rate if w.damping is None else rate.addmm_(z, w.damping.T, alpha=-1)

    def _heard(self, block: BlockWeights, qkv: Tensor) -> Float[Tensor, "row width"]:
        """Attention where nothing is remembered."""
        query, key, value = self.by_row(qkv, 3).permute(2, 0, 3, 1, 4)
        query = layer_norm(query, [self.size], block.query_scale, block.query_shift)
        key = layer_norm(key, [self.size], block.key_scale, block.key_shift)
        heard = scaled_dot_product_attention(query, key, value, attn_mask=self.bias)
        return heard.transpose(1, 2).reshape(len(qkv), -1)

    def _listen(self, qkv: Tensor, record: _Record, depth: int, number: int) -> Float[Tensor, "row width"]:
        """The same, written down."""
        heads, normals, moments = record.heads[depth][number], record.normals[depth][number], record.moments[depth][number]
        self.by_head(heads, 3).copy_(self.by_row(qkv, 3).permute(2, 0, 3, 1, 4))
        places = {"out0": normals, "out1": moments[0], "out2": moments[1]}
        torch.ops.aten.native_layer_norm.out(heads[:2], [self.size], None, None, 1e-5, **places)
        scale, shift = self.norms[depth]
        query, key = torch.addcmul(shift, normals, scale, out=record.scaled[depth][number])
        value, heard, share = heads[2], record.heard[depth][number], record.shares[depth][number]
        bias = self.bias.expand_as(share)
        torch.softmax(torch.baddbmm(bias, query, key.transpose(1, 2), alpha=self.scale), dim=-1, out=share)
        self.by_row(heard, 1)[:, :, 0] = self.by_head(torch.bmm(share, value), 1)[0].transpose(1, 2)
        return heard

    def by_row(self, flat: Tensor, parts: int) -> Float[Tensor, "batch token part head channel"]:
        return flat.view(self.batch, self.tokens, parts, self.heads, self.size)

    def by_head(self, heads: Tensor, parts: int) -> Float[Tensor, "part batch head token channel"]:
        return heads.view(parts, self.batch, self.heads, self.tokens, self.size)


class _Gradients:
    """The transpose of ψ − A; gradients of the weights wait until many evaluations share one product."""

    def __init__(self, evaluator: _Evaluator, record: _Record) -> None:
        self.evaluator, self.record = evaluator, record
        weights = evaluator.weights
        self.totals = ProcessorWeights.grouped(tuple(value.new_zeros(value.shape) for value in weights.flat()))
        rows = record.states.shape[1]
        self.capacity = min(len(record.states), max(1, _TOGETHER // rows))
        self.waiting = 0
        self.lowest = len(record.states)
        self.logits = torch.zeros_like(record.shares[0][0])
        self.scales, self.shifts = ([torch.zeros_like(pair[0]) for pair in evaluator.norms] for _ in range(2))

        def new(name: str, width: int, depth: int = 0) -> Tensor:
            return SCRATCH.new(f"gradient of {name} {depth}", record.states, self.capacity, rows, width)

        self.out = new("out", record.states.shape[-1])
        self.streams = [new("streams", evaluator.width, depth) for depth, _ in enumerate(record.streams)]
        self.qkv = [new("qkv", 3 * evaluator.width, depth) for depth, _ in enumerate(record.heads)]
        self.middles = [new("middles", evaluator.width, depth) for depth, _ in enumerate(record.middles)]
        self.hidden = [new("hidden", value.shape[-1], depth) for depth, value in enumerate(record.hidden)]

    def transposed(self, grad: Tensor, number: int) -> Float[Tensor, "row channel"]:
        """The gradient of the state that evaluation `number` looked at; evaluations come in falling order."""
        if self.waiting == self.capacity:
            self.flush()
        evaluator, record, place = self.evaluator, self.record, self.capacity - 1 - self.waiting
        weights = evaluator.weights
        self.lowest, self.waiting = number, self.waiting + 1
        self.out[place] = grad
        after = torch.mm(grad, weights.out, out=self.streams[-1][place])
        for depth in reversed(range(len(weights.blocks))):
            block, hidden = weights.blocks[depth], record.hidden[depth][number]
            grad_hidden = torch.mm(after, block.reduce, out=self.hidden[depth][place])
            gelu_backward_out(grad_hidden, hidden, grad_input=grad_hidden)
            middle = torch.addmm(after, grad_hidden, block.expand, out=self.middles[depth][place])
            self._attention(depth, number, torch.mm(middle, block.out), self.qkv[depth][place])
            after = torch.addmm(middle, self.qkv[depth][place], block.qkv, out=self.streams[depth][place])
        found = after @ weights.into
        return found if weights.damping is None else found.addmm_(grad, weights.damping, alpha=-1)

    def _attention(self, depth: int, number: int, grad: Tensor, grad_qkv: Tensor) -> None:
        """Writes the gradient of queries, keys and values."""
        evaluator, record = self.evaluator, self.record
        heads, normals, moments = (values[depth][number] for values in (record.heads, record.normals, record.moments))
        share, (query, key) = record.shares[depth][number], record.scaled[depth][number]
        coming = evaluator.by_row(grad, 1)[:, :, 0].transpose(1, 2).reshape(heads.shape[1:])
        logits = torch._softmax_backward_data(torch.bmm(coming, heads[2].transpose(1, 2)), share, -1, share.dtype)
        self.logits += logits
        logits *= evaluator.scale
        grads = torch.empty_like(heads)
        torch.bmm(logits, key, out=grads[0])
        torch.bmm(logits.transpose(1, 2), query, out=grads[1])
        torch.bmm(share.transpose(1, 2), coming, out=grads[2])
        both = grads[:2]
        self.scales[depth] += (both * normals).sum(dim=(1, 2), keepdim=True)
        self.shifts[depth] += both.sum(dim=(1, 2), keepdim=True)
        both *= evaluator.norms[depth][0]
        both.copy_(
            torch.ops.aten.native_layer_norm_backward(
                both, heads[:2], [evaluator.size], *moments, None, None, [True, False, False]
            )[0]
        )
        evaluator.by_row(grad_qkv, 3).copy_(evaluator.by_head(grads, 3).permute(1, 3, 0, 2, 4))

    def flush(self) -> None:
        """Weight gradients of all evaluations that wait."""
        seen, waiting = slice(self.lowest, self.lowest + self.waiting), slice(self.capacity - self.waiting, self.capacity)
        record, totals = self.record, self.totals

        def add(weight: Tensor, bias: Tensor | None, grads: Tensor, inputs: Tensor) -> None:
            flat = grads[waiting].flatten(0, 1)
            weight.addmm_(flat.T, inputs.flatten(0, 1))
            if bias is not None:
                bias += flat.sum(dim=0)

        totals.place.add_(self.streams[0][waiting].view(-1, *totals.place.shape).sum(dim=0))
        add(totals.into, None, self.streams[0], record.states[seen])
        add(totals.out, totals.out_bias, self.out, record.streams[-1][seen])
        for depth, total in enumerate(totals.blocks):
            add(total.qkv, total.qkv_bias, self.qkv[depth], record.streams[depth][seen])
            add(total.out, total.out_bias, self.middles[depth], record.heard[depth][seen])
            add(total.expand, total.expand_bias, self.hidden[depth], record.middles[depth][seen])
            add(total.reduce, total.reduce_bias, self.streams[depth + 1], record.active[depth][seen])
        if totals.damping is not None:
            totals.damping.addmm_(self.out[waiting].flatten(0, 1).T, record.states[seen].flatten(0, 1), alpha=-1)
        self.waiting = 0

    def all(self) -> tuple[Tensor, ...]:
        """The gradients of all weights, once every evaluation has been transposed."""
        self.flush()
        blocks = tuple(
            total._replace(
                query_scale=scales[0, 0, 0], key_scale=scales[1, 0, 0], query_shift=shifts[0, 0, 0], key_shift=shifts[1, 0, 0]
            )
            for total, scales, shifts in zip(self.totals.blocks, self.scales, self.shifts, strict=True)
        )
        return self.totals._replace(nearness=self._nearness(), blocks=blocks).flat()

    def _nearness(self) -> Tensor:
        """Its gradient: that of the logits, summed over all that it is added to."""
        shape = self.totals.nearness.shape
        if len(shape) == 2:
            return self.logits.sum(dim=0)
        logits = self.logits.unflatten(0, (-1, self.evaluator.heads))
        return logits.sum(dim=1) if len(shape) == 3 else logits.sum_to_size(shape)


def _states(
    evaluator: _Evaluator, z: Tensor, way: Walk, method: Method, record: _Record
) -> Float[Tensor, "state batch token channel"]:
    """All states of the walk; a record with one place only is written to again and again."""
    states = z.new_empty(len(way.steps) + 1, *z.shape)
    states[0] = z
    number, last = 0, len(record.states) - 1
    for step, (start, size) in enumerate(way.steps):
        here = states[start].flatten(0, 1)
        later, velocity = states[step + 1].flatten(0, 1).copy_(here), None
        for reach, weight in zip(*method, strict=True):
            where = here if velocity is None else torch.add(here, velocity, alpha=size * reach)
            velocity = evaluator.velocity(where, record, min(number, last))
            later.add_(velocity, alpha=size * weight)
            number += 1
    return states


class _Trajectory(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, way: Walk, method: Method, heads: int, z: Tensor, *flat: Tensor) -> Tensor:
        weights = ProcessorWeights.grouped(flat)
        record = _Record(z, weights, len(way.steps) * len(method.weights), heads)
        states = _states(_Evaluator(weights, len(z), heads, True), z, way, method, record)
        ctx.way, ctx.method, ctx.heads, ctx.num_inputs = way, method, heads, 1 + len(flat)
        ctx.save_for_backward(z, *flat, *record.tensors())
        return states[way.visits].transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if asks_for_formulas(grads[0]):
            formula = partial(_formula, ctx.way, ctx.method, ctx.heads)
            with plain_attention():
                return None, None, None, *formula_gradients(formula, ctx.saved_tensors[: ctx.num_inputs], grads[0])
        with full_precision(grads[0]):
            return None, None, None, *_Trajectory.gradients(ctx, grads[0])

    @staticmethod
    def gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        way, method = ctx.way, ctx.method
        weights = ProcessorWeights.grouped(ctx.saved_tensors[1 : ctx.num_inputs])
        record = _Record.of(ctx.saved_tensors[ctx.num_inputs :], len(weights.blocks))
        visited = grad.transpose(0, 1)
        evaluator = _Evaluator(weights, visited.shape[1], ctx.heads, True)
        gradients = _Gradients(evaluator, record)
        of_states = visited.new_zeros(len(way.steps) + 1, *record.states.shape[1:])
        of_states.index_add_(0, torch.tensor(way.visits, device=visited.device), visited.flatten(1, 2))
        number = len(record.states)
        for step, (start, size) in reversed(list(enumerate(way.steps))):
            later, passed = of_states[step + 1], None
            here = of_states[start].add_(later)
            for stage in reversed(range(len(method.weights))):
                number -= 1
                of_velocity = later * (size * method.weights[stage])
                if passed is not None:
                    of_velocity.add_(passed, alpha=size * method.reaches[stage + 1])
                passed = gradients.transposed(of_velocity, number)
                here.add_(passed)
        return of_states[0].view(visited.shape[1:]), *gradients.all()


def _formula(way: Walk, method: Method, heads: int, inputs: Sequence[Tensor]) -> Tensor:
    """The trajectory as its formula, of the start and all weights."""
    z, *flat = inputs
    return walked(partial(velocity, ProcessorWeights.grouped(tuple(flat)), heads), z, way, method)


def latent_states(
    weights: ProcessorWeights,
    heads: int,
    z: Float[Tensor, "batch token channel"],
    way: Walk,
    method: Method,
) -> Float[Tensor, "batch time token channel"]:
    """The states that the walk visits."""
    if not way.steps:
        return torch.stack([z] * len(way.visits), dim=1)
    if torch.is_grad_enabled():
        return _Trajectory.apply(way, method, heads, z, *weights.flat())  # pyright: ignore[reportReturnType]
    record = _Record(z, weights, 1, heads)
    return _states(_Evaluator(weights, len(z), heads, False), z, way, method, record)[way.visits].transpose(0, 1)
