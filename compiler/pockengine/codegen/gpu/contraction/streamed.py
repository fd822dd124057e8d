"""Tiles of operands that go to shared memory in the background, some steps ahead of the product that reads them.

Only numbers that need no work on their way can: f32, and 16-bit floats that are multiplied as they are. These words of
GPU-C are for languages that have such copies, GPUs of NVIDIA's from compute capability 8.0 on (PTX ISA 8.7,
"cp.async"):

    COPY(bytes, to, from, there)  begins to copy so many bytes, 4 or 16, to shared memory; zeros where not `there`
    COPIES_BEGUN                  those that the thread has begun since the last time are a group
    COPIES_WAIT(n)                until at most n of the thread's groups are on their way
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ....ir import DType, Node
from ...common.index_maps import Access, Axis, element_offset, inside
from ...common.region import body_of
from ..dialect import GPU_C
from ..source import Code
from .writer import Writer, guarded, is_run, unpacked

MOST_STAGES = 4
SHARED_BYTES = 48 << 10
"""Of a block, as every GPU of NVIDIA's gives it without being asked."""
VECTORS = (16, 4)
"""Bytes that can be copied at once."""


def suits(node: Node, anchor: Node) -> bool:
    """Whether both operands of a region's product are f32 in memory."""
    return not unpacked(body_of(node), anchor) and all(value.type.dtype is DType.F32 for value in anchor.inputs)


def stages_for(stage_bytes: int, room: int = SHARED_BYTES) -> int:
    """Tiles of both operands that so many bytes of shared memory have room for."""
    return min(MOST_STAGES, room // stage_bytes)


def steps(code: Code, deep: int, stages: int, load: Callable[[], None], multiply: Callable[[], None]) -> None:
    """The loop over the terms from `first` to `end`. `load` begins the copies of the terms from `k0` to the tiles
    `into`; `multiply` reads the tiles `stage`."""
    with code.loop("ahead", stages - 1):
        code.line(f"const ptrdiff_t k0 = first + ahead * {deep};")
        code.line("const int into = (int)ahead;")
        with code.block("if (k0 < end)"):
            load()
        code.line("COPIES_BEGUN;")
    code.line("int stage = 0;")
    with code.loop("step", "end", "first", deep):
        code.line(f"COPIES_WAIT({stages - 2});")
        code.line("BARRIER;")
        code.line(f"const ptrdiff_t k0 = step + {(stages - 1) * deep};")
        code.line(f"const int into = (stage + {stages - 1}) % {stages};")
        with code.block("if (k0 < end)"):
            load()
        code.line("COPIES_BEGUN;")
        multiply()
        code.line(f"stage = (stage + 1) % {stages};")


@dataclass(frozen=True)
class Side:
    """One operand's tiles, `left_tile` or `right_tile`: `width` rows or columns, from `m0` or `n0` on, of `deep` terms
    each. `by_k`: neighbours in the tile are so along k. `itemsize` is that of a number; by k, a place in the tile has 4
    bytes of them."""

    name: str
    width: int
    deep: int
    by_k: bool
    itemsize: int = 4

    @property
    def place(self) -> str:
        """Where in a tile the number `x`, `kk` is."""
        return f"[x][kk / {4 // self.itemsize}]" if self.by_k else "[kk][x]"

    def vector(self, writer: Writer) -> int:
        """Numbers that are copied at once: 16 bytes where as many lie side by side here and there, else 4. Zero where
        they do not."""
        access, axis, _, _ = writer.side(self.name)
        along_k = goes_along_k(writer, access, axis)
        for numbers in (size // self.itemsize for size in VECTORS):
            beside = along_k == self.by_k and lie_together(access, writer.part.k if along_k else axis, numbers)
            if numbers == 1 or beside:
                return numbers
        return 0

    def load(self, writer: Writer, threads: int) -> None:
        """Begin the copies of a tile."""
        code, k, each = writer.code, writer.part.sizes()[3], self.vector(writer)
        access, axis, flat, extent = writer.side(self.name)
        along_k = goes_along_k(writer, access, axis)
        count, inner = self.width * self.deep // each, (self.deep if along_k else self.width) // each
        some = [f"THREAD + w * {threads} < {count}"] if count % threads else []
        code.line("#pragma unroll")
        with code.block(f"for (int w = 0; w < {-(-count // threads)}; ++w)"), guarded(code, some):
            code.line(f"const int e = THREAD + w * {threads};")
            near, far = ("kk", "x") if along_k else ("x", "kk")
            code.line(f"const int {near} = e % {inner} * {each}, {far} = e / {inner};")
            code.line(f"const ptrdiff_t {flat} = {flat}0 + x, k = k0 + kk;")
            code.line(f"const {GPU_C.type(writer.lies(access).dtype)} *from = {writer.pointer(access)};")
            code.line("int there = 0;")
            with code.block(f"if ({flat} < {extent} && k < {k})"):
                writer.digits(flat, axis)
                writer.digits("k", writer.part.k)
                with guarded(code, inside(access)):
                    code.line(f"from += {element_offset(access)};")
                    code.line("there = 1;")
            code.line(f"COPY({self.itemsize * each}, &{self.name}_tile[into]{self.place}, from, there);")


def goes_along_k(writer: Writer, access: Access, axis: Axis) -> bool:
    """Whether neighbours of an operand in memory are so along k, and not along its axis beside k."""
    return is_run(access, writer.part.k) and not is_run(access, axis)


def lie_together(access: Access, axis: Axis, numbers: int) -> bool:
    """Whether so many numbers along an axis always lie side by side, at a multiple of their bytes."""
    if not axis:
        return False
    last = axis[-1]
    if access.strides.get(last.name) != 1 or last.extent % numbers or access.base % numbers:
        return False
    others = [stride for name, stride in access.strides.items() if name != last.name]
    others += [window.stride for window in access.windows]
    alone = all(name != last.name for window in access.windows for name, _ in window.terms)
    return alone and not any(stride % numbers for stride in others)
