"""What happens to a finished tile of a contraction: the region's elementwise epilogue, written to the outputs.

Emits one C function, `finish`, that walks a tile of `rows` x `cols` results and applies the body to each; other
operands are read, and outputs written, through index maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ....ir import Graph, Node, Value
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.index_maps import Axis, Contraction
from ...common.indexing import broadcast_strides, flat_offset
from ...common.region import needed
from .bits import MaskLoop, block_of, is_bits
from .source import VECTORIZE_SHORT, Code

FINISH = """static inline __attribute__((always_inline)) void
{name}(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, {type} *tile, ptrdiff_t step, ptrdiff_t rows,
ptrdiff_t cols)"""

FETCH = """static inline __attribute__((always_inline)) void
fetch(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, ptrdiff_t rows, ptrdiff_t cols)"""
LINE_BYTES = 64


@dataclass(frozen=True)
class _Operand:
    """An input or output of the epilogue: its argument index, C name, and stride per digit of the contraction."""

    index: int
    value: Value
    name: str
    written: bool
    steps: dict[str, int]
    base: int

    @property
    def type(self) -> str:
        return ("" if self.written else "const ") + c_type(self.value.type.dtype)

    def declare(self, code: Code, offset: str) -> None:
        """Declare `NAME_row`, `offset` elements from the operand's start."""
        if is_bits(self.value):
            code.line(f"{self.type} *const {self.name} = ({self.type} *)arg[{self.index}];")
            code.line(f"const ptrdiff_t {self.name}_row = {offset};")
        else:
            code.line(f"{self.type} *const {self.name}_row = ({self.type} *)arg[{self.index}] + {offset};")

    def offset(self, flat: str, axis: Axis) -> str:
        """C expression of the elements to the flat index `flat` of an axis."""
        return flat_offset(flat, [d.extent for d in axis], [self.steps.get(d.name, 0) for d in axis])


