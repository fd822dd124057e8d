"""LSTM, GRU and RNN over a fixed number of steps, written out step by step.

All steps have the same shapes, so they share their kernels. The inputs of all steps and gates are projected by one
matrix product before the first step; splitting that product is one node, whose gradient is one concat."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import ModelError
from ...ir import Value
from ...ops import Emitter
from ...ops.split import joined
from .registry import NodeContext, Operand, converts

Activation = Callable[[Value], Value]


@dataclass(frozen=True)
class _Direction:
    """One direction of the operator.

    w, r      weights of input and state, [gates * hidden, …]
    wb, rb    their biases [gates * hidden], or None
    h, c      initial state [batch, hidden], or None for zeros
    peephole  weights [3 * hidden] from the cell to the gates i, o, f, or None
    backwards whether it starts at the last step
    act       the activations f, g, h
    """

    w: Value
    r: Value
    wb: Value | None
    rb: Value | None
    h: Value | None
    c: Value | None
    peephole: Value | None
    backwards: bool
    act: Sequence[Activation]


@dataclass
class _Run:
    """What one direction gives: the state after each step, in the order of time, and the last ones."""

    steps: list[Value]
    h: Value
    c: Value | None


Masks = Sequence[Value | None]
"""Per step, which sequences have not ended, [batch, 1]; None where that is all of them."""


@converts("LSTM", "GRU", "RNN")
def recurrent(c: NodeContext) -> Sequence[Operand]:
    kind, e = c.node.op_type, c.e
    x = c.value(0)
    if c.attr("layout", 0):
        x = e.transpose(x, (1, 0, 2))
    steps, batch, width = x.type.shape
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    direction = c.attr("direction", "forward")
    if direction not in ways:
        raise ModelError(f"{c.where}: the direction is '{direction}', not one of {', '.join(ways)}")
    sides = len(ways[direction])
    _check_shapes(c, batch, width, sides)
    masks = _masks(c, steps, batch)
    cell = {"LSTM": _lstm, "GRU": _gru, "RNN": _rnn}[kind]
    runs = [cell(c, x, _direction(c, index, sides, back), masks) for index, back in enumerate(ways[direction])]
    return _results(c, runs, masks)


def _results(c: NodeContext, runs: Sequence[_Run], masks: Masks) -> list[Operand]:
    """Y [steps, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden]; batch first with layout 1."""
    e, batch_first = c.e, bool(c.attr("layout", 0))
    batch, hidden = runs[0].h.type.shape
    sides = []
    for run in runs:
        shown = [h if mask is None else e.where(mask, h, 0.0) for h, mask in zip(run.steps, masks, strict=True)]
        sides.append(joined(e, [e.reshape(h, (1, 1, batch, hidden)) for h in shown], 0))
    y = joined(e, sides, 1)
    last = [joined(e, [e.reshape(run.h, (1, batch, hidden)) for run in runs], 0)]
    cells = [e.reshape(run.c, (1, batch, hidden)) for run in runs if run.c is not None]
    last += [joined(e, cells, 0)] if cells else []
    if batch_first:
        return [e.transpose(y, (2, 0, 1, 3)), *(e.transpose(state, (1, 0, 2)) for state in last)]
    return [y, *last]


def _check_shapes(c: NodeContext, batch: int, width: int, sides: int) -> None:
    """Every weight and state against the sizes that the input and the recurrent weights give."""
    hidden = c.shape(2)[-1]
    rows = _GATES[c.node.op_type] * hidden
    state = (batch, sides, hidden) if c.attr("layout", 0) else (sides, batch, hidden)
    wanted = {1: (sides, rows, width), 2: (sides, rows, hidden), 3: (sides, 2 * rows), 4: (batch,), 5: state, 6: state}
    wanted[7] = (sides, 3 * hidden)
    for index, shape in wanted.items():
        if c.has(index) and c.shape(index) != shape:
            raise ModelError(f"{c.where}: input {index} has the shape {list(c.shape(index))} in place of {list(shape)}")
    if c.attr("hidden_size", hidden) != hidden:
        raise ModelError(f"{c.where}: hidden_size {c.attr('hidden_size', hidden)} does not fit a state of {hidden}")


def _direction(c: NodeContext, index: int, sides: int, backwards: bool) -> _Direction:
    """The weights of one direction; inputs 4 to 7 are the lengths, the initial state and the peepholes."""
    batch_first = bool(c.attr("layout", 0))

    def part(position: int, axis: int = 0) -> Value:
        value = c.value(position)
        if sides > 1:
            value = c.e.multi("split", [value], axis=axis, sizes=(1,) * sides)[index]
        return c.e.reshape(value, [d for i, d in enumerate(value.type.shape) if i != axis])

    def optional(position: int, axis: int = 0) -> Value | None:
        known = c.constant(position)
        zeros = known is not None and not known.any()
        return part(position, axis) if c.has(position) and not zeros else None

    bias, rows = optional(3), c.shape(2)[1]
    wb, rb = c.e.multi("split", [bias], axis=0, sizes=(rows, rows)) if bias is not None else (None, None)
    h = optional(5, 1 if batch_first else 0)
    lstm = c.node.op_type == "LSTM"
    cell, peephole = (optional(6, 1 if batch_first else 0), optional(7)) if lstm else (None, None)
    return _Direction(part(1), part(2), wb, rb, h, cell, peephole, backwards, _activations(c, index))


def _masks(c: NodeContext, steps: int, batch: int) -> Masks:
    """From `sequence_lens`."""
    if not c.has(4):
        return [None] * steps
    known = c.constant(4)
    if known is not None:
        alive = np.arange(steps)[:, None, None] < known.reshape(batch, 1)
        return [None if mask.all() else c.e.const(mask) for mask in alive]
    lengths = c.e.reshape(c.value(4), (1, batch, 1))
    alive_now = c.e.less(c.e.const(np.arange(steps).reshape(steps, 1, 1), lengths.type.dtype), lengths)
    return [c.e.reshape(mask, (batch, 1)) for mask in _each_step(c.e, alive_now)]


def _each_step(e: Emitter, x: Value) -> list[Value]:
    """The slices [1, …] along the first axis."""
    return list(e.multi("split", [x], axis=0, sizes=(1,) * x.type.shape[0])) if x.type.shape[0] > 1 else [x]


def _project(e: Emitter, x: Value, w: Value, bias: Value | None) -> list[Value]:
    """x W^T + bias for every step: [batch, rows] each."""
    steps, batch, _ = x.type.shape
    flat = e.matmul(e.reshape(x, (steps * batch, x.type.shape[2])), w, trans_b=True)
    flat = flat if bias is None else e.add(flat, bias)
    rows = flat.type.shape[1]
    return [e.reshape(step, (batch, rows)) for step in _each_step(e, e.reshape(flat, (steps, batch, rows)))]


def _through(e: Emitter, h: Value | None, r: Value) -> Value | None:
    """h R^T; a state of zeros adds nothing."""
    return None if h is None else e.matmul(h, r, trans_b=True)


def _plus(e: Emitter, a: Value, b: Value | None) -> Value:
    return a if b is None else e.add(a, b)


def _parts(e: Emitter, x: Value, sizes: Sequence[int], axis: int = -1) -> tuple[Value, ...]:
    return e.multi("split", [x], axis=axis % x.type.rank, sizes=tuple(sizes))


def _keep(e: Emitter, mask: Value | None, new: Value, old: Value | None) -> Value:
    """The new state where the sequence goes on, else the old one."""
    if mask is None:
        return new
    return e.where(mask, new, 0.0 if old is None else old)


def _order(steps: int, backwards: bool) -> Sequence[int]:
    return range(steps - 1, -1, -1) if backwards else range(steps)


def _both(e: Emitter, a: Value | None, b: Value | None) -> Value | None:
    return a if b is None else b if a is None else e.add(a, b)


def _lstm(c: NodeContext, x: Value, d: _Direction, masks: Masks) -> _Run:
    """i, o, f = f(…), g = g(…); c' = f c + i g; h' = o h(c')"""
    e, hidden = c.e, d.r.type.shape[1]
    inputs = _project(e, x, d.w, _both(e, d.wb, d.rb))
    f_act, g_act, h_act = d.act
    p_i, p_o, p_f = _parts(e, d.peephole, (hidden,) * 3) if d.peephole is not None else (None,) * 3

    def peep(gate: Value, weight: Value | None, state: Value | None) -> Value:
        return gate if weight is None or state is None else e.add(gate, e.mul(weight, state))

    h, cell = d.h, d.c
    steps: list[Value] = [inputs[0]] * len(inputs)
    for t in _order(len(inputs), d.backwards):
        i, o, f, g = _parts(e, _plus(e, inputs[t], _through(e, h, d.r)), (hidden,) * 4)
        i = f_act(peep(i, p_i, cell))
        f = e.sub(1.0, i) if c.attr("input_forget", 0) else f_act(peep(f, p_f, cell))
        fresh = e.mul(i, g_act(g))
        new = fresh if cell is None else e.add(e.mul(f, cell), fresh)
        o = f_act(peep(o, p_o, new))
        h, cell = _keep(e, masks[t], e.mul(o, h_act(new)), h), _keep(e, masks[t], new, cell)
        steps[t] = h
    assert h is not None
    return _Run(steps, h, cell)


def _gru(c: NodeContext, x: Value, d: _Direction, masks: Masks) -> _Run:
    """z, r = f(…); n = g(…) of the state that r lets through; h' = (1 - z) n + z h"""
    e, hidden = c.e, d.r.type.shape[1]
    inputs = _project(e, x, d.w, d.wb)
    late = bool(c.attr("linear_before_reset", 0))
    f_act, g_act = d.act[:2]
    r_gates, r_new = (d.r, None) if late else _parts(e, d.r, (2 * hidden, hidden), 0)
    b_gates, b_new = (d.rb, None) if late or d.rb is None else _parts(e, d.rb, (2 * hidden, hidden))
    h = d.h
    steps: list[Value] = [inputs[0]] * len(inputs)
    for t in _order(len(inputs), d.backwards):
        gates, n = _parts(e, inputs[t], (2 * hidden, hidden))
        own = _through(e, h, r_gates)
        state = b_gates if own is None else _plus(e, own, b_gates)
        if late:
            own_gates, own_n = _parts(e, state, (2 * hidden, hidden)) if state is not None else (None, None)
            z, r = _parts(e, f_act(_plus(e, gates, own_gates)), (hidden, hidden))
            n = n if own_n is None else e.add(n, e.mul(r, own_n))
        else:
            assert r_new is not None
            z, r = _parts(e, f_act(_plus(e, gates, state)), (hidden, hidden))
            n = _plus(e, _plus(e, n, None if h is None else _through(e, e.mul(r, h), r_new)), b_new)
        n = g_act(n)
        new = e.mul(e.sub(1.0, z), n) if h is None else e.add(n, e.mul(z, e.sub(h, n)))
        h = _keep(e, masks[t], new, h)
        steps[t] = h
    assert h is not None
    return _Run(steps, h, None)


def _rnn(c: NodeContext, x: Value, d: _Direction, masks: Masks) -> _Run:
    """h' = f(W x + R h + b)"""
    e, h = c.e, d.h
    inputs = _project(e, x, d.w, _both(e, d.wb, d.rb))
    steps: list[Value] = [inputs[0]] * len(inputs)
    for t in _order(len(inputs), d.backwards):
        h = _keep(e, masks[t], d.act[0](_plus(e, inputs[t], _through(e, h, d.r))), h)
        steps[t] = h
    assert h is not None
    return _Run(steps, h, None)


_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
_DEFAULT = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}
_ALPHA_BETA: dict[str, tuple[float, ...]] = {
    "Affine": (1.0, 0.0),
    "Elu": (1.0,),
    "HardSigmoid": (0.2, 0.5),
    "LeakyRelu": (0.01,),
    "ScaledTanh": (1.0, 1.0),
    "ThresholdedRelu": (1.0,),
}
"""Activations with parameters, and their defaults."""


