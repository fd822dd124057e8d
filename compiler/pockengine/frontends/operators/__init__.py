"""Translations of ONNX operators, one module per family. Importing this package registers them all."""

from . import attention, contraction, elementwise, indexing, movement, normalisation, pooling, reduction
from .registry import Converter, NodeContext, Operand, find, known, read_attributes

__all__ = ["Converter", "NodeContext", "Operand", "find", "known", "read_attributes"]

del attention, contraction, elementwise, indexing, movement, normalisation, pooling, reduction