@dataclass(frozen=True)
class Epilogue:
    """The body after the anchor; operands named by their position among the call's arguments.

    name      of the C function
    results   the outputs that are written, where the region has others too
    kept      what takes the product's place in the tile, for sums over it
    columns   a divisor of the columns at which tiles begin and end"""

    graph: Graph
    anchor: Node
    contraction: Contraction
    name: str = "finish"
    results: tuple[Value, ...] | None = None
    kept: Value | None = None
    columns: int = 1

    def emit(self, code: Code) -> set[str]:
        """Write `finish`; returns the math functions it needs."""
        body, operands = Body(C, self.graph), self._operands()
        outer, inner = (("m", "rows"), ("n", "cols"))
        if operands and not self._inner_is_n(operands[-1].steps):
            outer, inner = inner, outer
        type = c_type(self.anchor.output.type.dtype)
        axes = {"m": self.contraction.m, "n": self.contraction.n}
        masks = self._mask_loop(operands, inner[0])
        tile = type if self.kept else f"const {type}"
        with code.block(FINISH.format(name=self.name, type=tile)), code.loop(*outer):
            for operand in operands:
                flat = f"({outer[0]}0 + {outer[0]})"
                parts = [operand.offset("b", self.contraction.b), operand.offset(flat, axes[outer[0]])]
                parts += [str(operand.base)]
                offset = " + ".join(part for part in parts if part != "0") or "0"
                operand.declare(code, offset)
            flat = f"({inner[0]}0 + {inner[0]})"
            within = {operand.name: operand.offset(flat, axes[inner[0]]) for operand in operands}
            fixed = [operand for operand in operands if within[operand.name] == "0" and not operand.written]
            self._load(code, body, fixed, within, masks)
            with masks.loop(code, *inner, pragma=VECTORIZE_SHORT):
                code.line(f"const {type} product = tile[m * step + n];")
                body.names[self.anchor.output] = "product"
                self._load(code, body, [o for o in operands if o not in fixed and not o.written], within, masks)
                body.compute(code, self._nodes())
                for operand in operands:
                    if operand.written:
                        code.line(f"{operand.name}_row[{within[operand.name]}] = {body.names[operand.value]};")
                if self.kept:
                    code.line(f"tile[m * step + n] = {body.names[self.kept]};")
        code.line()
        return body.needs

    def _mask_loop(self, operands: Sequence[_Operand], inner: str) -> MaskLoop:
        """How masks of bits are read along the inner axis: in blocks where the tiles' columns begin and end at whole
        bytes of all of them. None is written here: only elementwise regions make them."""
        c, bits = self.contraction, [operand for operand in operands if is_bits(operand.value)]
        block = 1
        if bits and inner == "n" and len(c.n) == 1 and all(one.steps.get(c.n[0].name) == 1 for one in bits):
            rows = [one.steps.get(digit.name, 0) for one in bits for digit in (*c.b, *c.m)]
            block = block_of([self.columns, *rows, *(one.base for one in bits)])
        return MaskLoop(block, [one.name for one in bits] if block > 1 else (), origin="n0")

    def emit_fetch(self, code: Code) -> None:
        """Write `fetch`, which asks for the lines of a tile that the epilogue will read."""
        c = self.contraction
        with code.block(FETCH), code.loop("m", "rows"):
            for operand in self.fetched():
                parts = [operand.offset("b", c.b), operand.offset("(m0 + m)", c.m), str(operand.base), "n0"]
                offset = " + ".join(part for part in parts if part != "0")
                code.line(f"{operand.type} *const {operand.name} = ({operand.type} *)arg[{operand.index}] + {offset};")
                step = LINE_BYTES // operand.value.type.dtype.nbytes
                with code.block(f"for (ptrdiff_t n = 0; n < cols; n += {step})"):
                    code.line(f"__builtin_prefetch({operand.name} + n);")
        code.line()

    def fetched(self) -> list[_Operand]:
        """What the epilogue reads that may come from memory and lies along the tile's rows."""
        return [operand for operand in self._operands() if not operand.written and self._along_rows(operand)]

    def _along_rows(self, operand: _Operand) -> bool:
        n = self.contraction.n
        whole = operand.value.type.size == math.prod(self.contraction.shape) and not is_bits(operand.value)
        return whole and len(n) == 1 and operand.steps.get(n[0].name) == 1

    def _nodes(self) -> list[Node]:
        wanted = [*self._results(), *([self.kept] if self.kept else [])]
        return needed(wanted, self.graph, [self.anchor.output])

    def _results(self) -> tuple[Value, ...]:
        return tuple(self.graph.outputs.values()) if self.results is None else self.results

    def _operands(self) -> list[_Operand]:
        """What the epilogue reads, then the outputs."""
        read = {value for node in self._nodes() for value in node.inputs}
        inputs = [(i, value) for i, value in enumerate(self.graph.inputs) if value in read]
        results = set(self._results())
        outputs = [
            (i, value)
            for i, value in enumerate(self.graph.outputs.values(), len(self.graph.inputs))
            if value in results
        ]
        return [self._operand(i, value, f"x{i}", False) for i, value in inputs] + [
            self._operand(i, value, f"out{i}", True) for i, value in outputs
        ]

    def _operand(self, index: int, value: Value, name: str, written: bool) -> _Operand:
        strides = broadcast_strides(value.type.shape, self.contraction.shape)
        base = sum(start * stride for start, stride in zip(self.contraction.origin, strides, strict=False))
        return _Operand(index, value, name, written, self.contraction.steps(strides), base)

    def _load(
        self, code: Code, body: Body, operands: list[_Operand], within: Mapping[str, str], masks: MaskLoop
    ) -> None:
        for operand in operands:
            name, place = operand.name, within[operand.name]
            variable = f"{name}_bit" if is_bits(operand.value) else name
            code.line(f"{operand.type} {variable} = {masks.read(operand.value, name, place)};")
            body.names[operand.value] = variable

    def _inner_is_n(self, steps: dict[str, int]) -> bool:
        """Whether an output's neighbours along n are neighbours in memory, or no axis has that property."""
        m, n = self.contraction.m, self.contraction.n
        return not (m and steps.get(m[-1].name, 0) == 1 and not (n and steps.get(n[-1].name, 0) == 1))
