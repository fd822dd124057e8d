"""The operators of ONNX's domain for classical machine learning that pipelines put before a network."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir import DType
from .registry import NodeContext, Operand, converts

_DOMAIN = "ai.onnx.ml"


@converts(f"{_DOMAIN}.Binarizer")
def binarizer(c: NodeContext) -> Sequence[Operand]:
    x = c.value(0)
    return [c.e.cast(c.e.less(c.attr("threshold", 0.0), x), x.type.dtype)]


@converts(f"{_DOMAIN}.ArrayFeatureExtractor")
def extract(c: NodeContext) -> Sequence[Operand]:
    """The chosen columns of the last axis; of a vector, as a matrix of one row."""
    x, indices = c.value(0), c.e.cast(c.value(1), DType.I64)
    rows = c.e.reshape(x, (1, x.type.size)) if x.type.rank == 1 else x
    return [c.e.op("gather", rows, c.e.reshape(indices, (indices.type.size,)), axis=rows.type.rank - 1)]
