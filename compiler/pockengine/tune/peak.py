"""How fast this machine is at best: arithmetic by our own micro-kernel on data in the first-level cache, memory by a
loop that reads one large array and writes another."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..codegen.backend import Call, Kernel, Lowered
from ..codegen.c import microkernel
from ..codegen.c.formats import f32
from ..codegen.c.source import SIGNATURE, Code, kernel
from ..codegen.folder_cache import default_folder, workspace
from ..errors import PockError
from ..ir import DType, Node, TensorType, Value
from ..targets import Target
from . import measure
from .measure import Limits, Run, Trial

DEPTH = 128
"""Products a register tile sums up: its operands then fit into 32 KB."""
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
    kernels = (_arithmetic(target), _copy(array))
    trials = [_trial(made, 2 * array if made.symbol.startswith("k_copy") else 0) for made in kernels]
    with workspace(cache or default_folder()) as place:
        program = place / "measure"
        program.write_bytes(measure.build(trials, target, threads, cache))
        program.chmod(0o755)
        limits = Limits(ROUNDS, 1000.0, 0)
        best = [
            _best(measure.run(program, index, trial, b"", place / "run", threads, limits))
            for index, trial in enumerate(trials)
        ]
    return Peak(1e3 * _repeats(target) * _tile_flops(target) * threads / best[0], 1e3 * 2 * array / best[1], threads)


def _best(runs: list[Run]) -> float:
    (run,) = runs
    if run.failure is not None:
        raise PockError(f"this machine's peak cannot be measured: {run.failure}")
    return min(run.ms)


def _trial(made: Kernel, workspace: int) -> Trial:
    node = Node("peak", (), (Value("y", TensorType(DType.F32, (1,))),))
    call = Call(made, node.outputs, workspace > 0, True, 0, 0)
    return Trial(node, (Lowered((call,), workspace),))


def _tile(target: Target) -> microkernel.Tile:
    lanes = target.vector_bytes // 4
    return microkernel.Tile(target.mr, target.nr // lanes, lanes, 1, target.mr, target.nr, target.nr)


def _tile_flops(target: Target) -> int:
    return 2 * target.mr * target.nr * DEPTH


def _repeats(target: Target) -> int:
    return max(1, int(FLOPS / _tile_flops(target)))


def _arithmetic(target: Target) -> Kernel:
    """The register tile over and over on the same operands."""
    tile, code = _tile(target), Code()
    code.line(microkernel.vector_type(tile.lanes))
    code.line(microkernel.define(tile, f32(target)))
    with code.block(SIGNATURE):
        for name, size in (("a", target.mr * DEPTH), ("b", target.nr * DEPTH), ("c", target.mr * target.nr)):
            code.line(f"float {name}[{size}] __attribute__((aligned(64)));")
            with code.loop("i", size):
                code.line(f"{name}[i] = (float)(i % 7);")
        with code.loop("repeat", _repeats(target)):
            code.line(f"{tile.name}({DEPTH}, a, b, c, 0);")
            code.line('__asm__ volatile("" ::: "memory");')
        code.line("if (task == 0)")
        code.line("    *(float *)arg[0] = c[0];")
    return kernel("peak", f"arithmetic at its best: tile {target.mr} x {target.nr}", code.text())


def _copy(nbytes: int) -> Kernel:
    """The second half of the workspace becomes the first half's numbers, halved: no library call can take it over."""
    code = Code()
    with code.block(SIGNATURE):
        code.line(f"const float *const from = arg[1]; float *const to = (float *)arg[1] + {nbytes // 4};")
        code.share(nbytes // 64)
        with code.loop("i", "last * 16", "first * 16", vectorize=True):
            code.line("to[i] = from[i] * 0.5f;")
    return kernel("copy", f"a copy of {nbytes} bytes", code.text())
