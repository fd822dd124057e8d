"""The intermediate representation: types, graphs, builder, text form, verifier. The ground layer; imports nothing of
ours."""

from .builder import Builder, substitute
from .graph import PHASES, Array, Attr, Attrs, Graph, Node, Value
from .regions import RegionKind
from .text import parse, render
from .types import DType, TensorType, parse_type
from .verify import VerifyError, verify

__all__ = [
    "PHASES",
    "Array",
    "Attr",
    "Attrs",
    "Builder",
    "DType",
    "Graph",
    "Node",
    "RegionKind",
    "TensorType",
    "Value",
    "VerifyError",
    "parse",
    "parse_type",
    "render",
    "substitute",
    "verify",
]
