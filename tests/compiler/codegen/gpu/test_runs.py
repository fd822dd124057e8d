"""Kernels in which a thread takes a run of neighbours: the same numbers, and accesses to memory of their width."""

from __future__ import annotations

import re
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine import ops
from pockengine.codegen import backends
from pockengine.codegen.cuda.architecture import parsed
from pockengine.codegen.cuda.build import compiled
from pockengine.codegen.gpu import movement, source
from pockengine.ir import Builder, DType, RegionKind, TensorType, Value, parse_type
from pockengine.ops import Emitter, Kind, Sample
from pockengine.ops.fp8 import encode
from pockengine.passes import PASSES, Context, optimise
from pockengine.targets import Gpu, get
from tests.compiler.codegen.cuda.driver import needs_compiler
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, compare, draw, region_case, sample_case
from tests.compiler.passes import test_moves


def broadcasts(*types: str) -> Case:
    """The sum of tensors that broadcast, and that times two in bf16."""
    builder = Builder("body")
    e, (first, *rest) = Emitter(builder), [builder.input(f"x{i}", parse_type(type)) for i, type in enumerate(types)]
    total = e.cast(first, DType.F32)
    for value in rest:
        total = e.add(total, e.cast(value, DType.F32))
    builder.outputs = {"y": total, "z": e.cast(e.mul(total, 2.0), DType.BF16)}
    arrays = [draw(value.type, np.random.default_rng(1)) for value in builder.inputs]
    return region_case(builder.finish(), "elementwise", arrays, f"{types}")


def rows() -> list[Case]:
    """Row by row: with numbers of a column beside, of a row, and with codes of 8 bits as results."""

    def norm(e: Emitter, x: Value) -> Value:
        scale, shift = (e.builder.input(name, TensorType(DType.F32, x.type.shape[-1:])) for name in ("scale", "shift"))
        return e.op("layer_norm", e.op("exp", x), scale, shift, axis=-1, epsilon=1e-5)

    def codes(e: Emitter, x: Value) -> Value:
        made, scales = encode(e, x)
        return e.add(e.cast(made, DType.F32), e.cast(scales, DType.F32))

    found = []
    for make, shape in (
        (norm, (6, 72)),
        (norm, (5, 2, 2048)),
        (codes, (9, 264)),
        (lambda e, x: e.op("softmax", x, axis=-1), (3, 4, 66)),
        (lambda e, x: e.op("softmax", x, axis=-1), (3, 4, 67)),
        (lambda e, x: e.sum(e.mul(x, x), [1, 2]), (4, 6, 12)),
    ):
        builder = Builder("row")
        e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, shape))
        builder.outputs = {"y": make(e, x)}
        graph = optimise(builder.finish(), (PASSES["expand_composites"], PASSES["fuse_apart"]), Context())
        for node in graph.nodes:
            if node.region_kind is RegionKind.ROW:
                arrays = [draw(value.type, np.random.default_rng(3)) for value in node.inputs]
                found.append(Case(node, tuple(arrays), f"{make} {shape}"))
    assert len(found) >= 6
    return found


