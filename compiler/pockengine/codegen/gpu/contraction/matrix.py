"""Products on a GPU's matrix units: 16-bit floats, tf32 or 8-bit floats, added up in f32.

32 threads (a warp) multiply pieces of 16 x 8 results together (`mma.sync`, PTX ISA 8.7, "Matrix fragments for
mma.m16n8k16" and "mma.m16n8k8"). Operands come from memory as f32 and are rounded on their way to shared memory, where
a word of 32 bits is two neighbours along k, or one number of tf32; the next words are on their way from memory while a
tile is multiplied. For tf32 they can be copied as they are, in the background, and rounded after that (streamed.py); so
can what is stored in the format in which it is multiplied (straight.py). Where both operands are copied, their tiles
form rings: the next ones are on their way while one is multiplied.
These words of GPU-C are only for languages that have such units:

    TF32(a)           an f32 as the word of a tf32
    MMA_BF16(s, l, r) adds to the thread's four sums `s` what its warp's words `l` (4) and `r` (2) make; MMA_F16,
                      MMA_TF32 and MMA_E4M3 likewise
    FRAGMENT(w, first, pitch)
                      the thread's four words `w` of a piece of 16 rows x 8 words in shared memory, whose rows begin
                      `pitch` words apart at multiples of 16 bytes (`ldmatrix`, PTX ISA 8.7): of rows t / 4 and
                      8 + t / 4 word t % 4, then word 4 + t % 4, where t is its place in the warp
    FRAGMENT_ACROSS(w, first, pitch)
                      the same of a tile that lies across: 16 rows of 16 numbers of 16 bits, whose rows begin `pitch`
                      numbers apart, are the columns of a piece, two to a word
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from ....plan.program import Kernel
from ....targets import Gpu
from ...common.index_maps import Contraction
from ..pace import CACHE_BYTES, LATENCY, WARP, Pace
from . import straight
from .rings import SIDES, Loads, Ring, Tile, pitch_of, rings_of, words_of
from .straight import PITCH, WORDS, numbers_of
from .streamed import Side, goes_along_k, stages_for, steps
from .writer import Writer

FORMATS = ("bf16", "f16", "tf32")
LEAST = 16
"""Rows, columns and products below which matrix units have little to do."""


@dataclass(frozen=True)
class Shape:
    """A block's part of the result: warps as `down` x `across`, each of `m` pieces of 16 rows and `n`, an even number,
    of 8 columns."""

    down: int
    across: int
    m: int
    n: int

    @property
    def name(self) -> str:
        """For people and for stores of choices."""
        return f"{self.rows} x {self.columns} by {self.threads // WARP} warps"

    @property
    def rows(self) -> int:
        return self.down * self.m * 16

    @property
    def columns(self) -> int:
        return self.across * self.n * 8

    @property
    def widths(self) -> dict[str, int]:
        """Rows or columns of the tiles of the left and the right operand."""
        return dict(zip(SIDES, (self.rows, self.columns), strict=True))

    @property
    def threads(self) -> int:
        return self.down * self.across * 32

    def blocks(self, m: int, n: int) -> int:
        """Blocks over m x n."""
        return -(-m // self.rows) * -(-n // self.columns)

    def stages(self, compute: str, gpu: Gpu) -> int:
        """Of tiles in rings; fewer than 2: there is no room for rings."""
        return stages_for((self.rows + self.columns) * pitch_of(compute) * 4, gpu.block_shared_bytes)

    def pace(self, compute: str, gpu: Gpu, rings: bool, sizes: tuple[float, float]) -> Pace:
        """Of a block: the slowest of arithmetic, of reading operands, whose numbers have `sizes` in bytes, and of
        reading the tiles in shared memory."""
        words, warps = words_of(compute) if rings else WORDS, self.threads // WARP
        deep = words * numbers_of(compute)
        rate = gpu.matrix_flops_per_cycle(compute) / gpu.multiprocessors
        flops = 2 * self.rows * self.columns * deep / rate / (SYNC_SHARE if gpu.has_warpgroup_units else 1)
        read = (self.rows * sizes[0] + self.columns * sizes[1]) * deep / CACHE_BYTES
        shared = warps * words // 8 * (4 * self.m + 2 * self.n)
        latency = LATENCY / (self.stages(compute, gpu) - 1 if rings else 1)
        return Pace(deep, max(flops, read, shared), latency, max(1, RESIDENT_SUMS // (self.rows * self.columns)))


SHAPES = Shape(2, 2, 2, 4), Shape(4, 1, 2, 4), Shape(1, 4, 2, 4), Shape(2, 4, 4, 4)
"""64 x 64 results, 128 x 32, 32 x 128, 128 x 128."""
LARGE = Shape(2, 2, 4, 8), Shape(2, 4, 4, 8)
"""128 x 128 results by 4 warps, 128 x 256, with both operands in rings: a warp reads less of its tiles for a product,
and has no registers to spare for what is converted."""
TOGETHER = 16
"""Rows of tiles that blocks go through before they begin with the next ones."""
SYNC_SHARE = 0.62
"""Part of their peak that Hopper's matrix units reach by `mma.sync` (W. Luo et al., "Benchmarking and dissecting the
NVIDIA Hopper GPU architecture via microbenchmarking", 2024)."""
RESIDENT_SUMS = 32768
"""Sums that a multiprocessor has in registers at a time: half of its words."""


