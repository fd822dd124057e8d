"""How fast this machine is at best: arithmetic by our own micro-kernels on data in the first-level cache, in whichever
format of the target's is quickest; memory by a loop that reads one large array and writes another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..codegen.backend import Call, Kernel, Lowered
from ..codegen.c import microkernel, narrow, narrow_schedule
from ..codegen.c.formats import Format, f32, fastest
from ..codegen.c.source import SIGNATURE, Code, kernel
from ..codegen.folder_cache import default_folder, workspace
from ..errors import PockError
from ..ir import DType, Node, TensorType, Value
from ..targets import Target
from . import measure
from .measure import Limits, Run, Trial

DEPTH = 128
"""Products of all parts of an element that a register tile sums up: its operands then fit into 32 KB."""
FLOPS = 2e8
"""Operations of one thread in one run: some milliseconds."""
ARRAY_BYTES = 64 << 20
ROUNDS = 12


@dataclass(frozen=True)
class Peak:
    """Operations and bytes (read and written) a second, of `threads` together."""

    flops: float
    bytes: float
    threads: int


def measure_peak(target: Target, threads: int, cache: Path | None = None) -> Peak:
    """The best of some runs on this machine, which must be the target. Raises ToolchainError or PockError."""
    array = min(ARRAY_BYTES, target.ram_bytes // 16 // 4096 * 4096)
    tiles = [_tile(target, format) for format in dict.fromkeys((f32(target), fastest(target)))]
    trials = [*(_trial(_arithmetic(tile), 0) for tile in tiles), _trial(_copy(array), 2 * array)]
    with workspace(cache or default_folder()) as place:
        program = place / "measure"
        program.write_bytes(measure.build(trials, target, threads, cache))
        program.chmod(0o755)
        limits = Limits(ROUNDS, 1000.0, 0)
        *arithmetic, copied = [
            _best(measure.run(program, index, trial, b"", place / "run", threads, limits))
            for index, trial in enumerate(trials)
        ]
    flops = max(tile.repeats * tile.flops / ms for tile, ms in zip(tiles, arithmetic, strict=True))
    return Peak(1e3 * flops * threads, 1e3 * 2 * array / copied, threads)


def _best(runs: list[Run]) -> float:
    (run,) = runs
    if run.failure is not None:
        raise PockError(f"this machine's peak cannot be measured: {run.failure}")
    return min(run.ms)


def _trial(made: Kernel, workspace: int) -> Trial:
    node = Node("peak", (), (Value("y", TensorType(DType.F32, (1,))),))
    call = Call(made, node.outputs, workspace > 0, True, 0, 0)
    return Trial(node, (Lowered((call,), workspace),))


@dataclass(frozen=True)
class _Tile:
    """A register tile in a format, `depth` products deep."""

    format: Format
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        return 2 * self.rows * self.columns * self.depth

    @property
    def repeats(self) -> int:
        return max(1, int(FLOPS / self.flops))

    def microkernel(self) -> microkernel.Tile:
        """On packed operands (codegen/c/narrow.py): rows of A or, in f32, columns of A."""
        parts, depth = self.format.parts, self.depth
        a_row, a_k = (parts * depth, 1) if self.format.narrow else (1, self.rows)
        vectors = self.columns // self.format.lanes
        strides = (a_row, a_k, self.columns, self.columns)
        return microkernel.Tile(self.rows, vectors, self.format.lanes, *strides, parts, depth, depth * self.columns)


def _tile(target: Target, format: Format) -> _Tile:
    rows, columns = target.mr, target.nr
    if _in_tiles(format):
        rows, columns = narrow_schedule.AMX_ROWS, narrow_schedule.AMX_VECTORS * format.lanes
    return _Tile(format, rows, columns, format.filled(DEPTH // format.parts))


def _in_tiles(format: Format) -> bool:
    return format.instruction == "amx"


def _arithmetic(shape: _Tile) -> Kernel:
    """The register tile over and over on the same operands."""
    format, tile, code = shape.format, shape.microkernel(), Code()
    code.line(microkernel.vector_type(format.lanes))
    if format.narrow:
        code.line(narrow.declarations(format))
    if _in_tiles(format):
        code.line(microkernel.AMX_SHAPE)
    code.line(microkernel.define(tile, format))
    deep = shape.depth * format.parts
    with code.block(SIGNATURE):
        for name, size in (("a", shape.rows * deep), ("b", shape.columns * deep)):
            code.line(f"{format.type} {name}[{size}] __attribute__((aligned(64)));")
            with code.loop("i", size):
                code.line(f"{name}[i] = ({format.type})(float)(i % 7);")
        code.line(f"float c[{shape.rows * shape.columns}] __attribute__((aligned(64)));")
        if _in_tiles(format):
            code.line("__builtin_ia32_tile_loadconfig(&tile_shape);")
        with code.loop("repeat", shape.repeats):
            code.line(f"{tile.name}({shape.depth}, a, b, c, 0);")
            code.line('__asm__ volatile("" ::: "memory");')
        code.line("if (task == 0)")
        code.line("    *(float *)arg[0] = c[0];")
    title = f"arithmetic at its best: tile {shape.rows} x {shape.columns} in {format.name}"
    return kernel("peak", title, code.text())


def _copy(nbytes: int) -> Kernel:
    """The second half of the workspace becomes the first half's numbers, halved: no library call can take it over."""
    code = Code()
    with code.block(SIGNATURE):
        code.line(f"const float *const from = arg[1]; float *const to = (float *)arg[1] + {nbytes // 4};")
        code.share(nbytes // 64)
        with code.loop("i", "last * 16", "first * 16", vectorize=True):
            code.line("to[i] = from[i] * 0.5f;")
    return kernel("copy", f"a copy of {nbytes} bytes", code.text())
