"""The machine code of NEON's inner loops: the register tile of a matrix product keeps its sums in registers and loads
little beside its arithmetic, and what finishes a tile works on whole vectors. No tool but the compiler is needed."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.native import toolchain
from pockengine.ir import Builder, DType, TensorType
from pockengine.ops import Emitter
from pockengine.targets import get
from pockengine.targets.processor import ZIG
from tests.compiler.codegen.harness import region_case

MOST_LOADS = 0.6
"""Loads for each multiply-add. There is room for one: Cortex-A72 starts one of each a cycle, Cortex-A76 two."""
MOST_INSTRUCTIONS = 2.0
"""Instructions for each multiply-add: Cortex-A76 decodes four a cycle, Cortex-A72 three."""

SHAPES = ((9, 160, 960), (64, 36, 384), (200, 96, 24), (100, 8, 50))


def compiled(target_name: str, shape: tuple[int, int, int], folder: Path) -> str:
    """The assembly of relu(x W + b) for x f32[m, k] and W f32[k, n], by what compiles kernels."""
    m, n, k = shape
    builder = Builder("body")
    e = Emitter(builder)
    shapes = {"x": (m, k), "w": (k, n), "b": (1, n)}
    x, w, b = (builder.input(name, TensorType(DType.F32, size)) for name, size in shapes.items())
    builder.outputs = {"y": e.op("clip", e.add(e.matmul(x, w), b), lo=0.0, hi=6.0)}
    arrays = [np.zeros(size, np.float32) for size in shapes.values()]
    node = region_case(builder.finish(), "contraction", arrays, "").node
    target = get(target_name)
    source, made = folder / "kernel.c", folder / "kernel.s"
    source.write_text(CBackend().lower(node, target, 1).calls[-1].kernel.source)
    triple, cpu, *flags = toolchain.kernel_flags(target).split()
    flags.append("-Wno-unused-command-line-argument")
    command = [str(ZIG), "cc", "-target", triple, f"-mcpu={cpu}", *flags, "-S", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return made.read_text()


def inner_loops(text: str) -> list[tuple[str, list[str]]]:
    """(function, instructions) of the blocks that branch back to their own beginning."""
    function, label, block, found = "", "", list[str](), []
    for line in (line.split("//")[0].strip() for line in text.splitlines()):
        if name := re.fullmatch(r"(\w+):", line):
            function, label, block = name[1], "", []
        elif name := re.fullmatch(r"(\.L\w+):", line):
            label, block = name[1], []
        elif line and not line.startswith("."):
            block.append(line)
            if re.match(r"(b\.|cbn?z|tbn?z)", line):
                if label and line.endswith(label):
                    found.append((function, block))
                label, block = "", []
    return found


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("target_name", ["raspberry-pi-4", "raspberry-pi-5"])
def test_inner_loops_are_arithmetic(target_name: str, shape: tuple[int, int, int], tmp_path: Path) -> None:
    loops = inner_loops(compiled(target_name, shape, tmp_path))
    tiles = [(name, block) for name, block in loops if name.startswith("tile_")]
    assert tiles
    for name, block in tiles:
        rows, vectors = map(int, re.findall(r"\d+", name))
        products = [line for line in block if line.startswith("fmla\t")]
        loads = [line for line in block if line.startswith("ld")]
        assert len(products) % (rows * vectors) == 0, name
        assert not [line for line in block if "[sp" in line or line.startswith("st")], f"{name} spills"
        if rows * vectors >= 16:
            assert len(loads) <= MOST_LOADS * len(products), name
            assert len(block) <= MOST_INSTRUCTIONS * len(products), name


@pytest.mark.parametrize("shape", SHAPES)
def test_the_epilogue_computes_on_vectors(shape: tuple[int, int, int], tmp_path: Path) -> None:
    text = compiled("raspberry-pi-5", shape, tmp_path)
    assert re.search(r"\bfadd\tv\d+\.4s", text)
    assert not [block for _, block in inner_loops(text) if any(re.match(r"fadd\ts\d", line) for line in block)]