def _activations(c: NodeContext, direction: int) -> list[Activation]:
    """The functions of one direction. `clip` limits what those of the gates are applied to; the cell, which the third
    function of an LSTM shows, is not limited, as in ONNX Runtime."""
    default = _DEFAULT[c.node.op_type]
    names = tuple(c.attr("activations", ())) or default * (direction + 1)
    alphas: list[float] = list(c.attr("activation_alpha", ()))
    betas: list[float] = list(c.attr("activation_beta", ()))
    limit = c.attr("clip", 0.0)
    found: list[Activation] = []
    for position, name in enumerate(names):
        own = _ALPHA_BETA.get(name, ())
        given = [values.pop(0) if values else own[i] for i, values in enumerate((alphas, betas)[: len(own)])]
        if position // len(default) == direction:
            found.append(_activation(c, name, given, limit if len(found) < 2 else 0.0))
    if len(found) != len(default):
        raise ModelError(f"{c.where} needs {len(default)} activations a direction, not {len(found)}")
    return found


def _activation(c: NodeContext, name: str, given: Sequence[float], limit: float) -> Activation:
    e = c.e
    a, b = (*given, 0.0, 0.0)[:2]
    table: dict[str, Activation] = {
        "Affine": lambda x: e.add(e.mul(x, a), b),
        "Elu": lambda x: e.where(e.less(x, 0.0), e.mul(e.sub(e.op("exp", _below(e, x)), 1.0), a), x),
        "HardSigmoid": lambda x: e.op("clip", e.add(e.mul(x, a), b), lo=0.0, hi=1.0),
        "LeakyRelu": lambda x: e.where(e.less(x, 0.0), e.mul(x, a), x),
        "Relu": lambda x: e.op("clip", x, lo=0.0, hi=math.inf),
        "ScaledTanh": lambda x: e.mul(e.op("tanh", e.mul(x, b)), a),
        "Sigmoid": lambda x: e.op("sigmoid", x),
        "Softplus": lambda x: e.op("softplus", x),
        "Softsign": lambda x: e.div(x, e.add(e.op("abs", x), 1.0)),
        "Tanh": lambda x: e.op("tanh", x),
        "ThresholdedRelu": lambda x: e.where(e.less(a, x), x, 0.0),
    }
    if name not in table:
        raise c.unsupported(f"the activation '{name}'")
    if not limit:
        return table[name]
    return lambda x: table[name](e.op("clip", x, lo=-limit, hi=limit))


def _below(e: Emitter, x: Value) -> Value:
    """min(x, 0), so that the exponential of what is not used cannot overflow."""
    return e.op("clip", x, lo=-math.inf, hi=0.0)
