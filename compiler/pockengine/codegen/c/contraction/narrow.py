"""16-bit formats: their vector types, and packers that convert f32 on the way.

A packed block of A is [row][k]. A panel of B is [k / group][column][group]: what one instruction multiplies lies
together. Both are filled with zeros along k up to a multiple of the format's step. Where an element is the sum of
several numbers, a row of A is [part][k] and a panel of B [part][k / group][column][group]."""

from __future__ import annotations

from dataclasses import dataclass

from ...common.index_maps import Axis
from ...common.storage import Blocks
from ..emit.operands import Operand
from ..emit.source import Code
from .compressed import CompressedPacker, source
from .formats import Format, Instruction
from .packers import Packer, transposition

CHUNK = 64
"""Numbers along k that are brought into the first-level cache and then put in order."""
RUN = 128
"""Rows of A that are read at once where they are neighbours in memory: long enough for prefetchers."""


_WORDS = """\
typedef uint32_t word __attribute__((aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size({bytes})));
static inline __attribute__((always_inline, unused)) vec
dot(vec c, pairs a, pairs b)
{{
    return """
_DOT = {
    Instruction.DPBF16: _WORDS + "__builtin_ia32_dpbf16ps_{bits}(c, a, b);\n}}\n",
    Instruction.BFDOT: _WORDS + "(vec)vbfdotq_f32((float32x4_t)c, (bfloat16x8_t)a, (bfloat16x8_t)b);\n}}\n",
}
"""What the instructions on pairs need: `dot` adds the products of both halves of each pair."""


def declarations(format: Format) -> str:
    """After `vec`: vector types and `narrow`, which converts a run; for pairs `split` and `split_pairs`, which convert
    to one or several parts, and `transpose`. Empty for f32."""
    if format.instruction is Instruction.FMA:
        return ""
    lanes, type = format.lanes, format.type
    attributes = "aligned(2), may_alias"
    lines = [
        *(["#include <arm_neon.h>"] if format.instruction in (Instruction.BFDOT, Instruction.FMLAL) else []),
        f"typedef {type} half;",
        f"typedef half halves __attribute__((vector_size({2 * lanes}), {attributes}));",
        "static inline __attribute__((always_inline, unused)) void",
        "narrow(const float *restrict from, half *restrict to, ptrdiff_t count)",
        "{",
        "    ptrdiff_t i = 0;",
        f"    for (; i + {lanes} <= count; i += {lanes})",
        "        *(halves *)(to + i) = __builtin_convertvector(*(const vec *)(from + i), halves);",
        "    for (; i < count; ++i)",
        "        to[i] = (half)from[i];",
        "}",
    ]
    if format.group == 2:
        order = ", ".join(f"{i}, {lanes + i}" for i in range(lanes))
        lines += _SPLIT.format(lanes=lanes, bytes=4 * lanes, order=order, attributes=attributes).splitlines()
        lines.append(transposition(lanes))
    lines += _DOT.get(format.instruction, "").format(bits=32 * lanes, bytes=4 * lanes).splitlines()
    return "\n".join(lines)


_SPLIT = """\
typedef half pairs __attribute__((vector_size({bytes}), {attributes}));
static inline __attribute__((always_inline, unused)) void
split(const float *restrict from, half *restrict to, ptrdiff_t count, int parts, ptrdiff_t part)
{{
    for (ptrdiff_t i = 0; i < count; i += {lanes}) {{
        vec rest = *(const vec *)(from + i);
        for (int p = 0; p < parts; ++p) {{
            const halves found = __builtin_convertvector(rest, halves);
            *(halves *)(to + p * part + i) = found;
            rest -= __builtin_convertvector(found, vec);
        }}
    }}
}}
static inline __attribute__((always_inline, unused)) void
split_pairs(const float *restrict first, const float *restrict second, half *restrict to, int parts, ptrdiff_t part)
{{
    vec a = *(const vec *)first, b = *(const vec *)second;
    for (int p = 0; p < parts; ++p) {{
        const halves x = __builtin_convertvector(a, halves), y = __builtin_convertvector(b, halves);
        *(pairs *)(to + p * part) = __builtin_shufflevector(x, y, {order});
        a -= __builtin_convertvector(x, vec);
        b -= __builtin_convertvector(y, vec);
    }}
}}
"""
"""Each number is rounded to the first part, what that lacks to the second, and so on: three parts of 8 bits, each with
a sign, leave nothing of 24 bits."""


