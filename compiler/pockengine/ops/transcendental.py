"""Elementwise functions that keep their digits near zero.

The inverse circular and the hyperbolic functions are made from them."""

from __future__ import annotations

import numpy as np

from .elementwise import Drawn, unary

unary(
    "atan",
    np.arctan,
    lambda e, n, dy: e.div(dy, e.add(e.mul(n.inputs[0], n.inputs[0]), 1.0)),
    flops=12,
    singular=(1e30,),
)
unary(
    "expm1",
    np.expm1,
    lambda e, n, dy: e.mul(dy, e.add(n.output, 1.0)),
    flops=10,
    singular=(89.5, -110.0, 1e-30),
)
unary(
    "log1p",
    np.log1p,
    lambda e, n, dy: e.div(dy, e.add(n.inputs[0], 1.0)),
    drawn=Drawn(low=-0.8),
    flops=10,
    singular=(-1.0, -2.0, 1e-30),
)
