"""Operands of which threads bring 16 bytes at once to tiles in shared memory, as texels of an image.

An image is made over the memory where the operand lies: nothing is copied, and memory is planned as without. Texels are
bits, so that one kind of image serves f32 and 16-bit floats. These words of GPU-C are only for languages that have
images:

    TEXELS(i)         parameter of a kernel: the texels of an operand (`Kernel.maps`)
    TEXEL(i, at, to)  the four words of texel `at` of them
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....ir import DType
from ....plan.program import Texels
from ...common.index_maps import element_offset, inside
from ..dialect import GPU_C
from .streamed import goes_along_k, lie_together
from .writer import Writer, guarded

BYTES = 16
WORDS = BYTES // 4
_READ = (DType.F32, DType.F16, DType.BF16)


@dataclass(frozen=True)
class Reading:
    """How the `left` or `right` operand of a product is read: by texels of so many `numbers`, which lie along k or
    along its other axis. `index` is the place of its map among the kernel's."""

    name: str
    index: int
    numbers: int
    along_k: bool
    map: Texels

    @property
    def parameter(self) -> str:
        """Of the kernel."""
        return f"TEXELS({self.index})"

    def load(self, writer: Writer, width: int, deep: int, together: int, threads: int) -> None:
        """Threads fill a tile of `width` rows or columns and `deep` terms, of which so many neighbours along k are
        `together` in a place: one f32, or two f16 in a word."""
        code, k = writer.code, writer.part.sizes()[3]
        access, axis, flat, extent = writer.side(self.name)
        rows, along = (1, deep // self.numbers) if self.along_k else (together, width // self.numbers)
        count = width * deep // self.numbers // rows
        with code.block(f"for (int e = THREAD; e < {count}; e += {threads})"):
            if self.along_k:
                code.line(f"const int kk = e % {along} * {self.numbers // together}, x = e / {along};")
            else:
                code.line(f"const int x = e % {along} * {self.numbers}, kk = e / {along};")
            code.line(f"const ptrdiff_t {flat} = {flat}0 + x;")
            code.line(f"uint32_t words[{rows}][{WORDS}] = {{{{0}}}};")
            with code.block(f"for (int row = 0; row < {rows}; ++row)"):
                code.line(f"const ptrdiff_t k = k0 + kk * {together} + row;")
                with code.block(f"if ({flat} < {extent} && k < {k})"):
                    writer.digits(flat, axis)
                    writer.digits("k", writer.part.k)
                    with guarded(code, inside(access)):
                        at = f"({element_offset(access)}) / {self.numbers}"
                        code.line(f"TEXEL({self.index}, {at}, words[row]);")
            for place, numbers in self._places(together):
                code.line(f"{self.name}_tile{place} = {self._value(writer, numbers)};")

    def _places(self, together: int) -> Iterator[tuple[str, list[tuple[int, int]]]]:
        """Each place of the tile that a thread fills, with the row and number of what comes there."""
        if self.along_k:
            for place in range(self.numbers // together):
                yield f"[kk + {place}][x]", [(0, place * together + number) for number in range(together)]
        else:
            for place in range(self.numbers):
                yield f"[kk][x + {place}]", [(row, place) for row in range(together)]

    def _value(self, writer: Writer, numbers: Sequence[tuple[int, int]]) -> str:
        """What comes to a place."""
        dtype = writer.lies(writer.side(self.name)[0]).dtype
        if dtype is DType.F32:
            found = [f"SAME_BITS(uint32_t, float, words[{row}][{number}])" for row, number in numbers]
        else:
            bits = [f"words[{row}][{number // 2}] >> {number % 2 * 16}" for row, number in numbers]
            if dtype is DType.F16 and len(bits) == 2:
                return f"({bits[0]} & 0xFFFF) | ({bits[1]}) << 16"
            found = [GPU_C.widened[dtype].format(f"(uint16_t)({one})") for one in bits]
        return found[0] if len(found) == 1 else f"PACK_F16({', '.join(found)})"


def readings(writer: Writer) -> list[Reading]:
    """Of the operands that lie in texels: f32 or 16-bit floats, of which as many as a texel has always lie side by side
    along one axis of the product, the first at a multiple of its bytes."""
    found = list[Reading]()
    for name in ("left", "right"):
        access, axis, _, _ = writer.side(name)
        type, along_k = writer.lies(access), goes_along_k(writer, access, axis)
        numbers = BYTES // type.dtype.nbytes
        known = writer.lies_in_numbers(access) and type.dtype in _READ
        if known and lie_together(access, writer.part.k if along_k else axis, numbers):
            map = Texels(writer.place_of(access), type.size // numbers)
            found.append(Reading(name, len(found), numbers, along_k, map))
    return found
