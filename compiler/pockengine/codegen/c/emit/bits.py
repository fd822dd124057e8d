"""How kernels read and write masks of one bit an element (`DType.BIT`), in blocks of neighbours where they can.

Element i is bit `i & 7` of byte `i >> 3`. Bits have no address. So where other operands have a pointer to their row,
`NAME_row`, a mask has the index of its first element under that name."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ....ir import DType, Value
from ...common.c_dialect import c_type
from .source import VECTORIZE, VECTORIZE_SHORT, Code

BLOCKS = (32, 16, 8)
"""Neighbours that are read as one word, or written together: whole vectors on every target."""


def is_bits(value: Value) -> bool:
    """Whether eight elements of it lie in a byte."""
    return value.type.dtype is DType.BIT


def block_of(multiples: Iterable[int]) -> int:
    """The most neighbours that always begin a byte, where blocks of them begin at sums of these numbers; 1 if none."""
    common = math.gcd(*multiples)
    return next((block for block in BLOCKS if common % block == 0), 1)


def declare_row(code: Code, value: Value, name: str, offset: str, written: bool) -> None:
    """Declare `NAME_row`: where an operand's row begins, `offset` elements from its start."""
    if is_bits(value):
        code.line(f"const ptrdiff_t {name}_row = {offset};")
    else:
        code.line(f"{'' if written else 'const '}{c_type(value.type.dtype)} *const {name}_row = {name} + {offset};")


def element(value: Value, name: str, within: str) -> str:
    """C expression of one element of a row."""
    if is_bits(value):
        return bit(name, f"{name}_row" if within == "0" else f"({name}_row + {within})")
    return f"{name}_row[{within}]"


def bit(pointer: str, index: str) -> str:
    """C expression of the bit with this index."""
    return f"{pointer}[{index} >> 3] >> ({index} & 7) & 1"


def load_word(code: Code, name: str, within: str, size: int) -> None:
    """Declare `NAME_word`, the bits of a block of `size` elements that begins at `within` of the row."""
    code.line(f"uint{size}_t {name}_word;")
    code.line(f"__builtin_memcpy(&{name}_word, {name} + (({name}_row + {within}) >> 3), {size // 8});")


def of_word(name: str) -> str:
    """C expression of bit `lane` of the word that `load_word` read."""
    return f"(uint32_t){name}_word >> lane & 1"


@dataclass(frozen=True)
class MaskLoop:
    """A loop over neighbours along which some masks of bits are read and written `size` elements at a time, so that
    whole vectors of the other operands are computed meanwhile.

    reads   the names of masks that are read as words
    writes  the names of masks that are written
    origin  C expression of the place in the row at which the loop's index is 0"""

    size: int
    reads: Collection[str] = ()
    writes: Collection[str] = ()
    origin: str = ""

    @contextmanager
    def loop(self, code: Code, index: str, stop: object, start: object = 0, pragma: str = VECTORIZE) -> Iterator[None]:
        """The loop over `index`: one over single elements where there is no such mask."""
        if not self.reads and not self.writes:
            code.line(pragma)
            with code.loop(index, stop, start):
                yield
            return
        place = f"{self.origin} + from" if self.origin else "from"
        with code.block(f"for (ptrdiff_t from = {start}; from < {stop}; from += {self.size})"):
            for name in self.reads:
                load_word(code, name, place, self.size)
            for name in self.writes:
                code.line(f"uint8_t {name}_set[{self.size}];")
            code.line(VECTORIZE_SHORT)
            with code.loop("lane", self.size):
                code.line(f"const ptrdiff_t {index} = from + lane;")
                yield
            for name in self.writes:
                with code.loop("i", self.size // 8):
                    code.line(f"{name}[(({name}_row + {place}) >> 3) + i] = pock_pack({name}_set + 8 * i);")

    @property
    def needs(self) -> set[str]:
        """The functions that the loop calls."""
        return {"pack"} if self.writes else set()

    def read(self, value: Value, name: str, within: str) -> str:
        """C expression of an operand's element in the loop."""
        return of_word(name) if name in self.reads else element(value, name, within)

    def written(self, name: str, within: str) -> str:
        """C expression of a result's element in the loop."""
        return f"{name}_set[lane]" if name in self.writes else f"{name}_row[{within}]"
