"""Contractions that read a block-quantised weight, against the interpreter: here and on aarch64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen.c import CBackend
from pockengine.codegen.common.region import body_of
from pockengine.ir import Array, Builder, DType, TensorType
from pockengine.ops import Emitter, Sample, decompresses
from pockengine.ops.quantised import BLOCKS, DEQUANTIZE, BlockFormat, quantize
from pockengine.targets import Target, get
from tests.compiler.codegen import geometries
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import Case, Library, compare, draw, region_case, sample_case
from tests.compiler.codegen.test_narrow import BF16, computes_narrow, to_bf16
from tests.sweeps import some


def compressed(case: Case, operand: int, rng: np.random.Generator) -> Case:
    """The contraction with one operand quantised by rows, and a bias added."""
    format, block = BlockFormat(rng.choice(list(BlockFormat))), int(rng.choice(BLOCKS[:3]))
    weight = case.inputs[operand]
    packed = quantize(weight.reshape(weight.shape[0], -1), format, block)
    builder = Builder("body")
    e = Emitter(builder)
    arrays: list[Array] = [case.inputs[1 - operand], *packed]
    other, *pair = (builder.input(f"a{i}", TensorType(DType.of(a.dtype), a.shape)) for i, a in enumerate(arrays))
    unpacked = e.op(DEQUANTIZE, *pair, format=format.value, block=block, shape=weight.shape)
    inputs = (other, unpacked) if operand else (unpacked, other)
    product = e.op(case.node.op, *inputs, **dict(case.node.attrs))
    bias = builder.input("bias", TensorType(DType.F32, product.type.shape[-1:]))
    builder.outputs = {"y": e.add(product, bias)}
    body = builder.finish()
    return region_case(body, "contraction", [*arrays, draw(bias.type, rng)], f"{case.label}, {format} by {block}")


def product(rng: np.random.Generator, forward: bool) -> Case:
    """x W^T, or as its gradient dy W; W stands on either side."""
    m, n, k = (int(rng.choice([1, 7, 16, 33, 50, 96, 130, 300])) for _ in range(3))
    operand = int(rng.integers(2))
    w, x = ((n, k), (m, k)) if forward else ((k, n), (m, k))
    if operand:
        attrs, shapes = {"trans_a": False, "trans_b": forward}, (x, w)
    else:
        attrs, shapes = {"trans_a": not forward, "trans_b": True}, (w, x)
    types = tuple(str(TensorType(DType.F32, shape)) for shape in shapes)
    return compressed(sample_case("matmul", Sample(types, attrs), rng), operand, rng)


def convolution(rng: np.random.Generator, op: str) -> Case:
    while True:
        case = geometries.convolution(rng, op)
        if case.node.attrs["groups"] == 1:
            return compressed(case, 1, rng)


def cases(seed: int, count: int) -> list[Case]:
    rng = np.random.default_rng(seed)
    found = [product(rng, forward) for forward in (True, False) for _ in range(3 * count)]
    return found + [convolution(rng, op) for op in ("conv2d", "conv2d_dx") for _ in range(2 * count)]


def test_contractions_of_compressed_weights(tmp_path: Path) -> None:
    library = Library(tmp_path, cases(0, 5), get("host"), threads=3, extra=("-O1",))
    for index in range(len(library.cases)):
        for tasks in (1, 3):
            library.check(index, tasks)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
def test_contractions_of_compressed_weights_on_aarch64(tmp_path: Path) -> None:
    chosen = cases(1, 2)
    for case, outputs in zip(chosen, run_emulated(tmp_path, chosen, get("raspberry-pi-4"), tasks=2), strict=True):
        compare(case, outputs)


def exact(case: Case, rng: np.random.Generator) -> Case:
    """The case with numbers that bf16 holds: activations rounded, and where a number and its scale have more than 8
    significant bits, powers of two as scales. The bias is small beside the product."""
    other, packed, scales, bias = case.inputs
    (unpacking,) = filter(decompresses, body_of(case.node).nodes)
    if BlockFormat.of(unpacking.attrs).significant_bits > 8:
        powers = to_bf16(np.asarray(2.0 ** rng.integers(-9, -3, scales.shape), np.float32))
        scales = (powers.view(np.uint32) >> 16).astype(np.uint16)
    return replace(case, inputs=(to_bf16(other), packed, scales, bias / np.float32(64)))


def exact_cases(seed: int, count: int) -> list[Case]:
    """Products long enough for 16-bit formats, convolutions of enough channels."""
    rng = np.random.default_rng(seed)
    found = [case for case in cases(seed, count) if case.inputs[2].dtype == np.uint16]
    return [exact(case, rng) for case in found]


@pytest.mark.parametrize("target", some(BF16.values(), 2), ids=some(BF16, 2))
def test_contractions_of_compressed_weights_in_bf16(tmp_path: Path, target: Target) -> None:
    found = [case for case in exact_cases(2, 8) if computes_narrow(case, target)]
    assert len(found) > 20
    drawn = some(found, 2)
    library = Library(tmp_path, drawn, target, threads=3, extra=("-O1",))
    for index in range(len(library.cases)):
        for tasks in (1, 3):
            library.check(index, tasks)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user-static")
@pytest.mark.parametrize("format", some(["bf16", "f16"], 2))
def test_contractions_of_compressed_weights_on_aarch64_in_16_bits(tmp_path: Path, format: str) -> None:
    target = get("snapdragon-8-gen-3").computing(format)
    chosen = [case for case in exact_cases(3, 3) if computes_narrow(case, target)]
    assert chosen
    for case, outputs in zip(chosen, run_emulated(tmp_path, chosen, target, tasks=2), strict=True):
        compare(case, outputs)


def test_no_kernel_has_room_for_the_whole_weight() -> None:
    """Scratch memory beside the packed activations stays far below the 16 MB that the weight would take in f32."""
    rng = np.random.default_rng(0)
    weight = np.zeros((2048, 2048), np.float32)
    for forward in (True, False):
        attrs = {"trans_a": False, "trans_b": forward}
        case = Case(
            sample_case("matmul", Sample(("f32[8,2048]", "f32[2048,2048]"), attrs), rng).node, (weight[:8], weight)
        )
        lowered = CBackend().lower(compressed(case, 1, rng).node, get("raspberry-pi-4"), 4)
        assert lowered.workspace_bytes < weight.nbytes / 4