def cases() -> list[Case]:
    """Samples of operators whose kernels take runs, regions that broadcast, and what lies side by side in one place
    and apart in the other."""
    rng, found = np.random.default_rng(0), []
    for op in ops.all_ops():
        if op.kind is Kind.ELEMENTWISE or op.name in movement.OPS:
            found += [sample_case(op.name, sample, rng) for sample in op.samples]
    for types in (
        ("f32[6,8]", "bf16[6,8]", "f32[6,1]", "f32[8]"),
        ("bf16[3,16]", "bf16[3,1]"),
        ("f32[4,6]", "i64[4,6]"),
        ("f32[2,3,4,8]", "f32[2,1,4,1]", "f32[3,1,8]"),
        ("f32[5,7]", "f32[7]"),
    ):
        found.append(broadcasts(*types))
    for name, shapes, attrs in (
        ("transpose", ("f32[2,3,4,8]",), {"perm": (0, 2, 1, 3)}),
        ("transpose", ("bf16[8,16]",), {"perm": (1, 0)}),
        ("slice", ("f32[4,12]",), {"starts": (1, 4), "stops": (4, 12), "steps": (1, 1)}),
        ("slice", ("f32[4,12]",), {"starts": (1, 3), "stops": (4, 11), "steps": (1, 1)}),
        ("slice", ("f32[4,16]",), {"starts": (0, 0), "stops": (4, 16), "steps": (1, 2)}),
        ("concat", ("f32[3,4]", "f32[3,8]", "f32[3,2]"), {"axis": 1}),
    ):
        found.append(sample_case(name, Sample(shapes, attrs), rng))
    return [*found, *rows(), *map(test_moves.case_of, test_moves.MAKES)]


def test_runs_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also with every in-place pair that the backend allows."""
    monkeypatch.setattr(source, "_BUSY", 0)
    backend = backends.get("emulated")
    able = [case for case in cases() if backend.unsupported(case.node) is None]
    library = EmulatedLibrary(tmp_path, able, get("host"), 1, ("-O1",), backend=backend.name)
    texts = [call.kernel.source for one in library.lowered for call in one.calls]
    lengths = Counter(int(length) for text in texts for length in set(re.findall(r"_RUN\(\w+, (\d),", text)))
    assert lengths[2] >= 50 and lengths[4] >= 50 and lengths[8] >= 1, lengths
    assert sum("lane * 4" in text or "lane * 2" in text for text in texts) >= 4, "rows"
    for index, case in enumerate(able):
        for pair in (None, *library.lowered[index].inplace):
            compare(case, library.run(index, 1, pair), f"{case.label} in place {pair}", 2e-5, 2e-5)


def test_how_long_a_run_is() -> None:
    gpu = get("h200").gpu
    assert isinstance(gpu, Gpu)
    f32, bf16, i64 = (TensorType(dtype, (1,)) for dtype in (DType.F32, DType.BF16, DType.I64))
    assert source.run_of((4096, 4096), [bf16], gpu) == 8
    assert source.run_of((4096, 4096), [bf16, f32], gpu) == 4
    assert source.run_of((4096, 4096), [f32, i64], gpu) == 2
    assert source.run_of((4096, 4098), [f32], gpu) == 2
    assert source.run_of((4096, 4097), [f32], gpu) == 1
    assert source.run_of((512, 512), [f32], gpu) == 1, "threads for all multiprocessors"
    assert source.run_of((512, 512), [f32], replace(gpu, multiprocessors=32)) == 4
    assert source.run_of((), [f32], gpu) == 1


LDG = 0x981
"""What disassemblers call so: see test_matrix.py."""


def _widths(image: bytes) -> Counter[int]:
    """How often a kernel reads from the GPU's memory, by the size that bits 73 to 75 of an instruction say: 4 is 32
    bits, 5 is 64, 6 is 128."""
    start, size, count = *struct.unpack_from("<Q", image, 40), *struct.unpack_from("<HH", image, 58)
    sections = [struct.unpack_from("<IIQQQQ", image, start + i * size) for i in range(count)]
    code = [(at, length) for _, kind, flags, _, at, length in sections if kind == 1 and flags & 4]
    words = [struct.unpack_from("<QQ", image, i) for at, length in code for i in range(at, at + length, 16)]
    return Counter(high >> 9 & 7 for low, high in words if low & 0xFFF == LDG)


@needs_compiler
def test_a_run_is_one_access() -> None:
    case = broadcasts("f32[4096,4096]", "bf16[4096,4096]")
    (call,) = backends.get("cuda").lower(case.node, get("h200"), 1).calls
    made = compiled(call.kernel.symbol, call.kernel.source, parsed("sm_90a"))
    assert _widths(made.image) == {5: 1, 6: 1}