def shapes(rings: bool, compute: str, gpu: Gpu) -> Iterable[Shape]:
    """What a block may make; `rings`: both operands can be copied."""
    rest = (shape for shape in LARGE if rings and compute != "tf32" and shape.stages(compute, gpu) > 1)
    return *SHAPES, *rest


def suits(part: Contraction) -> bool:
    """Whether matrix units have enough to do."""
    _, m, n, k = part.sizes()
    return min(m, n, k) >= LEAST


def units_of(kernel: Kernel, compute: str) -> str | None:
    """The format in which it multiplies on matrix units, of a step that does so in `compute`; None where it does
    not."""
    if "MMA_" not in kernel.source:
        return None
    return straight.E4M3 if "MMA_E4M3" in kernel.source else compute


@contextmanager
def begin(writer: Writer, shape: Shape) -> Iterator[None]:
    """The function, and the block's `place`."""
    with writer.function(tiles(writer, shape)):
        place(writer, shape)
        yield


def tiles(writer: Writer, shape: Shape) -> int:
    """Tiles of the whole result."""
    batch, m, n, _ = writer.part.sizes()
    return batch * shape.blocks(m, n)


def place(writer: Writer, shape: Shape, below: str = "") -> None:
    """Where the tile `block` lies, or what begins so many rows `below`: blocks go through the tiles of the result by
    columns, of some rows of tiles at a time, so that those that run together read little that is not in the GPU's
    cache. `m0` and `n0` are the first row and column of the block's tile, `row0` and `column0` those of its warp; `g`
    and `t` say which of a piece the thread has."""
    code, (_, m, n, _) = writer.code, writer.part.sizes()
    across, down = -(-n // shape.columns), -(-m // shape.rows)
    code.line(f"const ptrdiff_t b = block / {across * down};")
    code.line(f"const int turn = block % {across * down};")
    row, height = "0", str(down)
    if down > TOGETHER:
        row, height = "row", "height"
        code.line(f"const int row = turn / {TOGETHER * across} * {TOGETHER};")
        code.line(f"const int height = {down} - row < {TOGETHER} ? {down} - row : {TOGETHER};")
    turn = f"turn % {TOGETHER * across}" if down > TOGETHER else "turn"
    code.line(f"const ptrdiff_t m0 = ({row} + {turn} % {height}) * {shape.rows}{below};")
    code.line(f"const ptrdiff_t n0 = {turn} / {height} * {shape.columns};")
    code.line("const int g = THREAD % 32 / 4, t = THREAD % 4;")
    code.line(f"const int row0 = THREAD / 32 / {shape.across} * {shape.m * 16};")
    code.line(f"const int column0 = THREAD / 32 % {shape.across} * {shape.n * 8};")
    writer.digits("b", writer.part.b)


def tiled(writer: Writer, shape: Shape, compute: str, gpu: Gpu) -> Kernel:
    """An operand that is stored as it is multiplied is copied in the background, any other converted on its way; if
    both are, or both f32 for tf32, they come in rings."""
    code = writer.code
    rings = rings_of(writer, shape.widths, shape.stages(compute, gpu), compute) if gpu.copies_apart else []
    found = (straight.copied(writer, side, shape.widths[side], compute) for side in SIDES if gpu.copies_apart)
    copied = {side.name: side for side in found if side is not None and not rings}
    with begin(writer, shape):
        for ring in rings:
            ring.declare(code, pooled=True)
        for side in SIDES if not rings else ():
            if side in copied:
                Ring(copied[side], straight.STAGES).declare(code)
                continue
            code.line(f"SHARED uint32_t {side}_tile[{shape.widths[side]}][{PITCH}] __attribute__((aligned(16)));")
        code.line(f"float sums[{shape.m}][{shape.n}][4] = {{{{{{0}}}}}};")
        if rings:
            _by_rings(writer, shape, compute, rings)
        else:
            _by_steps(writer, shape, compute, copied)
        results(writer, shape)
    return writer.kernel(f"{compute}_streamed" if rings else compute, sum(ring.nbytes for ring in rings))


def _by_rings(writer: Writer, shape: Shape, compute: str, rings: Sequence[Ring]) -> None:
    """While a tile is multiplied, the next ones are copied."""

    def load() -> None:
        for ring in rings:
            ring.side.load(writer, shape.threads)

    def multiply() -> None:
        words = rings[0].side.deep // numbers_of(compute)
        _multiply(writer, shape, compute, words, {ring.side.name: ring.load for ring in rings})

    steps(writer.code, rings[0].side.deep, rings[0].stages, load, multiply)


def _by_steps(writer: Writer, shape: Shape, compute: str, copied: Mapping[str, Side]) -> None:
    """While a tile is multiplied, the words of the next are on their way to registers, or are `copied`."""
    code, deep = writer.code, WORDS * numbers_of(compute)
    fetched = [side for side in SIDES if side not in copied]
    for side in fetched:
        code.line(f"uint32_t next_{side}[{_share(side, shape)}];")

    tiles: dict[str, Loads] = {side: Tile(f"{side}_tile", PITCH).load for side in SIDES}
    for name, copy in copied.items():
        tiles[name] = Ring(copy, straight.STAGES).load
    with code.loop("k0", f"end + {deep}", "first", deep):
        if copied:
            code.line(f"const int into = (int)((k0 - first) / {deep} % {straight.STAGES}), stage = 1 - into;")
        with code.block("if (k0 > first)"):
            for side in fetched:
                _keep(writer, side, shape)
        if copied:
            code.line("COPIES_WAIT(0);")
        code.line("BARRIER;")
        with code.block("if (k0 < end)"):
            for one in copied.values():
                one.load(writer, shape.threads)
            if copied:
                code.line("COPIES_BEGUN;")
            for side in fetched:
                _fetch(writer, side, shape, compute)
        with code.block("if (k0 > first)"):
            _multiply(writer, shape, compute, WORDS, tiles)
        code.line("BARRIER;")


def _share(side: str, shape: Shape) -> int:
    """Words of a tile that each thread brings."""
    return shape.widths[side] * WORDS // shape.threads


def _places(writer: Writer, side: str, width: int) -> None:
    """Which row `x` of a tile and which word `kk` of it: neighbours in memory for neighbouring threads."""
    code = writer.code
    access, axis, _, _ = writer.side(side)
    if goes_along_k(writer, access, axis):
        code.line(f"const int kk = e % {WORDS}, x = e / {WORDS};")
    else:
        code.line(f"const int x = e % {width}, kk = e / {width};")


def _fetch(writer: Writer, side: str, shape: Shape, compute: str) -> None:
    """From memory to registers: rounded, or as it is stored."""
    code = writer.code
    code.line("#pragma unroll")
    with code.block(f"for (int w = 0; w < {_share(side, shape)}; ++w)"):
        code.line(f"const int e = THREAD + w * {shape.threads};")
        _places(writer, side, shape.widths[side])
        code.line(f"next_{side}[w] = {straight.word(writer, side, compute)};")


def _keep(writer: Writer, side: str, shape: Shape) -> None:
    """From registers to shared memory."""
    code = writer.code
    code.line("#pragma unroll")
    with code.block(f"for (int w = 0; w < {_share(side, shape)}; ++w)"):
        code.line(f"const int e = THREAD + w * {shape.threads};")
        _places(writer, side, shape.widths[side])
        code.line(f"{side}_tile[x][kk] = next_{side}[w];")


def _multiply(writer: Writer, shape: Shape, compute: str, words: int, tiles: Mapping[str, Loads]) -> None:
    """A tile by a tile, each of so many words along k."""
    code = writer.code
    code.line("#pragma unroll")
    with code.block(f"for (int kk = 0; kk < {words}; kk += 8)"):
        code.line(f"uint32_t l[{shape.m}][4], r[{shape.n}][2];")
        code.line("#pragma unroll")
        with code.block(f"for (int i = 0; i < {shape.m}; ++i)"):
            tiles["left"](code, "l[i]", "row0 + i * 16")
        code.line("#pragma unroll")
        with code.block(f"for (int j = 0; j < {shape.n}; j += 2)"):
            code.line("uint32_t both[4];")
            tiles["right"](code, "both", "column0 + j * 8")
            for number, (column, word) in enumerate(((0, 0), (1, 0), (0, 1), (1, 1))):
                code.line(f"r[j + {column}][{word}] = both[{number}];")
        code.line("#pragma unroll")
        with code.block(f"for (int i = 0; i < {shape.m}; ++i)"):
            code.line("#pragma unroll")
            with code.block(f"for (int j = 0; j < {shape.n}; ++j)"):
                code.line(f"MMA_{compute.upper()}(sums[i][j], l[i], r[j]);")


def results(writer: Writer, shape: Shape) -> None:
    """The epilogue on the thread's results, two neighbours at a time where rows have a whole number of such."""
    code, (_, m, n, _) = writer.code, writer.part.sizes()
    pairs = n % 2 == 0
    with ExitStack() as loops:
        for index, count in (("i", shape.m), ("j", shape.n), ("s", 2 if pairs else 4)):
            code.line("#pragma unroll")
            loops.enter_context(code.block(f"for (int {index} = 0; {index} < {count}; ++{index})"))
        half, column = ("s", "2 * t") if pairs else ("s / 2", "2 * t + s % 2")
        code.line(f"const ptrdiff_t m = m0 + row0 + i * 16 + g + {half} * 8;")
        code.line(f"const ptrdiff_t n = n0 + column0 + j * 8 + {column};")
        with code.block(f"if (m < {m} && n < {n})"):
            if pairs:
                writer.give_both("&sums[i][j][2 * s]")
            else:
                writer.give("sums[i][j][s]")
