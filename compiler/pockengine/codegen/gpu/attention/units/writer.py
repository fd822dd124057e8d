"""What the kernels on matrix units have in common: tiles in shared memory, products, scores in registers.

Beside the words of contraction/matrix.py and streamed.py, these of GPU-C are only for languages that have such units:

    QUAD_MAX(x), QUAD_SUM(x)  the largest, or the sum, of what four neighbours in a warp have
    EXP2(x)                   2^x to a few units in the last place

A thread has, of each piece of 16 x 8 of a result, the columns 2 t and 2 t + 1 of the rows g and 8 + g, where its place
in the warp is 4 g + t. So four neighbours have whole rows, and of scores in this layout each thread makes its words of
the left operand of the next product by itself. In tf32, where a word has one number, that product takes its terms in
another order: 2 t for t, and 2 t + 1 for t + 4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .....ir import DType, Node, TensorType, Value
from .....plan.program import Kernel
from ....common.attention import masks_of
from ...dialect import GPU_C
from ...source import Operands, kernel_body
from ..sizes import Sizes
from ..writer import AttentionWriter
from .shapes import APART, COLUMNS, PIECE, THREADS, Shape

LOG2_E = "1.44269504f"


class UnitsWriter(AttentionWriter):
    """A block has `shape.rows` rows from `first` on of the head `head`; its warp those from `row0` on of them."""

    def __init__(self, node: Node, sizes: Sizes, shape: Shape, compute: str) -> None:
        super().__init__(node, sizes)
        self.shape, self.compute = shape, compute
        self._itemsize = 4 if compute == "tf32" else 2
        self._pool = 0

    def finish(self, stem: str, shared: int = 0) -> Kernel:
        """See AttentionWriter; of the pool it takes what was declared."""
        return super().finish(f"{stem}_{self.compute}", shared or self._pool)

    @contextmanager
    def body(self, rows: int, scratch: Operands = (), heaviest_last: bool = False) -> Iterator[None]:
        """The function; blocks go through the tiles of `rows` of each head, those with the most to do first."""
        code, count = self.code, -(-rows // self.shape.rows)
        with kernel_body(code, [*self.operands, *scratch]):
            turn = f"{count - 1} - BLOCK % {count}" if heaviest_last and self.causal else f"BLOCK % {count}"
            code.line(f"const ptrdiff_t head = BLOCK / {count};")
            code.line(f"const int first = ({turn}) * {self.shape.rows};")
            code.line("const int g = THREAD % 32 / 4, t = THREAD % 4;")
            code.line(f"const int row0 = THREAD / 32 * {self.shape.pieces * PIECE};")
            yield

    def scratch(self) -> Operands:
        """Of each query, its result times the result's gradient, [heads of all samples, m]."""
        return [("scratch", TensorType(DType.F32, (self.sizes.batch * self.sizes.heads, self.sizes.m)), True)]

    def tiles(self, name: str, rows: int, length: int, stages: int = 1) -> None:
        """Declare `stages` tiles of rows of so many numbers."""
        pitch = self._pitch(length)
        self.pooled("uint32_t", name, f"[{rows}][{pitch}]", 4 * stages * rows * pitch)

    def pooled(self, type: str, name: str, shape: str, nbytes: int) -> None:
        """Declare an array of arrays of a shape in the block's pool."""
        self.code.line(f"{type} (*const {name}){shape} = ({type} (*){shape})(POOL + {self._pool});")
        self._pool += nbytes

    def _words(self, length: int) -> int:
        return length * self._itemsize // 4

    def _pitch(self, length: int) -> int:
        """Words from one row of a tile to the next."""
        return self._words(length) + APART // 4

    def source(self, operand: int, head: str, size: tuple[int, int, int]) -> None:
        """Declare where a head of an operand begins; `size` is the number of its heads, that of rows, and their
        length."""
        name, (heads, rows, length) = self.operands[operand][0], size
        type = GPU_C.type(self.node.inputs[operand].type.dtype)
        place = self.sizes.row(head, heads, rows, length, "0")
        self.code.line(f"GLOBAL const {type} *const {name}_head = {name} + {place};")

    def load(self, into: str, operand: int, size: tuple[int, int, int], first: str, count: int) -> None:
        """Begin to bring `count` rows of a head from `first` on, zeros beyond the last; see `source`."""
        code, (heads, rows, length) = self.code, size
        value, name = self.node.inputs[operand], f"{self.operands[operand][0]}_head"
        straight = value.type.dtype.value == ("f32" if self.compute == "tf32" else self.compute)
        each = 16 // self._itemsize if straight else 4 // self._itemsize
        code.line(f"#pragma unroll {4 if straight else 1}")
        with code.block(f"for (int e = THREAD; e < {count * length // each}; e += {THREADS})"):
            code.line(f"const int x = e / {length // each}, at = e % {length // each} * {each};")
            code.line(f"const int there = {first} + x < {rows};")
            place = f"(ptrdiff_t)({first} + x) * {self.sizes.stride(heads, length)} + at"
            code.line(f"const ptrdiff_t place = there ? {place} : 0;")
            to = f"{into}[x][at * {self._itemsize} / 4]"
            if straight:
                code.line(f"COPY(16, &{to}, {name} + place, there);")
            else:
                code.line(f"{to} = there ? {self._packed(value, name)} : 0;")

    def _packed(self, value: Value, name: str) -> str:
        """Expression of a word of an operand that is stored in another format."""
        first, second = (self.number(value, f"{name}[place + {at}]") for at in (0, 1))
        if self.compute == "tf32":
            return f"SAME_BITS(float, uint32_t, {first})"
        return f"PACK_{self.compute.upper()}({first}, {second})"

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

    def product(self, name: str, left: str, right: str, length: int) -> None:
        """Declare the product of the block's rows of a tile and those of another, of so many numbers each."""
        code, shape = self.code, self.shape
        self.sums(name, shape.columns)
        code.line("#pragma unroll 2")
        with code.block(f"for (int kk = 0; kk < {self._words(length)}; kk += 8)"):
            code.line(f"uint32_t l[{shape.pieces}][4];")
            with self.each(p=shape.pieces):
                self._fragment("l[p]", f"{left}[row0 + p * {PIECE}][kk]", length)
            with self.each(j=(shape.columns, PIECE)):
                code.line("uint32_t both[4];")
                self._fragment("both", f"{right}[j][kk]", length)
                self._multiply(name, f"j / {COLUMNS}")

    def add(self, sums: str, weights: str, tile: str, length: int) -> None:
        """Add to sums of `length` columns what weights in registers make with the rows of a tile."""
        code, shape, tf32 = self.code, self.shape, self.compute == "tf32"
        with self.each(kk=(shape.columns, COLUMNS if tf32 else PIECE)):
            code.line(f"uint32_t l[{shape.pieces}][4];")
            with self.each(p=shape.pieces):
                for number, word in enumerate(self._left_words(weights)):
                    code.line(f"l[p][{number}] = {word};")
            with self.each(x=(length, PIECE)):
                code.line("uint32_t both[4];")
                if tf32:
                    for number, (term, column) in enumerate(((0, 0), (0, 8), (1, 0), (1, 8))):
                        bits = f"{tile}[kk + 2 * t + {term}][x + g + {column}]"
                        code.line(f"both[{number}] = TF32(SAME_BITS(uint32_t, float, {bits}));")
                else:
                    pitch = 2 * self._pitch(length)
                    code.line(f"FRAGMENT_ACROSS(both, &{tile}[kk][x / 2], {pitch});")
                self._multiply(sums, f"x / {COLUMNS}")

    def _left_words(self, weights: str) -> list[str]:
        """Of the left operand of a product, from the terms `kk` on."""
        if self.compute == "tf32":
            return [f"TF32({weights}[p][kk / {COLUMNS}][{number}])" for number in (0, 2, 1, 3)]
        pairs = [f"{weights}[p][kk / {COLUMNS} + {piece}]" for piece in (0, 1)]
        pack = f"PACK_{self.compute.upper()}"
        return [f"{pack}({pair}[{at}], {pair}[{at + 1}])" for pair in pairs for at in (0, 2)]

    def _fragment(self, words: str, first: str, length: int) -> None:
        self.code.line(f"FRAGMENT({words}, &{first}, {self._pitch(length)});")
        if self.compute == "tf32":
            with self.each(w=4):
                self.code.line(f"{words}[w] = TF32(SAME_BITS(uint32_t, float, {words}[w]));")

    def _multiply(self, sums: str, piece: str) -> None:
        """The warp's rows of the left operand with two pieces of columns, which are `both`."""
        self.code.line("const uint32_t low[2] = {both[0], both[2]}, high[2] = {both[1], both[3]};")
        with self.each(p=self.shape.pieces):
            for further, words in enumerate(("low", "high")):
                self.code.line(f"MMA_{self.compute.upper()}({sums}[p][{piece} + {further}], l[p], {words});")

    @contextmanager
    def each_score(self) -> Iterator[None]:
        """For each of the thread's scores [p][j][e]."""
        with self.each(p=self.shape.pieces, j=self.shape.columns // COLUMNS, e=4):
            yield

    def scores(self, name: str, head: str, row: str, column: str, whole: list[str], limit: list[str]) -> None:
        """From products of queries and keys to scores after all masks. `row` and `column` say which of `query` and
        `key` goes along the block's rows, and where the columns begin; `limit` are conditions in which one is hidden,
        `whole` those in which none of the tile is. With a bound of the scores, `bounds` are those before masks."""
        code = self.code
        (row_name, row_first), (column_name, column_first) = row.split(" = "), column.split(" = ")
        places = [
            f"const int {row_name} = {row_first} + row0 + p * {PIECE} + g + e / 2 * 8;",
            f"const int {column_name} = {column_first} + j * {COLUMNS} + 2 * t + e % 2;",
        ]
        if self.softcap:
            self.sums("bounds", self.shape.columns)
        with self.each_score():
            code.lines(places if masks_of(self.node) else ())
            code.line(f"const float s = {name}[p][j][e];")
            self.score(head, "query", "key")
            code.lines(["bounds[p][j][e] = bounded;"] if self.softcap else ())
            code.line(f"{name}[p][j][e] = seen;")
        if not limit:
            return
        with code.block(f"if (!({' && '.join(whole)}))"), self.each_score():
            code.lines(places)
            code.line(f"{name}[p][j][e] = {' || '.join(limit)} ? -__builtin_inff() : {name}[p][j][e];")

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

    def key_sources(self) -> None:
        """Declare where the keys and values of the head `head` begin."""
        t = self.sizes
        self.key_head()
        self.source(1, "key_head", (t.key_heads, t.n, t.depth))
        self.source(2, "key_head", (t.key_heads, t.n, t.width))

    def load_keys(self, stage: str, first: str) -> None:
        """Begin to bring tiles of keys and values, against which queries are."""
        t, columns = self.sizes, self.shape.columns
        self.load(f"keys[{stage}]", 1, (t.key_heads, t.n, t.depth), first, columns)
        self.load(f"values[{stage}]", 2, (t.key_heads, t.n, t.width), first, columns)
        self.code.line("COPIES_BEGUN;")

    @contextmanager
    def against_keys(self) -> Iterator[None]:
        """For each tile of keys that the block's queries, which are on their way, may see: their `scores`. Tiles
        `stage` are there meanwhile, the next ones on their way."""
        code, t, columns = self.code, self.sizes, self.shape.columns
        code.line(f"const int last = {self.last_key(self.shape.rows)};")
        code.line("int stage = 0;")
        self.load_keys("0", "0")
        with code.block(f"for (int key0 = 0; key0 < last; key0 += {columns})"):
            code.line("COPIES_WAIT(0);")
            code.line("BARRIER;")
            with code.block(f"if (key0 + {columns} < last)"):
                self.load_keys("1 - stage", f"key0 + {columns}")
            self.product("scores", "queries[0]", "keys[stage]", t.depth)
            limits = self.limits("key", t.n, f"key0 + {columns - 1 - (t.n - t.m)} <= first")
            self.scores("scores", "head", "query = first", "key = key0", *limits)
            yield
            code.line("stage = 1 - stage;")
        code.line("COPIES_WAIT(0);")

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
