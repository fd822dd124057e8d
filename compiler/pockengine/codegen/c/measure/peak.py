"""How fast this machine is at best.

Arithmetic is measured by our own micro-kernels on data in the first-level cache, in the quickest of the target's
formats. Memory is measured level by level (`streams.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ....errors import PockError
from ....ir import DType, Node, TensorType, Value
from ....plan.program import WHOLE, Call, Kernel, Lowered, Tasks
from ....targets import Target
from ...folder_cache import default_folder, workspace
from ...native.measure import program
from ...tunable import Bandwidth, Peak, Run, RunLimits, Trial
from ..contraction import microkernel, narrow
from ..contraction.formats import Format, Instruction, f32, fastest
from ..contraction.models.narrow import AMX_ROWS, AMX_VECTORS
from ..emit.source import SIGNATURE, Code, kernel
from . import streams

DEPTH = 128
"""Products of all parts of an element that a register tile sums up: its operands then fit into 32 KB."""
FLOPS = 3e7
"""Operations of one thread in one run: a tenth of a millisecond, so that in some runs all threads are at work together
on a busy machine too."""
ROUNDS = 1000
BUDGET_MS = 250.0
"""Of the runs of one kind."""
SPARE_BYTES = 4096
"""Of a thread's part of an array, which is cut into whole steps of its loop and keeps where it is."""


def measure_peak(target: Target, threads: int, cache: Path | None = None) -> Peak:
    """The best of many short runs on this machine, which must be the target. Raises ToolchainError or PockError."""
    tiles = [_tile(target, format) for format in dict.fromkeys((f32(target), fastest(target)))]
    levels = streams.levels(target, threads)
    sizes = [streams.array_bytes(levels, index, target) for index in range(len(levels))]
    loops = [streams.streams(target, size, threads) for size in sizes]
    trials = [_trial([_arithmetic(tile)], 0) for tile in tiles]
    trials += [
        _trial([loop.made for loop in ways], size + SPARE_BYTES * threads)
        for size, ways in zip(sizes, loops, strict=True)
    ]
    with workspace(cache or default_folder()) as place:
        file = place / "measure"
        file.write_bytes(program.build(trials, target, cache))
        file.chmod(0o755)
        limits = RunLimits(ROUNDS, BUDGET_MS, 0)
        times = [
            _best(program.run(file, index, trial, b"", place / "run", threads, limits))
            for index, trial in enumerate(trials)
        ]
    flops = max(tile.repeats * tile.flops / ms for tile, (ms,) in zip(tiles, times, strict=False))
    rates = [
        1e3 * max(loop.moved / ms for loop, ms in zip(ways, best, strict=True))
        for ways, best in zip(loops, times[len(tiles) :], strict=True)
    ]
    return Peak(1e3 * flops * threads, _ordered(levels, rates), threads)


def _ordered(levels: list[streams.Level], rates: list[float]) -> tuple[Bandwidth, ...]:
    """What lies nearer is no slower: where it seems so, other work on the machine disturbed its runs."""
    return tuple(Bandwidth(level.name, level.nbytes, max(rates[index:])) for index, level in enumerate(levels))


def _best(runs: list[Run]) -> list[float]:
    """Each candidate's least milliseconds."""
    if failures := [run.failure for run in runs if run.failure is not None]:
        raise PockError(f"this machine's peak cannot be measured: {failures[0]}")
    return [min(run.ms) for run in runs]


def _trial(made: list[Kernel], workspace: int) -> Trial:
    node = Node("peak", (), (Value("y", TensorType(DType.F32, (1,))),))
    calls = [Call(one, node.outputs, WHOLE if workspace else (), Tasks(parallel=True), 0, 0) for one in made]
    return Trial(node, tuple(Lowered((call,), workspace) for call in calls))


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
        """On packed operands (codegen/c/contraction/narrow.py): rows of A or, in f32, columns of A."""
        parts, depth = self.format.parts, self.depth
        a_row, a_k = (1, self.rows) if self.format.instruction is Instruction.FMA else (parts * depth, 1)
        vectors = self.columns // self.format.lanes
        strides = (a_row, a_k, self.columns, self.columns)
        return microkernel.Tile(self.rows, vectors, self.format.lanes, *strides, parts, depth, depth * self.columns)


def _tile(target: Target, format: Format) -> _Tile:
    rows, columns = target.mr, target.nr
    if format.instruction is Instruction.AMX:
        rows, columns = AMX_ROWS, AMX_VECTORS * format.lanes
    return _Tile(format, rows, columns, format.filled(DEPTH // format.parts))


def _arithmetic(shape: _Tile) -> Kernel:
    """The register tile over and over on the same operands."""
    format, tile, code = shape.format, shape.microkernel(), Code()
    unit = microkernel.unit_of(format)
    code.line(microkernel.vector_type(format.lanes))
    for declared in (narrow.declarations(format), unit.shape):
        if declared:
            code.line(declared)
    code.line(microkernel.define(tile, format))
    deep = shape.depth * format.parts
    with code.block(SIGNATURE):
        for name, size in (("a", shape.rows * deep), ("b", shape.columns * deep)):
            code.line(f"{format.type} {name}[{size}] __attribute__((aligned(64)));")
            with code.loop("i", size):
                code.line(f"{name}[i] = ({format.type})(float)(i % 7);")
        code.line(f"float c[{shape.rows * shape.columns}] __attribute__((aligned(64)));")
        if unit.begin:
            code.line(unit.begin)
        with code.loop("repeat", shape.repeats):
            code.line(f"{tile.name}({shape.depth}, a, b, c, 0);")
            code.line('__asm__ volatile("" ::: "memory");')
        code.line("if (task == 0)")
        code.line("    *(float *)arg[0] = c[0];")
    title = f"arithmetic at its best: tile {shape.rows} x {shape.columns} in {format.name}"
    return kernel("peak", title, code.text())
