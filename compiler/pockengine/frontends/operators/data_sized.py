"""Operators whose result is as large as the contents of their inputs say: possible only where those are known at
import, in which case the node has been folded before it comes here."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...errors import DynamicShapeError, UnsupportedOperatorError
from .registry import NodeContext, Operand, converts

INSTEAD = {
    "NonZero": "use Where with a mask",
    "Compress": "multiply by the mask, or select with Gather",
    "Unique": "compute it before the model",
    "NonMaxSuppression": "end the model before it, as training does, and apply it to the outputs",
}
"""Operator -> what to do instead."""


@converts(*INSTEAD)
def data_sized(c: NodeContext) -> Sequence[Operand]:
    hint = INSTEAD[c.node.op_type]
    raise DynamicShapeError(f"the size of the result of {c.where} depends on data, which no fixed program has: {hint}")


@converts("Range")
def range_(c: NodeContext) -> Sequence[Operand]:
    start, limit, delta = (c.static(index, "the bounds") for index in range(3))
    return [np.arange(start.item(), limit.item(), delta.item(), dtype=start.dtype)]


_RANDOM = ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")


@converts(*_RANDOM)
def random(c: NodeContext) -> Sequence[Operand]:
    raise c.unsupported("drawing random numbers in the model (make them an input)")


@converts("Random")
def drawn_while_traced(c: NodeContext) -> Sequence[Operand]:
    """Of our own domain: where a PyTorch module draws in evaluation mode."""
    raise UnsupportedOperatorError(
        f"'{c.attr('function', '')}' in '{c.attr('module', '')}' draws random numbers whenever the model runs, and no "
        "step could be repeated: make them an input of the model, or take them out",
        str(c.attr("function", "")),
        str(c.attr("module", "")),
    )
