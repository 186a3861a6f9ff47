"""The latent trajectory as one differentiable function, with a backward by hand.

A step of a few hundred tokens is many small operations. Here each writes to its place in a record of all evaluations of ψ, and
the gradients of the weights are products over many evaluations at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from calm_pde.engine.buffers import POOL, SCRATCH
from calm_pde.engine.plain import (
    BlockWeights,
    Modulation,
    ProcessorWeights,
    for_heads,
    formula_gradients,
    plain_attention,
    velocity,
)
from calm_pde.engine.precision import full_precision
from calm_pde.engine.stepping import Method, Walk, walked
from calm_pde.engine.tail import gelu_backward_out, gelu_out
from calm_pde.engine.transforms import asks_for_formulas
from calm_pde.types import Float, Tensor

_TOGETHER = 2048  # rows (tokens of evaluations) whose weight gradients are one product


_OF_BLOCKS = ("heads", "normals", "moments", "scaled", "shares", "heard", "middles", "hidden", "active")
_OF_MODULATED = ("seen", "seen_by_mlp", "said", "said_by_mlp")  # what sub-blocks see and answer, where conditions change it
_ATTENTION, _MLP = 0, 1  # the sub-blocks
_GAIN, _SCALE, _SHIFT = 0, 1, 2


class _Record:
    """What evaluations of ψ leave behind for the backward, as (evaluation, row, …); rows are batch × token."""

    def __init__(self, like: Tensor, weights: ProcessorWeights, evaluations: int, heads: int, modulated: bool) -> None:
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
        self.seen, self.seen_by_mlp, self.said, self.said_by_mlp = (
            [new(rows, width) for _ in range(blocks if modulated else 0)] for _ in _OF_MODULATED
        )

    def tensors(self) -> tuple[Tensor, ...]:
        lists = (self.streams, *(getattr(self, name) for name in (*_OF_BLOCKS, *_OF_MODULATED)))
        return (self.states, *(value for values in lists for value in values))

    @classmethod
    def of(cls, tensors: tuple[Tensor, ...], blocks: int, modulated: bool) -> _Record:
        record, rest = cls.__new__(cls), iter(tensors)
        record.states = next(rest)
        record.streams = [next(rest) for _ in range(blocks + 1)]
        for name in _OF_BLOCKS:
            setattr(record, name, [next(rest) for _ in range(blocks)])
        for name in _OF_MODULATED:
            setattr(record, name, [next(rest) for _ in range(blocks if modulated else 0)])
        return record

    def inputs(self, depth: int, part: int) -> Tensor:
        """What a sub-block saw."""
        plain, modulated = ((self.streams, self.seen), (self.middles, self.seen_by_mlp))[part]
        return (modulated or plain)[depth]


class _Change(NamedTuple):
    """What conditions make of one sub-block f in one evaluation, x + gain f(scale x + shift), and its place in the record.

    Args:
        grads: in the backward, where the gradients of gain, scale and shift are summed.
    """

    gain: Float[Tensor, "batch 1 width"]
    scale: Float[Tensor, "batch 1 width"]
    shift: Float[Tensor, "batch 1 width"]
    seen: Float[Tensor, "row width"]
    said: Float[Tensor, "row width"]
    grads: Float[Tensor, "batch 3 width"]

    def read(self, x: Tensor) -> Float[Tensor, "row width"]:
        """What f sees."""
        torch.addcmul(self.shift, self.by_sample(x), self.scale, out=self.by_sample(self.seen))
        return self.seen

    def join(self, x: Tensor, heard: Tensor, weight: Tensor, bias: Tensor, out: Tensor) -> Float[Tensor, "row width"]:
        """The stream with what f says, of which its last map is still to be done."""
        said = torch.addmm(bias, heard, weight.T, out=self.said)
        torch.addcmul(self.by_sample(x), self.by_sample(said), self.gain, out=self.by_sample(out))
        return out

    def of_said(self, grad: Tensor, out: Tensor) -> Float[Tensor, "row width"]:
        """The gradient of what f says from that of the stream behind it."""
        self.grads[:, _GAIN] += (self.by_sample(grad) * self.by_sample(self.said)).sum(dim=1)
        torch.mul(self.by_sample(grad), self.gain, out=self.by_sample(out))
        return out

    def of_stream(self, grad: Tensor, behind: Tensor, x: Tensor, out: Tensor) -> Float[Tensor, "row width"]:
        """The gradient of the stream x from that of what f sees and that of the stream behind it."""
        of_seen = self.by_sample(grad)
        self.grads[:, _SCALE] += (of_seen * self.by_sample(x)).sum(dim=1)
        self.grads[:, _SHIFT] += of_seen.sum(dim=1)
        torch.addcmul(self.by_sample(behind), of_seen, self.scale, out=self.by_sample(out))
        return out

    def by_sample(self, rows: Tensor) -> Float[Tensor, "batch token width"]:
        return rows.view(len(self.gain), -1, rows.shape[-1])


class _Evaluator:
    """ψ − A and its transpose for tokens (batch × token, channel)."""

    def __init__(self, weights: ProcessorWeights, modulation: Modulation | None, batch: int, heads: int, learns: bool) -> None:
        self.weights, self.modulation = weights, modulation
        self.batch, self.heads, self.learns = batch, heads, learns
        self.tokens, self.width = weights.place.shape[-2:]
        self.size = self.width // heads
        self.scale = self.size**-0.5
        self.norms = [block.norm() for block in weights.blocks if learns]
        self.bias = for_heads(weights.nearness)
        if learns and self.bias.ndim == 4:  # of each sample or head: once for all evaluations
            self.bias = self.bias.expand(batch, heads, -1, -1).flatten(0, 1)
        if modulation is not None:
            one = modulation.table.new_tensor([1.0, 1.0, 0.0])[:, None]  # of gain and scale, for 1 + g and 1 + s
            self.factors = (modulation.table + one)[..., None, :].movedim(1, 4).contiguous()
            self.grads = torch.zeros_like(modulation.table)

    def velocity(self, z: Tensor, time: float, record: _Record, number: int) -> Float[Tensor, "row channel"]:
        w = self.weights
        record.states[number] = z
        x = torch.mm(z, w.into.T, out=record.streams[0][number])
        x.view(self.batch, self.tokens, -1).add_(w.place)
        for depth, block in enumerate(w.blocks):
            change = self.change(time, record, number, depth, _ATTENTION)
            qkv = torch.addmm(block.qkv_bias, x if change is None else change.read(x), block.qkv.T)
            heard = self._listen(qkv, record, depth, number) if self.learns else self._heard(block, qkv)
            middle = _joined(change, x, heard, block.out, block.out_bias, record.middles[depth][number])
            change = self.change(time, record, number, depth, _MLP)
            seen = middle if change is None else change.read(middle)
            hidden = torch.addmm(block.expand_bias, seen, block.expand.T, out=record.hidden[depth][number])
            active = gelu_out(hidden, out=record.active[depth][number])
            x = _joined(change, middle, active, block.reduce, block.reduce_bias, record.streams[depth + 1][number])
        rate = torch.addmm(w.out_bias, x, w.out.T)
        return rate if w.damping is None else rate.addmm_(z, w.damping.T, alpha=-1)

    def change(self, time: float, record: _Record, number: int, depth: int, part: int) -> _Change | None:
        """What conditions make of a sub-block at a time; None where there are none."""
        if self.modulation is None:
            return None
        seen, said = ((record.seen, record.said), (record.seen_by_mlp, record.said_by_mlp))[part]
        place = self.modulation.place(time)
        gain, scale, shift = self.factors[place, depth, part]
        return _Change(gain, scale, shift, seen[depth][number], said[depth][number], self.grads[place, :, depth, part])

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


def _joined(
    change: _Change | None, x: Tensor, heard: Tensor, weight: Tensor, bias: Tensor, out: Tensor
) -> Float[Tensor, "row width"]:
    """The stream x with the answer of a sub-block, of which its last map is still to be done."""
    if change is not None:
        return change.join(x, heard, weight, bias, out)
    return torch.add(x, bias, out=out).addmm_(heard, weight.T)


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
        self.said, self.said_by_mlp = self.middles, self.streams[1:]  # without conditions that of the stream behind it
        if evaluator.modulation is not None:
            self.said = [new("said", evaluator.width, depth) for depth, _ in enumerate(record.said)]
            self.said_by_mlp = [new("said by mlp", evaluator.width, depth) for depth, _ in enumerate(record.said)]

    def transposed(self, grad: Tensor, number: int, time: float) -> Float[Tensor, "row channel"]:
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
            change = evaluator.change(time, record, number, depth, _MLP)
            said = after if change is None else change.of_said(after, self.said_by_mlp[depth][place])
            grad_hidden = torch.mm(said, block.reduce, out=self.hidden[depth][place])
            gelu_backward_out(grad_hidden, hidden, grad_input=grad_hidden)
            middle = self.middles[depth][place]
            if change is None:
                torch.addmm(after, grad_hidden, block.expand, out=middle)
            else:
                change.of_stream(grad_hidden @ block.expand, after, record.middles[depth][number], middle)
            change = evaluator.change(time, record, number, depth, _ATTENTION)
            said = middle if change is None else change.of_said(middle, self.said[depth][place])
            of_qkv, before = self.qkv[depth][place], self.streams[depth][place]
            self._attention(depth, number, torch.mm(said, block.out), of_qkv)
            if change is None:
                after = torch.addmm(middle, of_qkv, block.qkv, out=before)
            else:
                after = change.of_stream(of_qkv @ block.qkv, middle, record.streams[depth][number], before)
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
            add(total.qkv, total.qkv_bias, self.qkv[depth], record.inputs(depth, _ATTENTION)[seen])
            add(total.out, total.out_bias, self.said[depth], record.heard[depth][seen])
            add(total.expand, total.expand_bias, self.hidden[depth], record.inputs(depth, _MLP)[seen])
            add(total.reduce, total.reduce_bias, self.said_by_mlp[depth], record.active[depth][seen])
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
            time = way.times[start] + size * reach
            velocity = evaluator.velocity(where, time, record, min(number, last))
            later.add_(velocity, alpha=size * weight)
            number += 1
    return states


class _Trajectory(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        way: Walk,
        method: Method,
        heads: int,
        places: dict[float, int] | None,
        table: Tensor | None,
        z: Tensor,
        *flat: Tensor,
    ) -> Tensor:
        weights = ProcessorWeights.grouped(flat)
        record = _Record(z, weights, len(way.steps) * len(method.weights), heads, table is not None)
        evaluator = _Evaluator(weights, _modulation(table, places), len(z), heads, True)
        states = _states(evaluator, z, way, method, record)
        ctx.way, ctx.method, ctx.heads, ctx.places, ctx.num_inputs = way, method, heads, places, 2 + len(flat)
        ctx.save_for_backward(table, z, *flat, *record.tensors())
        return states[way.visits].transpose(0, 1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if asks_for_formulas(grads[0]):
            formula = partial(_formula, ctx.way, ctx.method, ctx.heads, ctx.places)
            with plain_attention():
                return None, None, None, None, *formula_gradients(formula, ctx.saved_tensors[: ctx.num_inputs], grads[0])
        with full_precision(grads[0]):
            return None, None, None, None, *_Trajectory.gradients(ctx, grads[0])

    @staticmethod
    def gradients(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        way, method, table = ctx.way, ctx.method, ctx.saved_tensors[0]
        weights = ProcessorWeights.grouped(ctx.saved_tensors[2 : ctx.num_inputs])
        record = _Record.of(ctx.saved_tensors[ctx.num_inputs :], len(weights.blocks), table is not None)
        visited = grad.transpose(0, 1)
        evaluator = _Evaluator(weights, _modulation(table, ctx.places), visited.shape[1], ctx.heads, True)
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
                passed = gradients.transposed(of_velocity, number, way.times[start] + size * method.reaches[stage])
                here.add_(passed)
        of_table = None if table is None else evaluator.grads
        return of_table, of_states[0].view(visited.shape[1:]), *gradients.all()


def _modulation(table: Tensor | None, places: dict[float, int] | None) -> Modulation | None:
    return None if table is None else Modulation(table, places)


def _formula(way: Walk, method: Method, heads: int, places: dict[float, int] | None, inputs: Sequence[Tensor | None]) -> Tensor:
    """The trajectory as its formula, of the modulation, the start and all weights."""
    table, z, *flat = inputs
    weights = ProcessorWeights.grouped(tuple(flat))  # pyright: ignore[reportArgumentType]
    return walked(partial(velocity, weights, heads, _modulation(table, places)), z, way, method)  # pyright: ignore[reportArgumentType]


def latent_states(
    weights: ProcessorWeights,
    heads: int,
    modulation: Modulation | None,
    z: Float[Tensor, "batch token channel"],
    way: Walk,
    method: Method,
) -> Float[Tensor, "batch time token channel"]:
    """The states that the walk visits."""
    if not way.steps:
        return torch.stack([z] * len(way.visits), dim=1)
    table, places = (None, None) if modulation is None else modulation
    if torch.is_grad_enabled():
        return _Trajectory.apply(way, method, heads, places, table, z, *weights.flat())  # pyright: ignore[reportReturnType]
    record = _Record(z, weights, 1, heads, table is not None)
    evaluator = _Evaluator(weights, modulation, len(z), heads, False)
    return _states(evaluator, z, way, method, record)[way.visits].transpose(0, 1)
