"""bf16 as the C backend reads and writes it, and rounded at random: interpreter and machine code against numpy, bit by
bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine import interp
from pockengine.codegen import backends
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter, Sample
from pockengine.ops.random import rounded_at_random, seed_of
from pockengine.passes import fuse
from pockengine.targets import get
from tests.compiler.codegen.harness import Case, Library, sample_case
from tests.compiler.codegen.test_eight_bits import mixed

SITE, SHAPE = 5, (1024, 257)
BF16 = DType.BF16.numpy


def rounded(shape: tuple[int, ...] = SHAPE) -> Graph:
    """x f32, generator i64[] -> y bf16."""
    builder = Builder("rounded")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, shape))
    seed = seed_of(e, builder.input("generator", TensorType(DType.I64, ())))
    builder.outputs = {"y": rounded_at_random(e, x, seed, SITE)}
    return builder.finish()


def every() -> Array:
    """Each bf16 there is, with three numbers between it and the next; then a column of ordinary ones."""
    exact = np.arange(1 << 16, dtype=np.uint32)[:, None] << 16
    between = np.concatenate([exact, exact + 1, exact + 0x8000, exact + 0xFFFF], axis=1).reshape(1024, 256)
    ordinary = np.random.default_rng(0).standard_normal((1024, 1)).astype(np.float32)
    return np.concatenate([between.view(np.float32), ordinary], axis=1)


def expected(x: Array, generator: int) -> Array:
    """The bits, in integers of 64 bits."""
    seed = mixed(mixed(np.array(generator % 2**32, np.uint64)) ^ np.uint64(generator >> 32))
    index = np.arange(x.size, dtype=np.uint64).reshape(x.shape) + np.uint64(SITE * 0x9E3779B9) + seed
    noise = mixed(index & np.uint64(0xFFFFFFFF)) >> np.uint64(16)
    bits: Array = ((x.view(np.uint32) + noise) >> np.uint64(16)).astype(np.uint16)
    return bits


def assert_rounded(found: Array, x: Array, generator: int) -> None:
    finite, bits = np.isfinite(x), found.view(np.uint16)
    np.testing.assert_array_equal(bits[finite], expected(x, generator)[finite])
    endless = np.isinf(x)
    np.testing.assert_array_equal(found[endless].astype(np.float32), x[endless])
    assert np.isnan(found[np.isnan(x)].astype(np.float32)).all()


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_interpreter_and_machine_code_round_as_numpy(target: str, tmp_path: Path) -> None:
    x, generator = every(), (7 << 32) + 12345
    assert_rounded(interp.evaluate(rounded(), {"x": x, "generator": np.array(generator)})["y"], x, generator)
    graph = fuse(rounded())
    known = {**dict(zip(graph.inputs, (x, np.array(generator)), strict=True)), **graph.consts}
    for node in graph.nodes[:-1]:
        known.update(zip(node.outputs, interp.run_node(node, [known[value] for value in node.inputs]), strict=True))
    last = graph.nodes[-1]
    library = Library(tmp_path, [Case(last, tuple(known[value] for value in last.inputs), "")], get(target), threads=3)
    for tasks in (1, 3):
        assert_rounded(library.run(0, tasks)[0], x, generator)


def test_rounding_is_right_on_average() -> None:
    """Numbers at all distances from their neighbours, of both signs, over many steps."""
    steps, graph = 400, rounded((64, 32))
    x = (1 + np.arange(64 * 32, dtype=np.float64) / (64 * 32) * 2.0**-7).reshape(64, 32).astype(np.float32)
    x[::2] *= -1
    found = [
        interp.evaluate(graph, {"x": x, "generator": np.array((step % 5 << 32) + step)})["y"].astype(np.float64)
        for step in range(steps)
    ]
    errors = (np.mean(found, axis=0) - x) / (2.0**-7 / np.sqrt(steps) / 2)
    assert np.abs(errors).max() < 5.5 and abs(errors.mean()) < 5 / np.sqrt(errors.size)


def test_every_number_is_read_exactly_and_written_to_the_nearest(tmp_path: Path) -> None:
    rng, bits = np.random.default_rng(0), np.arange(1 << 16, dtype=np.uint16).view(BF16)
    wide = np.concatenate([every().ravel(), rng.standard_normal(1000).astype(np.float32)])
    read = sample_case("cast", Sample((f"bf16[{bits.size}]",), {"to": "f32"}), rng).node
    write = sample_case("cast", Sample((f"f32[{wide.size}]",), {"to": "bf16"}), rng).node
    library = Library(tmp_path, [Case(read, (bits,), ""), Case(write, (wide,), "")], get("host"), threads=1)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(library.run(0, 1)[0], bits.astype(np.float32))
        nearest, (found,) = wide.astype(BF16), library.run(1, 1)
    real = ~np.isnan(wide)
    np.testing.assert_array_equal(found.view(np.uint16)[real], nearest.view(np.uint16)[real])
    assert np.isnan(found[~real].astype(np.float32)).all()


def test_nothing_is_computed_in_16_bits() -> None:
    backend, rng = backends.get("c"), np.random.default_rng(0)
    for op, shapes, attrs, able in (
        ("add", ("bf16[4]", "bf16[4]"), {}, False),
        ("pad", ("bf16[4]",), {"low": (1,), "high": (1,), "interior": (0,), "value": 0.5}, False),
        ("transpose", ("bf16[4,3]",), {"perm": (1, 0)}, True),
        ("cast", ("bf16[4]",), {"to": "f32"}, True),
        ("cast", ("f16[4]",), {"to": "f32"}, False),
    ):
        reason = backend.unsupported(sample_case(op, Sample(shapes, attrs), rng).node)
        assert (reason is None) == able, (op, reason)
