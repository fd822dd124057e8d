"""Compiles the kernels of many nodes into one shared library, runs them, and compares with the interpreter.

Every buffer lies between canaries; the workspace has exactly the size the backend asked for."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from pockengine import interp, ops
from pockengine.codegen import backends
from pockengine.codegen.backend import Backend
from pockengine.codegen.native.toolchain import vector_flags
from pockengine.ir import Array, DType, Graph, Node, TensorType, Value, parse_type
from pockengine.ops import Sample
from pockengine.plan.program import Call, Lowered, Tasks
from pockengine.targets import Target, get, processor

Lower = Callable[[Node, Target, int], Lowered]
CANARY = 64
INSTRUCTIONS = Path(__file__).with_name("instructions.h")
TILES = replace(
    get("x86-64-v3"), name="tiles", cpu="x86_64_v4", features=("+amx_bf16", "+amx_tile", "+avx512bf16"),
    vector_bytes=64, registers=32, mr=8, nr=48, l1_bytes=48 << 10, l2_bytes=2 << 20,
)  # fmt: skip
"""A processor with AMX and AVX512-BF16, whatever this machine's has."""
WARNINGS = ("-Wall", "-Wextra", "-Werror")
FLAGS = ("-std=gnu11", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", *WARNINGS)


@dataclass(frozen=True)
class Case:
    """A node and the contents of its inputs."""

    node: Node
    inputs: tuple[Array, ...]
    label: str = ""


def sample_case(op: str, sample: Sample, rng: np.random.Generator) -> Case:
    """A bare node of an op record's sample."""
    types = [parse_type(text) for text in sample.shapes]
    inputs = [Value(f"x{i}", t) for i, t in enumerate(types)]
    outputs = [Value(f"y{i}", t) for i, t in enumerate(ops.get(op).infer(types, sample.attrs))]
    arrays = [draw(t, rng, sample.low, sample.high, sample.ints) for t in types]
    for index, contents in sample.fixed:
        arrays[index] = np.array(contents, dtype=types[index].dtype.numpy).reshape(types[index].shape)
    node = Node(op, tuple(inputs), tuple(outputs), sample.attrs)
    return Case(node, tuple(arrays), f"{op} {sample.shapes} {dict(sample.attrs)}")


def draw(t: TensorType, rng: np.random.Generator, low: float = -2.0, high: float = 2.0, ints: int = 3) -> Array:
    """Random contents of a type."""
    if t.dtype is DType.BOOL:
        return rng.integers(0, 2, t.shape).astype(bool)
    if not t.dtype.is_float:
        return rng.integers(0, ints, t.shape).astype(t.dtype.numpy)
    return rng.uniform(low, high, t.shape).astype(t.dtype.numpy)


def region_case(body: Graph, kind: str, arrays: Sequence[Array], label: str = "") -> Case:
    """A region node around a body."""
    inputs = tuple(Value(f"x{i}", value.type) for i, value in enumerate(body.inputs))
    outputs = tuple(Value(f"y{i}", value.type) for i, value in enumerate(body.outputs.values()))
    return Case(Node("region", inputs, outputs, {"kind": kind}, body), tuple(arrays), label)


class Library:
    """The kernels of many cases, compiled for one target."""

    def __init__(
        self,
        folder: Path,
        cases: Sequence[Case],
        target: Target,
        threads: int,
        extra: Sequence[str] = ("-O2",),
        lower: Lower | None = None,
        backend: str = "c",
    ) -> None:
        self.cases, self.threads = list(cases), threads
        self.lowered = [self._lowered(case, backends.get(backend), target, lower) for case in cases]
        calls = [call for lowered in self.lowered for call in lowered.calls]
        library = compile_sources(folder, self._sources(calls), target, extra)
        self.functions: dict[str, Any] = {call.kernel.symbol: getattr(library, call.kernel.symbol) for call in calls}

    def _lowered(self, case: Case, backend: Backend, target: Target, lower: Lower | None) -> Lowered:
        assert backend.unsupported(case.node) is None, case.label
        return (lower or backend.lower)(case.node, target, self.threads)

    def _sources(self, calls: Sequence[Call]) -> dict[str, str]:
        """C files by their names without ending, which have a function for each kernel."""
        return {call.kernel.symbol: call.kernel.source for call in calls}

    def run(self, index: int, tasks: int, inplace: tuple[int, int] | None = None) -> list[Array]:
        """Outputs of case `index` computed by `tasks` tasks one after the other."""
        case, lowered = self.cases[index], self.lowered[index]
        buffers = {value: Guarded(np.asarray(a)) for value, a in zip(case.node.inputs, case.inputs, strict=True)}
        for o, value in enumerate(case.node.outputs):
            if inplace and inplace[1] == o:
                buffers[value] = buffers[case.node.inputs[inplace[0]]]
            else:
                buffers[value] = Guarded(np.full(value.type.shape, 77, value.type.dtype.numpy))
        workspace = Guarded(np.full(lowered.workspace_bytes, 0xAB, np.uint8))
        for call in lowered.calls:
            addresses = [buffers[value].address for value in call.operands]
            addresses += [workspace.address + at for at in call.workspace]
            argument = (ctypes.c_void_p * len(addresses))(*addresses)
            count = tasks if call.launch == Tasks(parallel=True) else 1
            for task in range(count):
                self.functions[call.kernel.symbol](argument, task, count)
        for guarded in (*buffers.values(), workspace):
            assert guarded.intact(), f"{case.label}: wrote outside a buffer"
        return [buffers[value].read(value.type) for value in case.node.outputs]

    def check(self, index: int, tasks: int, rtol: float = 2e-5, atol: float = 2e-5) -> None:
        """Compare case `index` with the interpreter, also with every in-place pair the backend allows."""
        case = self.cases[index]
        for pair in (None, *self.lowered[index].inplace):
            compare(case, self.run(index, tasks, pair), f"in place {pair}", rtol, atol)


def compare(case: Case, outputs: Sequence[Array], note: str = "", rtol: float = 2e-5, atol: float = 2e-5) -> None:
    """Outputs against the interpreter's; the absolute tolerance is relative to the largest number of the tensor."""
    for got, want in zip(map(_plain, outputs), map(_plain, expected_outputs(case)), strict=True):
        finite = np.isfinite(want) if want.dtype.kind == "f" else np.zeros(want.shape, bool)
        scale = float(np.max(np.abs(want), initial=1.0, where=finite))
        np.testing.assert_allclose(got, want, rtol=rtol, atol=atol * scale, err_msg=f"{case.label} {note}")


def _plain(array: Array) -> Array:
    """A tensor of numpy's own types: f32 in the place of 16-bit floats that it does not have."""
    return array.astype(np.float32) if array.dtype.kind == "V" or array.dtype == np.float16 else array


def expected_outputs(case: Case) -> list[Array]:
    """The interpreter's answer, computed in double precision where inputs are single."""
    wide = [a.astype(np.float64) if a.dtype == np.float32 else a for a in case.inputs]
    results = interp.run_node(case.node, wide)
    return [np.asarray(r).astype(v.type.dtype.numpy) for r, v in zip(results, case.node.outputs, strict=True)]


class Guarded:
    """A 64-byte aligned copy of an array between two canaries."""

    def __init__(self, array: Array) -> None:
        self.nbytes = array.nbytes
        self.raw = np.full(array.nbytes + 2 * CANARY + 64, 0x5A, np.uint8)
        self.start = CANARY + (-(self.raw.ctypes.data + CANARY)) % 64
        self.raw[self.start : self.start + self.nbytes] = np.asarray(array, order="C").reshape(-1).view(np.uint8)

    @property
    def address(self) -> int:
        return int(self.raw.ctypes.data) + self.start

    def intact(self) -> bool:
        return bool((self.raw[: self.start] == 0x5A).all() and (self.raw[self.start + self.nbytes :] == 0x5A).all())

    def read(self, t: TensorType) -> Array:
        return self.raw[self.start : self.start + self.nbytes].view(t.dtype.numpy).reshape(t.shape).copy()


def compile_sources(
    folder: Path, sources: dict[str, str], target: Target, extra: Sequence[str], name: str = "kernels.so"
) -> Any:
    """A loaded shared library of C sources; fails with the compiler's message."""
    paths = []
    for symbol, source in sources.items():
        path = folder / f"{symbol}.c"
        path.write_text(source)
        paths.append(str(path))
    output = folder / name
    command = [sys.executable, "-m", "ziglang", "cc", *machine_flags(target), *FLAGS, *extra]
    done = subprocess.run([*command, "-shared", "-fPIC", "-o", str(output), *paths], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(output))


def runs_here(target: Target) -> bool:
    """Whether this machine's processor has each instruction set of the target's."""
    host = get("host")
    return target.arch == host.arch and not processor.lacking(host.triple, target.mcpu, host.mcpu)


def machine_flags(target: Target) -> list[str]:
    """Target options of zig cc; the host's own C library, so that Python can load the result. Where the host lacks the
    target's instructions, the kernels are compiled for the host, and those instructions are C functions."""
    host = get("host")
    if not runs_here(target):
        emulated = ["-include", str(INSTRUCTIONS), "-Wno-psabi", "-Wno-unused-function"]
        return [*machine_flags(replace(host, vector_bytes=target.vector_bytes)), *emulated]
    triple = target.triple.replace("-musl", "-gnu")
    return ["-target", triple, f"-mcpu={target.mcpu}", *vector_flags(target)]
