"""What the kernels on matrix units have in common: tiles in shared memory and products of them.

The words are those of contraction/matrix.py and streamed.py.
In tf32, where a word has one number, a product of scores takes its terms in another order than they lie in: 2 t for t,
and 2 t + 1 for t + 4."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .....ir import Node, Value
from .....plan.program import Kernel
from ...dialect import GPU_C
from ..registers import COLUMNS, PIECE, RegisterWriter
from ..sizes import Sizes
from .shapes import APART, THREADS, Shape


class UnitsWriter(RegisterWriter[Shape]):
    """Tiles lie in rows of words, some bytes apart."""

    def __init__(self, node: Node, sizes: Sizes, shape: Shape, compute: str) -> None:
        super().__init__(node, sizes, shape, compute)
        self._itemsize = 4 if compute == "tf32" else 2
        self._pool = 0

    def finish(self, stem: str, shared: int = 0) -> Kernel:
        """See AttentionWriter; of the pool it takes what was declared."""
        return super().finish(f"{stem}_{self.compute}", shared or self._pool)

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
                for number, word in enumerate(self.left_words(weights)):
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

    def left_words(self, weights: str) -> list[str]:
        """See RegisterWriter."""
        if self.compute != "tf32":
            return super().left_words(weights)
        return [f"TF32({weights}[p][kk / {COLUMNS}][{number}])" for number in (0, 2, 1, 3)]

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
