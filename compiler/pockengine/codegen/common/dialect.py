"""What a language of kernels calls types, numbers and operators: one value for each language.

Every language has C's operators and its `? :`. Texts of operators have {0}, {1} and {2} for their operands."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ...ir import DType


@dataclass(frozen=True)
class Element:
    """How one element type is computed with.

    name       of the type: that of one element, and of what a pointer to an operand points to, which for bits is eight
    literal    a number as a literal of exactly this value
    operators  operator -> expression of it
    """

    name: str
    literal: Callable[[float], str]
    operators: Mapping[str, str]


@dataclass(frozen=True)
class Dialect:
    """
    name      of the language, for messages
    elements  the element types that it computes with
    bitcast   expression of the bits of {0}, of type {source}, as a number of type {to}
    library   the first part of the names of functions that we define: an expression that calls one needs its text
    widened   types that it does not compute with -> expression of {0}, the bits of such a number, as an f32
    narrowed  those of them that it also writes -> expression of the bits of {0}, an f32, rounded
    """

    name: str
    elements: Mapping[DType, Element]
    bitcast: str
    library: str
    widened: Mapping[DType, str] = field(default_factory=dict)
    narrowed: Mapping[DType, str] = field(default_factory=dict)

    def type(self, dtype: DType) -> str:
        """The type of one element, and of what a pointer to an operand points to."""
        return self.elements[dtype].name

    def literal(self, value: float, dtype: DType) -> str:
        """A scalar as a literal of exactly this value."""
        return self.elements[dtype].literal(value)

    def lowest(self, dtype: DType) -> str:
        """The identity of max."""
        return self.literal(-math.inf if dtype.is_float else integer_range(dtype)[0], dtype)

    def highest(self, dtype: DType) -> str:
        """The identity of min."""
        return self.literal(math.inf if dtype.is_float else integer_range(dtype)[1], dtype)

    def called(self, text: str) -> set[str]:
        """The library's functions that an expression calls, without the first part of their names."""
        return set(self._call.findall(text))

    @cached_property
    def _call(self) -> re.Pattern[str]:
        return re.compile(rf"\b{self.library}(\w+)\(")


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if dtype is DType.BOOL:
        return 0, 1
    bounds = np.iinfo(dtype.numpy.name)
    return int(bounds.min), int(bounds.max)
