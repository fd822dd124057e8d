"""Special functions of statistics: the logarithm of the gamma function, its derivatives, and the inverse of erf.

The two primitives are what a density of Gamma, Beta or Student's t needs, and what turns uniform numbers into normal
ones. Formulas: Abramowitz and Stegun, Handbook of Mathematical Functions (1964), chapter 6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Array, Attrs, Node, Value
from .composites import composite
from .elementwise import Drawn, unary
from .emitter import Emitter
from .registry import Sample, Vjp

STEPS = 6
"""Recurrences before an asymptotic series is taken: from 6 on, four terms are enough for single precision."""


def _lgamma(x: Array) -> Array:
    """Of -infinity it is infinity, as in PyTorch."""
    from scipy import special

    return np.where(np.isneginf(x), math.inf, special.gammaln(x))


def _erfinv(x: Array) -> Array:
    from scipy import special

    return np.asarray(special.erfinv(x))


unary(
    "lgamma",
    _lgamma,
    lambda e, n, dy: e.mul(dy, e.op("digamma", n.inputs[0])),
    drawn=Drawn(low=0.1, high=12.0),
    flops=30,
    singular=(-0.0, -1.0, -2.0, -0.5, 1.0, 2.0, 0.5, 30.5),
)
unary(
    "erfinv",
    _erfinv,
    lambda e, n, dy: e.mul(dy, e.mul(math.sqrt(math.pi) / 2, e.op("exp", e.mul(n.output, n.output)))),
    drawn=Drawn(low=-0.95, high=0.95),
    flops=25,
    singular=(-0.0, 1.0, -1.0, 2.0, -1.5, 0.999),
)


def _recurred(e: Emitter, x: Value, power: int) -> Value:
    """1 / x^p + 1 / (x + 1)^p + … of the first `STEPS` terms."""
    total = e.scalar(0.0, x)
    for step in range(STEPS):
        term = e.op("reciprocal", e.add(x, float(step)) if step else x)  # -0 plus 0 would lose its sign
        total = e.add(total, e.mul(term, term) if power == 2 else term)
    return total


def _series(e: Emitter, square: Value, terms: Sequence[float]) -> Value:
    """terms[0] + terms[1] s + terms[2] s^2 + … of s = `square`."""
    total = e.scalar(terms[-1], square)
    for term in reversed(terms[:-1]):
        total = e.add(e.mul(total, square), term)
    return total


def _fraction(e: Emitter, x: Value) -> Value:
    """x less the integer next to it, times pi: sines of it are those of pi x but for their sign."""
    return e.mul(e.sub(x, e.op("round", x)), math.pi)


def _digamma(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """psi(y) = log(y) - 1 / (2 y) - 1 / (12 y^2) + … at y = x + 6, less the terms on the way; below zero
    psi(1 - x) - pi / tan(pi x), which no negative integer has."""
    (x,) = inputs
    negative = e.less(x, 0.0)
    above = e.where(negative, e.sub(1.0, x), x)
    y = e.add(above, float(STEPS))
    inverse = e.op("reciprocal", y)
    square = e.mul(inverse, inverse)
    tail = e.add(e.mul(inverse, 0.5), e.mul(square, _series(e, square, (1 / 12, -1 / 120, 1 / 252))))
    positive = e.sub(e.sub(e.op("log", y), tail), _recurred(e, above, 1))
    turn = _fraction(e, x)
    slope = e.mul(e.div(e.op("cos", turn), e.op("sin", turn)), math.pi)
    mirrored = e.where(e.op("equal", turn, e.scalar(0.0, x)), math.nan, e.sub(positive, slope))
    return [e.where(negative, mirrored, positive)]


def _trigamma(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """psi'(y) = 1 / y + 1 / (2 y^2) + 1 / (6 y^3) - … at y = x + 6, and the terms on the way; below one half
    (pi / sin(pi x))^2 - psi'(1 - x)."""
    (x,) = inputs
    low = e.less(x, 0.5)
    above = e.where(low, e.sub(1.0, x), x)
    inverse = e.op("reciprocal", e.add(above, float(STEPS)))
    square = e.mul(inverse, inverse)
    series = e.add(_series(e, square, (1.0, 1 / 6, -1 / 30, 1 / 42)), e.mul(inverse, 0.5))
    positive = e.add(e.mul(inverse, series), _recurred(e, above, 2))
    height = e.div(math.pi, e.op("sin", _fraction(e, x)))
    return [e.where(low, e.sub(e.mul(height, height), positive), positive)]


def _chain(derivative: str) -> Vjp:
    def vjp(e: Emitter, node: Node, dys: Sequence[Value]) -> Value:
        return e.mul(dys[0], e.op(derivative, node.inputs[0]))

    return vjp


_POLES = (0.5, 1.0, 2.0, -0.5, -1.5, 30.5, 0.0, -0.0, math.inf, -math.inf, math.nan)
_DRAWN = (Sample(("f32[3,17]",), low=0.2, high=9.0), Sample(("f32[5]",), low=-3.8, high=-3.2))
composite(
    "digamma",
    _digamma,
    _DRAWN,
    [_chain("trigamma")],
    singular=(Sample((f"f32[{len(_POLES)}]",), fixed=((0, _POLES),)),),
)
composite("trigamma", _trigamma, _DRAWN, singular="a third derivative of lgamma, which no gradient rule asks for")
