"""Translations of ONNX operators, one module per family. Importing this package registers them all."""

from . import (
    attention,
    bitwise,
    contraction,
    convolution,
    data_sized,
    einsum,
    elementwise,
    indexing,
    movement,
    normalisation,
    ordering,
    pooling,
    recurrent,
    reduction,
    resize,
    sampling,
    transcendental,
)
from .registry import Converter, NodeContext, Operand, find, known, read_attributes

__all__ = ["Converter", "NodeContext", "Operand", "find", "known", "read_attributes"]

del (
    attention,
    bitwise,
    contraction,
    convolution,
    data_sized,
    einsum,
    elementwise,
    indexing,
    movement,
    normalisation,
    ordering,
    pooling,
    recurrent,
    reduction,
    resize,
    sampling,
    transcendental,
)
