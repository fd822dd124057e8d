"""16-bit floats as kernels of GPUs read and write them: every one there is, and nothing is computed in them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine.codegen import backends
from pockengine.ir import Array, DType
from pockengine.ops import Sample
from pockengine.targets import get
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.harness import Case, sample_case

NARROW = (DType.BF16, DType.F16)


def _every(dtype: DType) -> Array:
    return np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy)


def test_every_number_is_read_exactly(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    made = [sample_case("cast", Sample((f"{dtype.value}[65536]",), {"to": "f32"}), rng) for dtype in NARROW]
    cases = [Case(case.node, (_every(dtype),), case.label) for case, dtype in zip(made, NARROW, strict=True)]
    library = EmulatedLibrary(tmp_path, cases, get("host"), 1, ("-O1",), backend="cuda")
    for index in range(len(cases)):
        library.check(index, 1)


def written_cases() -> list[Case]:
    """Numbers of usual sizes, as results of a region and of a product."""
    rng = np.random.default_rng(1)
    return [sample_case("cast", Sample(("f32[65,33]",), {"to": dtype.value}), rng) for dtype in NARROW]


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.value)
def test_every_number_is_written_rounded_to_the_nearest(dtype: DType, tmp_path: Path) -> None:
    """Each one, what lies in the middle between it and the next, and the neighbours of that."""
    with np.errstate(invalid="ignore"):
        exact = _every(dtype).astype(np.float32).view(np.uint32)
    half = np.uint32(1 << 15 if dtype is DType.BF16 else 1 << 12)
    numbers = np.concatenate([exact, exact + half - 1, exact + half, exact + half + 1]).view(np.float32)
    node = sample_case("cast", Sample((f"f32[{numbers.size}]",), {"to": dtype.value}), np.random.default_rng(0)).node
    library = EmulatedLibrary(tmp_path, [Case(node, (numbers,), "")], get("host"), 1, ("-O1",), backend="cuda")
    (found,) = library.run(0, 1)
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = numbers.astype(dtype.numpy)
    real = ~np.isnan(numbers)
    assert (found.view(np.uint16)[real] == wanted.view(np.uint16)[real]).all()
    assert np.isnan(found[~real].astype(np.float32)).all()


@pytest.mark.parametrize("dtype", NARROW, ids=lambda dtype: dtype.value)
def test_nothing_is_computed_in_16_bits(dtype: DType) -> None:
    backend, rng, name = backends.get("cuda"), np.random.default_rng(0), dtype.value
    pair = (f"{name}[4,4]", f"{name}[4,4]")
    for op, shapes, attrs in (
        ("add", pair, {}),
        ("matmul", pair, {"trans_a": False, "trans_b": False}),
        ("reduce_sum", pair[:1], {"axes": (1,)}),
    ):
        node = sample_case(op, Sample(shapes, attrs), rng).node
        assert f"only reads and writes {name}" in (backend.unsupported(node) or ""), op
    moved = sample_case("transpose", Sample(pair[:1], {"perm": (1, 0)}), rng).node
    assert backend.unsupported(moved) is None
    written = sample_case("cast", Sample(("f32[4,4]",), {"to": name}), rng).node
    assert backend.unsupported(written) is None
    assert (backends.get("c").unsupported(written) is None) == (dtype is DType.BF16)
