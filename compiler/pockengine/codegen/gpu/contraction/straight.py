"""Operands that lie in memory in the format in which matrix units multiply them: 16-bit floats, as frozen weights and
what is stored rounded, and 8-bit floats whose rows have a scale.

Their bits go to shared memory as they are, in the background. A tile lies as the operand does: words of two neighbours
along k, or rows of neighbours along the other axis. Knows nothing of how the other operand comes."""

from __future__ import annotations

from ...common.index_maps import inside
from .streamed import Side, goes_along_k
from .writer import Writer, guarded

E4M3 = "e4m3"
"""What matrix units call 8-bit floats of 4 bits of exponent and 3 of mantissa."""
WORDS = 16
"""Along k of a tile."""
APART = 8
"""16-bit numbers between two rows of a tile, so that the threads of a warp read from 32 banks."""
PITCH = WORDS + APART // 2
"""Words from one row to the next of a tile of words along k."""
STAGES = 2


def is_multiplied_as_stored(writer: Writer, name: str, compute: str) -> bool:
    """Whether the `left` or `right` operand lies in memory in this format."""
    access, _, _, _ = writer.side(name)
    if compute == E4M3:
        return writer.codes_of(name) is not None
    return writer.lies(access).dtype.value == compute


def numbers_of(compute: str) -> int:
    """In a word."""
    return {"tf32": 1, E4M3: 4}.get(compute, 2)


def along_k(writer: Writer, name: str) -> bool:
    """Whether neighbours of the `left` or `right` operand in memory are so along k."""
    access, axis, _, _ = writer.side(name)
    return goes_along_k(writer, access, axis)


def word(writer: Writer, name: str, compute: str) -> str:
    """Declare `some`, the numbers of word `kk` along k, from `k0` on, of row or column `x` of the `left` or `right`
    operand's tile, zeros where there are none: rounded, or their bits where they are stored as they are multiplied.
    The word's expression."""
    code, k, numbers = writer.code, writer.part.sizes()[3], numbers_of(compute)
    access, axis, flat, extent = writer.side(name)
    as_stored = is_multiplied_as_stored(writer, name, compute)
    code.line(f"const ptrdiff_t {flat} = {flat}0 + x;")
    code.line(f"{'uint32_t' if as_stored else 'float'} some[{numbers}] = {{0}};")
    with code.block(f"if ({flat} < {extent})"):
        writer.digits(flat, axis)
        code.line("#pragma unroll")
        with code.block(f"for (int h = 0; h < {numbers}; ++h)"):
            code.line(f"const ptrdiff_t k = k0 + kk * {numbers} + h;")
            with code.block(f"if (k < {k})"):
                writer.digits("k", writer.part.k)
                with guarded(code, inside(access)):
                    code.line(f"some[h] = {writer.bits(access) if as_stored else writer.element(access)};")
    packed = "TF32(some[0])" if numbers == 1 else f"PACK_{compute.upper()}(some[0], some[1])"
    return "some[0] | some[1] << 16" if as_stored else packed


def copied(writer: Writer, name: str, width: int, compute: str) -> Side | None:
    """The tiles of an operand whose bits can be copied as they are, at least 4 bytes at once; None for any other."""
    if not is_multiplied_as_stored(writer, name, compute):
        return None
    numbers = numbers_of(compute)
    side = Side(name, width, WORDS * numbers, along_k(writer, name), itemsize=4 // numbers)
    return side if side.vector(writer) else None
