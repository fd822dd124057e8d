"""What the kernels have in common whose scores and results lie in registers, as matrix units make them.

These words of GPU-C are only for languages that have such units:

    QUAD_MAX(x), QUAD_SUM(x)  the largest, or the sum, of what four neighbours in a warp have
    EXP2(x)                   2^x to a few units in the last place

A thread has, of each piece of 16 x 8 of a result, the columns 2 t and 2 t + 1 of the rows g and 8 + g, where its place
in the warp is 4 g + t. So four neighbours have whole rows, and of scores in this layout each thread makes its words of
the left operand of the next product by itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Generic, Protocol, TypeVar

from ....ir import DType, Node, TensorType, Value
from ....plan.program import Kernel
from ...common.attention import masks_of
from ..dialect import GPU_C
from ..source import Operands, kernel_body
from .sizes import Sizes
from .writer import AttentionWriter

LOG2_E = "1.44269504f"
PIECE = 16
"""Rows that matrix units multiply together, and terms of 16 bits."""
COLUMNS = 8
"""Of a piece of a result."""


class RegisterShape(Protocol):
    """What a block makes at a time.

    pieces   of 16 rows, that a warp has
    columns  of scores
    rows     of the block
    threads  of the block"""

    @property
    def pieces(self) -> int: ...

    @property
    def columns(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def threads(self) -> int: ...


S = TypeVar("S", bound=RegisterShape)


class RegisterWriter(AttentionWriter, ABC, Generic[S]):
    """A block has `shape.rows` rows from `first` on of the head `head`; its warp those from `row0` on of them."""

    def __init__(self, node: Node, sizes: Sizes, shape: S, compute: str) -> None:
        super().__init__(node, sizes)
        self.shape, self.compute = shape, compute

    @abstractmethod
    def kernel(self) -> Kernel:
        """The one that it writes."""

    @contextmanager
    def body(
        self,
        rows: int,
        scratch: Operands = (),
        heaviest_last: bool = False,
        word: str = "KERNEL",
        more: Sequence[str] = (),
    ) -> Iterator[None]:
        """The function; blocks go through the tiles of `rows` of each head, those with the most to do first. See
        `kernel_body` for the rest."""
        code, count = self.code, -(-rows // self.shape.rows)
        with kernel_body(code, [*self.operands, *scratch], word, more):
            turn = f"{count - 1} - BLOCK % {count}" if heaviest_last and self.causal else f"BLOCK % {count}"
            code.line(f"const ptrdiff_t head = BLOCK / {count};")
            code.line(f"const int first = ({turn}) * {self.shape.rows};")
            code.line("const int g = THREAD % 32 / 4, t = THREAD % 4;")
            code.line(f"const int row0 = THREAD / 32 * {self.shape.pieces * PIECE};")
            yield

    def scratch(self) -> Operands:
        """Of each query, its result times the result's gradient, [heads of all samples, m]."""
        return [("scratch", TensorType(DType.F32, (self.sizes.batch * self.sizes.heads, self.sizes.m)), True)]

    def number(self, value: Value, bits: str) -> str:
        """Expression of a number of a value as an f32."""
        widened = GPU_C.widened.get(value.type.dtype)
        return bits if widened is None else f"({widened.format(bits)})"

    @contextmanager
    def each(self, **counts: object) -> Iterator[None]:
        """Unrolled loops, one in the other; a count may have a step: (count, step)."""
        with ExitStack() as loops:
            for index, count in counts.items():
                end, step = count if isinstance(count, tuple) else (count, 1)
                self.code.line("#pragma unroll")
                loops.enter_context(self.code.block(f"for (int {index} = 0; {index} < {end}; {index} += {step})"))
            yield

    def sums(self, name: str, columns: int) -> None:
        """Declare the thread's numbers of the block's rows of a result."""
        self.code.line(f"float {name}[{self.shape.pieces}][{columns // COLUMNS}][4] = {{{{{{0}}}}}};")

    def left_words(self, weights: str) -> list[str]:
        """Of the left operand of a product of 16-bit terms, from the terms `kk` on, which are scores."""
        pairs = [f"{weights}[p][kk / {COLUMNS} + {piece}]" for piece in (0, 1)]
        pack = f"PACK_{self.compute.upper()}"
        return [f"{pack}({pair}[{at}], {pair}[{at + 1}])" for pair in pairs for at in (0, 2)]

    @contextmanager
    def each_score(self) -> Iterator[None]:
        """For each of the thread's scores [p][j][e]."""
        with self.each(p=self.shape.pieces, j=self.shape.columns // COLUMNS, e=4):
            yield

    def scores(self, name: str, head: str, row: str, column: str, whole: list[str], limit: list[str]) -> None:
        """From products of queries and keys to scores after all masks. `row` and `column` say which of `query` and
        `key` goes along the block's rows, and where the columns begin; see `hide` for the others. With a bound of the
        scores, `bounds` are those before masks."""
        code = self.code
        if self.softcap:
            self.sums("bounds", self.shape.columns)
        with self.each_score():
            code.lines(self._places(row, column) if masks_of(self.node) else ())
            code.line(f"const float s = {name}[p][j][e];")
            self.score(head, "query", "key")
            code.lines(["bounds[p][j][e] = bounded;"] if self.softcap else ())
            code.line(f"{name}[p][j][e] = seen;")
        self.hide(name, row, column, whole, limit)

    def hide(self, name: str, row: str, column: str, whole: list[str], limit: list[str]) -> None:
        """Hide scores: `limit` are conditions in which one is hidden, `whole` those in which none of the tile is."""
        if not limit:
            return
        with self.code.block(f"if (!({' && '.join(whole)}))"), self.each_score():
            self.code.lines(self._places(row, column))
            self.code.line(f"{name}[p][j][e] = {' || '.join(limit)} ? -__builtin_inff() : {name}[p][j][e];")

    def _places(self, row: str, column: str) -> list[str]:
        (row_name, row_first), (column_name, column_first) = row.split(" = "), column.split(" = ")
        return [
            f"const int {row_name} = {row_first} + row0 + p * {PIECE} + g + e / 2 * 8;",
            f"const int {column_name} = {column_first} + j * {COLUMNS} + 2 * t + e % 2;",
        ]

    def store(self, output: int, name: str, head: str, size: tuple[int, int, int], factor: str = "1.0f") -> None:
        """Write the block's rows of a result, times a factor of row h of piece p; see `load` for the size."""
        code, (heads, rows, length) = self.code, size
        value, target = self.node.outputs[output], self.operands[len(self.node.inputs) + output][0]
        with self.each(p=self.shape.pieces, h=2):
            code.line(f"const int row = first + row0 + p * {PIECE} + g + h * 8;")
            with code.block(f"if (row < {rows})"):
                place = self.sizes.row(head, heads, rows, length, "row")
                code.line(f"GLOBAL {GPU_C.type(value.type.dtype)} *const to = {target} + {place} + 2 * t;")
                code.line(f"const float factor = {factor};")
                with self.each(x=length // COLUMNS):
                    pair = [f"{name}[p][x][2 * h + {at}] * factor" for at in (0, 1)]
                    if value.type.dtype is DType.F32:
                        for at, number in enumerate(pair):
                            code.line(f"to[x * {COLUMNS} + {at}] = {number};")
                    else:
                        packed = f"PACK_{value.type.dtype.value.upper()}({', '.join(pair)})"
                        code.line(f"*(GLOBAL uint32_t *)(to + x * {COLUMNS}) = {packed};")

    def limits(self, column: str, count: int, none_is_later: str) -> tuple[list[str], list[str]]:
        """Of a tile whose columns are `count` queries or keys; `none_is_later`: a causal attention hides nothing of it.
        See `scores`."""
        whole, limit = list[str](), list[str]()
        if count % self.shape.columns:
            whole.append(f"{column}0 + {self.shape.columns} <= {count}")
            limit.append(f"{column} >= {count}")
        if self.causal:
            whole.append(none_is_later)
            limit.append(self.is_later("query", "key"))
        return whole, limit

    def store_levels(self, top: str) -> None:
        """Write the largest score of each row, by an expression of it, and the logarithm of `total`."""
        code, rows = self.code, self.sizes.m
        levels = self.operands[len(self.node.inputs) + 1][0]
        with self.each(p=self.shape.pieces, h=2):
            code.line("const int row = first + row0 + p * 16 + g + h * 8;")
            with code.block(f"if (t == 0 && row < {rows})"):
                code.line(f"{levels}[(head * {rows} + row) * 2] = {top};")
                code.line(f"{levels}[(head * {rows} + row) * 2 + 1] = pock_log(total[p][h]);")