@dataclass(frozen=True)
class NarrowPacker:
    """Packs `across` x `k` of an operand of f32: a block of A with `row_step` elements from row to row, or a panel of B
    that is `width` columns wide, of which `count` exist. A may be compressed, with a `layout`. From one part of an
    element to the next, where the format has several, it is `part` numbers."""

    name: str
    operand: Operand
    across: Axis
    k: Axis
    format: Format
    part: int = 0
    row_step: int = 0
    width: int = 0
    count: int | None = None
    layout: Blocks | None = None

    @property
    def along_k(self) -> bool:
        """Whether memory is walked along k."""
        return self._packer("", 0, 0, "half").inner_is_k()

    def emit(self, code: Code) -> None:
        """Define `static void NAME(const float *src, half *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t
        k1)`; of a compressed operand with its codes and scales for `src`."""
        if self.format.group == 1:
            steps = (self.row_step, 1) if self.row_step else (1, self.width)
            self._gather(self.name, *steps, "half").emit(code)
        elif self.row_step and self.along_k:
            self._rows(code)
        else:
            chunk = (CHUNK, 1) if self.along_k else (1, self.width or RUN)
            self._gather(f"{self.name}_chunk", *chunk, "float").emit(code)
            if self.row_step:
                self._turned_rows(code)
            else:
                self._panel(code)

    def _gather(self, name: str, x_step: int, k_step: int, type: str) -> Packer | CompressedPacker:
        if self.layout is None:
            return self._packer(name, x_step, k_step, type)
        return CompressedPacker(name, self.layout, self.operand.access, self.across, self.k, x_step, k_step, type)

    def _packer(self, name: str, x_step: int, k_step: int, type: str) -> Packer:
        return Packer(
            name, self.operand, self.across, self.k, x_step, k_step, self.format.lanes, False, self.count, type
        )

    @property
    def _header(self) -> str:
        header = f"static __attribute__((noinline)) void\n{self.name}"
        parameters = source(self.layout) if self.layout else self.operand.parameters
        return header + f"({parameters}, half *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)"

    @property
    def _source(self) -> str:
        return "src, scales" if self.layout else self.operand.pointers("src")

    def _rows(self, code: Code) -> None:
        """A block of A whose runs lie along k as in memory."""
        several = self.format.parts > 1
        runs = self._gather(f"{self.name}_runs", *((0, 1, "float") if several else (self.row_step, 1, "half")))
        runs.emit(code)
        with code.block(self._header):
            code.line(f"const ptrdiff_t depth = k1 - k0, filled = {self._filled('depth')};")
            if several:
                code.line(f"float run[{self.part}] __attribute__((aligned(64)));")
                with code.loop("x", "x1", "x0"):
                    code.line(f"{runs.name}({self._source}, run, x, x + 1, k0, k1);")
                    with code.loop("k", "filled", "depth"):
                        code.line("run[k] = 0;")
                    code.line(f"split(run, dst + (x - x0) * {self.row_step}, filled, {self._parts(self.part)});")
            else:
                code.line(f"{runs.name}({self._source}, dst, x0, x1, k0, k1);")
                with code.loop("x", "x1 - x0"), code.loop("k", "filled", "depth"):
                    code.line(f"dst[x * {self.row_step} + k] = 0;")
        code.line()

    def _parts(self, part: int) -> str:
        """The last arguments of `split` and `split_pairs`."""
        return f"{self.format.parts}, {part}"

    def _filled(self, depth: str) -> str:
        step = self.format.step
        return f"({depth} + {step - 1}) / {step} * {step}"

    def _turned_rows(self, code: Code) -> None:
        """A block of A that memory holds as [k][row]: squares of pairs are transposed."""
        lanes = self.format.lanes
        reach = 2 * lanes
        with (
            code.block(self._header),
            code.block(f"for (ptrdiff_t k = k0; k < k1; k += {reach})"),
            code.block(f"for (ptrdiff_t x = x0; x < x1; x += {RUN})"),
        ):
            code.line(f"float chunk[{reach * RUN}] __attribute__((aligned(64)));")
            code.line(f"const ptrdiff_t depth = k1 - k < {reach} ? k1 - k : {reach};")
            code.line(f"const ptrdiff_t rows = x1 - x < {RUN} ? x1 - x : {RUN};")
            code.line(f"if (depth < {reach} || rows < {RUN})")
            code.line("    __builtin_memset(chunk, 0, sizeof chunk);")
            code.line(f"{self.name}_chunk({self._source}, chunk, x, x + rows, k, k + depth);")
            code.line(f"half *const to = dst + (x - x0) * {self.row_step} + (k - k0);")
            with code.block(f"for (ptrdiff_t r = 0; r < rows; r += {lanes})"):
                code.line(f"const ptrdiff_t most = rows - r < {lanes} ? rows - r : {lanes};")
                first = f"chunk + 2 * i * {RUN} + r"
                self._square(code, "i", f"split_pairs({first}, {first} + {RUN}, ")
                with code.loop("p", self.format.parts), code.loop("i", "most"):
                    place = f"to + p * {self.part} + (r + i) * {self.row_step}"
                    code.line(f"*(vec *)(void *)({place}) = block[p * {lanes} + i];")
        code.line()

    def _square(self, code: Code, index: str, split: str, count: str = "") -> None:
        """Declare `block`, a square of pairs for each part, and transpose what `split` puts into each row."""
        lanes = self.format.lanes
        code.line(f"vec block[{self.format.parts * lanes}];")
        with code.loop(index, lanes):
            code.line(f"{split}(half *)(void *)(block + {index}), {count}{self._parts(2 * lanes * lanes)});")
        with code.loop("p", self.format.parts):
            code.line(f"transpose(block + p * {lanes});")

    def _panel(self, code: Code) -> None:
        """A panel of B, a chunk of k after the other."""
        lanes, width = self.format.lanes, self.width
        with code.block(self._header), code.block(f"for (ptrdiff_t k = k0; k < k1; k += {CHUNK})"):
            code.line(f"float chunk[{width * CHUNK}] __attribute__((aligned(64)));")
            code.line(f"const ptrdiff_t depth = k1 - k < {CHUNK} ? k1 - k : {CHUNK};")
            code.line(f"if (depth < {CHUNK} || x1 - x0 < {width})")
            code.line("    __builtin_memset(chunk, 0, sizeof chunk);")
            code.line(f"{self.name}_chunk({self._source}, chunk, x0, x1, k, k + depth);")
            code.line(f"half *const to = dst + (k - k0) * {width};")
            code.line(f"const ptrdiff_t filled = {self._filled('depth')};")
            if self.along_k:
                self._turned_panel(code)
            else:
                with (
                    code.block("for (ptrdiff_t i = 0; i < filled; i += 2)"),
                    code.block(f"for (ptrdiff_t x = 0; x < {width}; x += {lanes})"),
                ):
                    first, place = f"chunk + i * {width} + x", f"to + i * {width} + 2 * x"
                    code.line(f"split_pairs({first}, {first} + {width}, {place}, {self._parts(self.part)});")
        code.line()

    def _turned_panel(self, code: Code) -> None:
        """The chunk is [column][k]: squares of pairs are transposed."""
        lanes, width = self.format.lanes, self.width
        with (
            code.block(f"for (ptrdiff_t x = 0; x < {width}; x += {lanes})"),
            code.block(f"for (ptrdiff_t i = 0; i < filled; i += {2 * lanes})"),
        ):
            code.line(f"const ptrdiff_t most = filled - i < {2 * lanes} ? (filled - i) / 2 : {lanes};")
            self._square(code, "j", f"split(chunk + (x + j) * {CHUNK} + i, ", f"{2 * lanes}, ")
            with code.loop("p", self.format.parts), code.loop("j", "most"):
                place = f"to + p * {self.part} + (i + 2 * j) * {width} + 2 * x"
                code.line(f"*(vec *)(void *)({place}) = block[p * {lanes} + j];")
