"""A driver of CUDA for one model's artifact, with emulated kernels: host program, plan, graphs and kernels together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from pockengine.codegen.cuda.build import device_runtime
from pockengine.codegen.gpu.launches import calls_of, grids_of
from pockengine.plan.program import Call, Map, Program, TensorMap
from pockengine.targets import Gpu, Memory, Target, get
from tests.compiler.codegen.gpu.emulated import emulated_sources
from tests.compiler.codegen.harness import compile_sources

FAKE = Path(__file__).with_name("fake_cuda.c")
LIBRARY = Path(__file__).with_name("fake_cublaslt.c")
ORIN = get("jetson-orin-nano").gpu


def here() -> Target:
    """This machine, as if it had a GPU of capability 8.7."""
    assert isinstance(ORIN, Gpu)
    return replace(get("host"), gpu=ORIN, backend="cuda")


def beside() -> Target:
    """This machine, as if it had a GPU with memory of its own."""
    return replace(here(), accelerators=(Memory("gpu", 8 << 30, 256),))


def make_driver(programs: Mapping[str, Program], folder: Path) -> Path:
    """The folder of a `libcuda.so.1` that runs a model's kernels."""
    return driver_of(calls_of(programs), folder)


def driver_of(calls: Sequence[Call], folder: Path) -> Path:
    """The same for the kernels of any calls."""
    table = ["#include <stddef.h>", "#include <stdint.h>", "typedef void run(void *const *arg, int task, int tasks);"]
    kernels, grids = {call.kernel.symbol: call.kernel for call in calls}, grids_of(calls)
    table += [f"run {symbol};" for symbol in grids]
    table.append("typedef struct { unsigned of[4]; uint64_t extents[5], strides[4]; uint32_t box[5]; } map;")
    table.append("const struct {")
    table.append("    const char *name; run *run; unsigned blocks, threads, operands, shared, mapped; map maps[4];")
    table.append("} fake_kernels[] = {")
    for symbol, (grid, operands) in grids.items():
        kernel = kernels[symbol]
        maps = f", .maps = {{{', '.join(map(_wanted, kernel.maps))}}}" if kernel.maps else ""
        table.append(
            f'    {{.name = "{symbol}", .run = {symbol}, .blocks = {grid.blocks}, .threads = {grid.threads}, '
            f".operands = {operands}, .shared = {kernel.shared}, .mapped = {len(kernel.maps)}{maps}}},"
        )
    table += ["    {.name = NULL},", "};"]
    header = device_runtime().sources["cuda.h"]
    sources = {
        **emulated_sources(calls),
        "table": "\n".join(table) + "\n",
        "fake": FAKE.read_text().replace('#include "cuda.h"', header),
    }
    compile_sources(folder, sources, get("host"), ("-O1",), name="libcuda.so.1")
    return folder


def add_library(folder: Path) -> None:
    """A `libcublasLt.so.12` beside the driver, with products in plain C."""
    headers = device_runtime().sources
    text = LIBRARY.read_text()
    for name in ("cublaslt.h", "cuda.h"):
        text = text.replace(f'#include "{name}"', headers[name].replace('#include "cuda.h"', ""))
    compile_sources(folder, {"fake": text}, get("host"), ("-O1",), name="libcublasLt.so.12")


def _wanted(map: Map) -> str:
    """C's initialiser of what a kernel's parameter must say."""
    assert isinstance(map, TensorMap)
    of = (map.operand, map.offset, map.itemsize, len(map.extents))
    return (
        "{"
        + ", ".join(f"{{{', '.join(str(n) for n in part)}}}" for part in (of, map.extents, map.strides, map.box))
        + "}"
    )


needs_compiler = pytest.mark.skipif(find_spec("nvidia.cuda_nvrtc") is None, reason="pip install 'pockengine[cuda]'")
