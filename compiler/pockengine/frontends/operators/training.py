"""The optimizers of ONNX's preview training domain, as arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir import Value
from .registry import NodeContext, Operand, converts

_DOMAIN = "ai.onnx.preview.training"
Update = Callable[..., Sequence[Value]]


def _each(c: NodeContext, kinds: int, update: Update) -> list[Operand]:
    """Inputs are the rate, the step, then all tensors, all gradients and all states of each kind; outputs are all new
    tensors, then all new states."""
    count = (len(c.operands) - 2) // kinds
    rate, step = c.value(0), c.value(1)
    results = [
        update(c, rate, step, *(c.value(2 + kind * count + index) for kind in range(kinds))) for index in range(count)
    ]
    return [result[kind] for kind in range(kinds - 1) for result in results]


def _regularised(c: NodeContext, x: Value, gradient: Value) -> Value:
    weight = c.attr("norm_coefficient", 0.0)
    return c.e.add(gradient, c.e.mul(x, weight)) if weight else gradient


def _moved(c: NodeContext, x: Value, rate: Value, direction: Value) -> Value:
    return c.e.sub(x, c.e.mul(rate, direction))


@converts(f"{_DOMAIN}.Adagrad")
def adagrad(c: NodeContext) -> Sequence[Operand]:
    def update(c: NodeContext, rate: Value, step: Value, x: Value, g: Value, h: Value) -> Sequence[Value]:
        e = c.e
        g = _regularised(c, x, g)
        new = e.add(h, e.mul(g, g))
        rate = e.div(rate, e.add(e.mul(e.cast(step, x.type.dtype), c.attr("decay_factor", 0.0)), 1.0))
        return _moved(c, x, rate, e.div(g, e.add(e.op("sqrt", new), c.attr("epsilon", 0.0)))), new

    return _each(c, 3, update)


@converts(f"{_DOMAIN}.Adam")
def adam(c: NodeContext) -> Sequence[Operand]:
    """The moments are corrected for their start from step 1 on."""

    def update(c: NodeContext, rate: Value, step: Value, x: Value, g: Value, v: Value, h: Value) -> Sequence[Value]:
        e, alpha, beta = c.e, c.attr("alpha", 0.9), c.attr("beta", 0.999)
        g = _regularised(c, x, g)
        v = e.add(e.mul(v, alpha), e.mul(g, 1 - alpha))
        h = e.add(e.mul(h, beta), e.mul(e.mul(g, g), 1 - beta))
        power = e.cast(step, x.type.dtype)
        left = [e.sub(1.0, e.op("pow", e.scalar(decay, x), power)) for decay in (beta, alpha)]
        corrected = e.div(e.mul(rate, e.op("sqrt", left[0])), left[1])
        rate = e.where(e.less(e.scalar(0.0, x), power), corrected, rate)
        x = _moved(c, x, rate, e.div(v, e.add(e.op("sqrt", h), c.attr("epsilon", 0.0))))
        return e.mul(x, 1.0 - c.attr("norm_coefficient_post", 0.0)), v, h

    return _each(c, 4, update)


@converts(f"{_DOMAIN}.Momentum")
def momentum(c: NodeContext) -> Sequence[Operand]:
    """The first gradient enters whole."""

    def update(c: NodeContext, rate: Value, step: Value, x: Value, g: Value, v: Value) -> Sequence[Value]:
        e, alpha = c.e, c.attr("alpha", 0.9)
        g = _regularised(c, x, g)
        share = e.where(e.less(e.scalar(0.0, step), step), e.scalar(c.attr("beta", 1.0), x), e.scalar(1.0, x))
        v = e.add(e.mul(v, alpha), e.mul(share, g))
        return _moved(c, x, rate, e.add(g, e.mul(v, alpha)) if c.attr("mode", "standard") == "nesterov" else v), v

    return _each(c, 3, update)
