"""Contractions that compute an operand while they pack it, against the interpreter: each operand and both, transposed
and batched, through windows with padding and strides, of whole tensors, masks and broadcast ones."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.c.contraction.schedule import Schedules
from pockengine.codegen.c.tunable import TunableContraction
from pockengine.ir import Builder, DType, Node, TensorType, Value
from pockengine.ops import Emitter, prune
from pockengine.plan.program import SCRATCH, Lowered
from pockengine.targets import Target, get
from pockengine.tune import reference
from tests.compiler.codegen import geometries, test_narrow
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import TILES, Case, Library, compare, draw, region_case
from tests.sweeps import some

SANITIZE = ("-O1", "-fsanitize=undefined", "-fno-sanitize=alignment", "-fsanitize-trap=undefined")
SIDES = ((0,), (1,), (0, 1))


def with_prologue(case: Case, rng: np.random.Generator, sides: tuple[int, ...]) -> Case:
    """The anchor with the operands `sides` made by elementwise arithmetic, and an epilogue."""
    builder, anchor = Builder("body"), case.node
    e, operands = Emitter(builder), list[Value]()
    for side, value in enumerate(anchor.inputs):
        operands.append(_made(e, side, value, rng) if side in sides else builder.input(f"a{side}", value.type))
    product = e.multi(anchor.op, operands, **dict(anchor.attrs))[0]
    total = e.op("maximum", product, builder.input("limit", product.type))
    body = prune(replace(builder.finish(), outputs={total.name: total}))
    arrays = [draw(value.type, rng) for value in body.inputs]
    return region_case(body, "contraction", arrays, f"{sides} of {case.label}")


def _made(e: Emitter, side: int, value: Value, rng: np.random.Generator) -> Value:
    """x * c, or x + y * c where a mask allows it; c and the mask are spread along some axes."""
    shape = value.type.shape
    spread = tuple(1 if rng.random() < 0.5 else size for size in shape)
    x, c = (e.builder.input(f"{name}{side}", TensorType(DType.F32, s)) for name, s in (("x", shape), ("c", spread)))
    if rng.random() < 0.4:
        return e.mul(x, c)
    y = e.builder.input(f"y{side}", value.type)
    mask = e.builder.input(f"m{side}", TensorType(DType.BOOL, (1,) * (len(shape) - 1) + shape[-1:]))
    return e.op("where", mask, e.add(x, e.mul(y, c)), e.const(np.zeros((), np.float32)))


def cases(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    plain = [geometries.matmul(rng) for _ in range(3 * count)]
    for op in ("conv2d", "conv2d_dx", "conv2d_dw"):
        drawn = [geometries.convolution(rng, op) for _ in range(20 * count)]
        plain += [case for case in drawn if case.node.attrs["groups"] == 1][:count]
    return [with_prologue(case, rng, SIDES[i % 3]) for i, case in enumerate(plain)]


def products(*sizes: tuple[int, int, int]) -> list[Case]:
    """Larger ones, which every format takes."""
    rng = np.random.default_rng(5)
    plain = [test_narrow.matmul(size, i % 2 == 1, i % 3 == 0) for i, size in enumerate(sizes)]
    return [with_prologue(case, rng, SIDES[i % 3]) for i, case in enumerate(plain)]


def check_all(library: Library, rtol: float = 2e-5) -> None:
    for index in range(len(library.cases)):
        for tasks in range(1, library.threads + 1):
            library.check(index, tasks, rtol, rtol)


@pytest.mark.parametrize("name, threads", some([("host", 4), ("host", 1), ("x86-64-v3", 3)], 3))
def test_operands_made_while_packed(tmp_path: Path, name: str, threads: int) -> None:
    check_all(Library(tmp_path, cases(threads, 2), get(name), threads, SANITIZE))


@pytest.mark.parametrize("format", ["f32", "bf16"])
def test_operands_converted_as_well(tmp_path: Path, format: str) -> None:
    """To one or, in tiles, to several 16-bit numbers."""
    target = TILES.computing(format)
    found = products((70, 150, 130), (140, 96, 64), (33, 200, 260), (96, 64, 500), (130, 70, 65), (64, 300, 40))
    check_all(Library(tmp_path, found, target, 2), 2e-5 if target.compute == "f32" else 2e-2)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
@pytest.mark.parametrize(
    ("name", "compute"),
    some([("raspberry-pi-4", "f32"), ("snapdragon-8-gen-3", "f16"), ("snapdragon-8-gen-3", "bf16")], 2),
)
def test_aarch64(tmp_path: Path, name: str, compute: str) -> None:
    target = get(name).computing(compute)
    found = cases(4, 1) if compute == "f32" else products((33, 70, 130), (64, 96, 40))
    tolerance = 2e-5 if compute == "f32" else 2e-2
    for case, outputs in zip(found, run_emulated(tmp_path, found, target, tasks=2), strict=True):
        compare(case, outputs, rtol=tolerance, atol=tolerance)


def test_every_choice_agrees_and_packs(tmp_path: Path) -> None:
    """What the tuner would try computes what its reference says; nothing is read in place that does not lie there."""
    target = TILES.without_tiles()
    case = products((40, 64, 130), (40, 64, 130), (40, 64, 130))[2]
    case = replace(case, inputs=tuple(reference.draw(case.node)))
    found = [one.choice for one in TunableContraction(case.node, target, 2).candidates(wide=True)]
    assert len(found) > 5
    for number, choice in enumerate(found):
        assert isinstance(choice, Schedules)
        assert all(one.pack_left and one.right != "direct" for one in choice.parts)
        folder = tmp_path / str(number)
        folder.mkdir()
        library = Library(folder, [case], target, 2, ("-O1",), partial(_lowered, choice=choice))
        check_all(library)


def _lowered(node: Node, target: Target, threads: int, choice: Schedules) -> Lowered:
    return TunableContraction(node, target, threads).lower(choice)


@pytest.mark.parametrize("target", [get("host"), TILES, TILES.without_tiles()], ids=["host", "tiles", "vectors"])
def test_strips_compute_the_same_bits(tmp_path: Path, target: Target) -> None:
    backend = CBackend()
    usual = products((70, 500, 130), (300, 200, 64), (200, 300, 140))
    less = []
    for case in usual:
        ways = backend.scratch(case.node, target, 2)
        attrs = {**case.node.attrs, SCRATCH: ways[len(ways) // 2][0]} if ways else case.node.attrs
        less.append(replace(case, node=replace(case.node, attrs=attrs)))
    assert any(SCRATCH in case.node.attrs for case in less)
    library = Library(tmp_path, [*usual, *less], target, 2)
    for index in range(len(usual)):
        library.check(index, 2)
        for expected, one in zip(library.run(index, 2), library.run(len(usual) + index, 2), strict=True):
            np.testing.assert_array_equal(one, expected)
