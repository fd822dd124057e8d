"""Runs kernels that were compiled for another architecture: one static program under qemu's user-mode emulator,
which reads all inputs from its standard input and writes all outputs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pockengine.codegen.c import CBackend
from pockengine.ir import Array
from pockengine.plan.program import Lowered, Tasks
from pockengine.targets import Target
from tests.compiler.codegen.harness import FLAGS, Case, Lower

EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")


def run_emulated(
    folder: Path, cases: Sequence[Case], target: Target, tasks: int, lower: Lower | None = None
) -> list[list[Array]]:
    """The outputs of each case, computed by `tasks` tasks one after the other."""
    assert EMULATOR is not None
    lower = lower or CBackend().lower
    lowered = [lower(case.node, target, tasks) for case in cases]
    sources = {call.kernel.symbol: call.kernel.source for one in lowered for call in one.calls}
    sources["main"] = _main(cases, lowered, tasks)
    paths = []
    for name, source in sources.items():
        paths.append(folder / f"{name}.c")
        paths[-1].write_text(source)
    # The C library is that of setup: with -mcpu, or other flags, zig would build it again for the whole program.
    objects = [path.with_suffix(".o").name for path in paths]
    for path in paths:
        _zig(folder, "-target", target.triple, f"-mcpu={target.mcpu}", *FLAGS, "-O1", "-c", path.name)
    program = folder / "program"
    _zig(folder, "-target", target.triple, "-O2", "-static", "-o", program.name, *objects)
    given = b"".join(np.asarray(array, order="C").tobytes() for case in cases for array in case.inputs)
    answer = subprocess.run([EMULATOR, str(program)], input=given, capture_output=True, check=True).stdout
    return _split(answer, cases)


def _zig(folder: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "ziglang", "cc", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]


def _main(cases: Sequence[Case], lowered: Sequence[Lowered], tasks: int) -> str:
    lines = ["#include <stdio.h>", "#include <stdlib.h>", "int main(void)", "{"]
    declared: list[str] = []
    for case, one in zip(cases, lowered, strict=True):
        values = [*case.node.inputs, *case.node.outputs]
        sizes = [value.type.nbytes for value in values] + [one.workspace_bytes]
        lines.append(f"    {{ char *block[{len(sizes)}];")
        for index, size in enumerate(sizes):
            lines.append(f"    block[{index}] = aligned_alloc(64, {(size + 127) // 64 * 64});")
        for index, value in enumerate(case.node.inputs):
            lines.append(
                f"    if (fread(block[{index}], 1, {value.type.nbytes}, stdin) != {value.type.nbytes}) return 1;"
            )
        for call in one.calls:
            places = [f"block[{values.index(value)}]" for value in call.operands]
            places += [f"block[{len(values)}] + {at}" for at in call.workspace]
            count = tasks if call.launch == Tasks(parallel=True) else 1
            declared.append(f"void {call.kernel.symbol}(void *const *arg, int task, int tasks);")
            lines.append(f"    {{ void *arg[] = {{{', '.join(places)}}};")
            lines.append(f"    for (int t = 0; t < {count}; ++t) {call.kernel.symbol}(arg, t, {count}); }}")
        for index, value in enumerate(case.node.outputs, len(case.node.inputs)):
            lines.append(f"    fwrite(block[{index}], 1, {value.type.nbytes}, stdout);")
        lines.append("    }")
    return "\n".join([*dict.fromkeys(declared), *lines, "    return 0;", "}"]) + "\n"


def _split(answer: bytes, cases: Sequence[Case]) -> list[list[Array]]:
    """Cut the program's output into arrays."""
    results, at = [], 0
    for case in cases:
        arrays = []
        for value in case.node.outputs:
            part = answer[at : at + value.type.nbytes]
            arrays.append(np.frombuffer(part, value.type.dtype.numpy).reshape(value.type.shape))
            at += value.type.nbytes
        results.append(arrays)
    assert at == len(answer)
    return results
