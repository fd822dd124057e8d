"""C text: a line writer with indentation, element types, literals, and the naming of kernels by content."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from ...ir import DType, TensorType
from ...plan.program import Kernel

SYMBOL = "POCK_KERNEL"
"""Stands for the kernel's name until its source is complete and can be hashed."""

SIGNATURE = f"void {SYMBOL}(void *const *arg, int task, int tasks)"

_TYPES = {
    DType.F64: "double",
    DType.F32: "float",
    DType.I8: "int8_t",
    DType.I16: "int16_t",
    DType.I32: "int32_t",
    DType.I64: "int64_t",
    DType.U8: "uint8_t",
    DType.U16: "uint16_t",
    DType.U32: "uint32_t",
    DType.U64: "uint64_t",
    DType.BOOL: "uint8_t",
    DType.BIT: "uint8_t",
}

SUPPORTED = frozenset(_TYPES)
"""Element types the C backend computes with. 16-bit floats are storage formats of other backends."""

VECTORIZE = "#pragma clang loop vectorize(assume_safety)"
"""Operands that alias are read and written at the same index only (`Lowered.inplace`), so iterations are
independent."""

VECTORIZE_SHORT = f"{VECTORIZE} unroll(disable)"
"""For loops over a panel's columns: inlined, they have few iterations, and clang would unroll them into scalars before
it comes to vectorise them."""

_PRELUDE = """\
#include <stddef.h>
#include <stdint.h>
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma clang diagnostic ignored "-Wunused-parameter"
"""


def c_type(dtype: DType) -> str:
    """The C type of one element, and of what a pointer to an operand points to: of bits, that is eight elements."""
    return _TYPES[dtype]


def literal(value: float, dtype: DType) -> str:
    """A scalar as a C literal of exactly this value."""
    if dtype in (DType.BOOL, DType.BIT):
        return "1" if value else "0"
    if not dtype.is_float:
        number = int(value)
        if dtype in (DType.U32, DType.U64):
            return f"{number}u" if number < 1 << 32 else f"UINT64_C({number})"
        return "INT64_MIN" if number == -(1 << 63) else f"{number}" if abs(number) < 1 << 31 else f"INT64_C({number})"
    suffix = "f" if dtype is DType.F32 else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    text = str(np.float32(value) if dtype is DType.F32 else np.float64(value))
    return f"{text if '.' in text or 'e' in text else text + '.0'}{suffix}"


def lowest(dtype: DType) -> str:
    """The identity of max."""
    return literal(-math.inf if dtype.is_float else integer_range(dtype)[0], dtype)


def highest(dtype: DType) -> str:
    """The identity of min."""
    return literal(math.inf if dtype.is_float else integer_range(dtype)[1], dtype)


def integer_range(dtype: DType) -> tuple[int, int]:
    """The least and the greatest number of an integer type."""
    if dtype is DType.BOOL:
        return 0, 1
    bounds = np.iinfo(dtype.numpy.name)
    return int(bounds.min), int(bounds.max)


class Code:
    """Lines of C with the current indentation."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """Append text, one or several lines, at the current indentation; preprocessor lines go to the margin."""
        for part in text.splitlines() or [""]:
            indent = "" if part.startswith("#") or not part else "    " * self._depth
            self._lines.append(indent + part)

    def lines(self, texts: Iterable[str]) -> None:
        """Append several lines."""
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """`header {` … `}`; a function's brace goes on its own line as its header ends with `)` at the margin."""
        if self._depth == 0:
            self.line(header)
            self.line("{")
        else:
            self.line(f"{header} {{")
        self._depth += 1
        yield
        self._depth -= 1
        self.line("}")

    @contextmanager
    def loop(self, index: str, count: object, start: object = 0, vectorize: bool = False) -> Iterator[None]:
        """`for (ptrdiff_t index = start; index < count; ++index)`."""
        if vectorize:
            self.line(VECTORIZE)
        with self.block(f"for (ptrdiff_t {index} = {start}; {index} < {count}; ++{index})"):
            yield

    def share(self, units: int) -> None:
        """Declare `first` and `last`, this task's range of `units` equal pieces of work."""
        self.line(f"const ptrdiff_t first = (ptrdiff_t){units} * task / tasks;")
        self.line(f"const ptrdiff_t last = (ptrdiff_t){units} * (task + 1) / tasks;")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def declare(code: Code, names: Iterable[tuple[str, TensorType, bool]]) -> None:
    """Declare one typed pointer per operand, in order: (name, type, written)."""
    for index, (name, type, written) in enumerate(names):
        const = "" if written else "const "
        code.line(f"{const}{c_type(type.dtype)} *{name} = arg[{index}]; /* {type} */")


def kernel(stem: str, title: str, body: str, helpers: Iterable[str] = ()) -> Kernel:
    """Make a kernel of C text that defines `SIGNATURE`. `title` is one line for the reader; it must not hold the user's
    names, so that equal work is one kernel."""
    parts = [f"/* {title} */", _PRELUDE, *(helper.strip() + "\n" for helper in helpers), body]
    text = "\n".join(part.rstrip("\n") + "\n" for part in parts)
    symbol = f"k_{stem}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return Kernel(symbol, text.replace(SYMBOL, symbol))
