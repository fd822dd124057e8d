"""The 8-bit code of optimizer state: interpreter and machine code against numpy, bit by bit; rounding on average."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine import interp
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.ops.eight_bits import SMALLEST, block_length, decode, encode
from pockengine.ops.random import seed_of
from pockengine.passes import fuse
from pockengine.targets import get
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import Case, Library

BLOCKS, BLOCK, SITE = 35, 96, 3
LARGEST = {DType.I8: 127, DType.U8: 255}
TYPES = list(LARGEST)


def coded(dtype: DType) -> Graph:
    """x f32[35, 96], generator i64[] -> codes, scale, the numbers that they stand for."""
    builder = Builder("coded")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (BLOCKS, BLOCK)))
    seed = seed_of(e, builder.input("generator", TensorType(DType.I64, ())))
    codes, scale = encode(e, x, dtype, seed, SITE)
    builder.outputs = {"codes": codes, "scale": scale, "numbers": decode(e, codes, scale)}
    return builder.finish()


def numbers(dtype: DType, seed: int) -> Array:
    """Of many magnitudes; each block's largest is a power of two times the largest code's square, so that the scale is
    exact and no rounding of the arithmetic can turn a code. The last block is zero."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((BLOCKS, BLOCK)) * 10.0 ** rng.uniform(-5, 0, (BLOCKS, BLOCK))
    x = np.clip(x, -1, 1) if dtype is DType.I8 else np.minimum(np.abs(x), 1)
    x[:, 7] = 1
    x *= LARGEST[dtype] ** 2 * 2.0 ** rng.integers(-30, 3, (BLOCKS, 1))
    x[-1] = 0
    return x.astype(np.float32)


def mixed(x: Array) -> Array:
    for places, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
        x = (x ^ (x >> np.uint64(places))) * np.uint64(factor) & np.uint64(0xFFFFFFFF)
    return x ^ (x >> np.uint64(16))


def expected(x: Array, generator: int, dtype: DType) -> tuple[Array, Array]:
    """Codes and scales in numpy, in 64-bit integers and f64."""
    seed = mixed(mixed(np.array(generator % 2**32, np.uint64)) ^ np.uint64(generator >> 32))
    index = np.arange(x.size, dtype=np.uint64).reshape(x.shape) + np.uint64(SITE * 0x9E3779B9) + seed
    noise = (mixed(index & np.uint64(0xFFFFFFFF)) >> np.uint64(8)).astype(np.float64) / 2**24
    largest = LARGEST[dtype]
    scale = np.maximum(np.abs(x).max(axis=1, keepdims=True).astype(np.float64) / largest**2, 2.0**-100)
    square = np.abs(x) / scale
    low = np.floor(np.sqrt(square.astype(np.float32)))
    code = low + (noise < (square - low**2) / (2 * low + 1))
    code = np.sign(x) * code if dtype is DType.I8 else np.maximum(code, 1)
    return code.astype(dtype.numpy), scale.astype(np.float32)


def row_case(dtype: DType, x: Array, generator: int) -> Case:
    """The region that encodes, with what the small ones before it compute."""
    graph = fuse(coded(dtype))
    known = {**dict(zip(graph.inputs, (x, np.array(generator)), strict=True)), **graph.consts}
    for node in graph.nodes:
        if node.attrs["kind"] == "row":
            return Case(node, tuple(known[value] for value in node.inputs), dtype.value)
        known.update(zip(node.outputs, interp.run_node(node, [known[value] for value in node.inputs]), strict=True))
    raise AssertionError("no region has the maximum of a block")


def assert_coded(outputs: list[Array], x: Array, generator: int, dtype: DType) -> None:
    codes, scale = expected(x, generator, dtype)
    found = {array.dtype.type: array for array in outputs if array.shape == codes.shape and array.dtype != np.float32}
    np.testing.assert_array_equal(found[dtype.numpy.type], codes)
    (scales,) = [array for array in outputs if array.shape == scale.shape]
    np.testing.assert_array_equal(scales, scale)


@pytest.mark.parametrize("dtype", TYPES)
def test_interpreter_and_machine_code_give_the_codes_of_numpy(dtype: DType, tmp_path: Path) -> None:
    generator = (7 << 32) + 12345
    x = numbers(dtype, seed=1)
    result = interp.evaluate(coded(dtype), {"x": x, "generator": np.array(generator)})
    assert_coded([result["codes"], result["scale"]], x, generator, dtype)
    codes, scale = expected(x, generator, dtype)
    c = codes.astype(np.float64)
    np.testing.assert_allclose(result["numbers"], c * np.abs(c) * scale, rtol=1e-6)
    gap = scale * (2 * np.abs(c) + 1)
    assert np.all(np.abs(result["numbers"] - x) <= gap)
    for target in ("host", "x86-64-v3"):
        library = Library(tmp_path, [row_case(dtype, x, generator)], get(target), threads=3)
        for tasks in (1, 2, 3):
            assert_coded(library.run(0, tasks), x, generator, dtype)


@pytest.mark.skipif(EMULATOR is None, reason="needs qemu-user")
def test_aarch64_gives_the_codes_of_numpy(tmp_path: Path) -> None:
    given = {dtype: numbers(dtype, seed=2) for dtype in TYPES}
    cases = [row_case(dtype, x, 99) for dtype, x in given.items()]
    answers = run_emulated(tmp_path, cases, get("raspberry-pi-5"), tasks=2)
    for (dtype, x), outputs in zip(given.items(), answers, strict=True):
        assert_coded(outputs, x, 99, dtype)


@pytest.mark.parametrize("dtype", TYPES)
def test_rounding_is_right_on_average(dtype: DType) -> None:
    """Of each number over many steps and seeds: to the nearest, half of them would miss by many standard errors."""
    graph, steps = coded(dtype), 150
    x = np.abs(numbers(dtype, seed=3))
    found = [
        interp.evaluate(graph, {"x": x, "generator": np.array((step % 5 << 32) + step)})["numbers"].astype(np.float64)
        for step in range(steps)
    ]
    scale = np.repeat(np.abs(x).max(axis=1, keepdims=True) / np.float64(LARGEST[dtype] ** 2), BLOCK, axis=1)
    held = x > 0
    if dtype is DType.U8:  # smaller roots are rounded up, never to zero
        held &= x >= scale
    gap = (2 * np.floor(np.sqrt(x[held] / scale[held])) + 1) * scale[held]
    errors = (np.mean(found, axis=0)[held] - x[held]) / (0.5 * gap / np.sqrt(steps))
    assert np.abs(errors).max() < 5.5
    assert abs(errors.mean()) < 5 / np.sqrt(errors.size)


def test_blocks_divide_the_tensor() -> None:
    for size in (SMALLEST, 64 * 3 * 49, 30522 * 768, 1000 * 1280, 5000, 2**20 + 2**7):
        length = block_length(size)
        assert length is not None and size % length == 0 and 64 <= length <= 256
    assert block_length(768 * 768) == 128
    assert block_length(64 * 3 * 49) == 96
    assert block_length(SMALLEST - 128) is None
    assert block_length(8209) is None
