"""Weights that products read often are copied for them in 16 bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pockengine.ir import Builder, DType, Graph, RegionKind, TensorType, Value, parse_type
from pockengine.ops import Emitter
from pockengine.ops.quantised import DEQUANTIZE, BlockFormat
from pockengine.passes import copied_weights
from pockengine.targets import get
from tests.compiler.codegen.gpu.emulated import EmulatedLibrary
from tests.compiler.codegen.gpu.test_rounded import network, shaped, stored
from tests.compiler.codegen.harness import Case, draw


def test_a_weight_that_products_read_often_is_copied_for_them() -> None:
    for rows, width in ((1000, 4096), (8191, 1024)):
        assert stored(shaped(network(rows, width, kept=False))) == [[DType.BF16]]
    graph = shaped(network(8192, 1024, kept=False))
    assert stored(graph) == [[DType.BF16]] * 3
    assert [node.inputs[0].name for node in graph.nodes if node.op == "region" and len(node.inputs) == 1] == [*"xvw"]


def test_each_part_of_a_step_has_its_own_copy_of_a_weight() -> None:
    builder = Builder("parts")
    e, x = Emitter(builder), builder.input("x", parse_type("f32[8192,1024]"))
    weight = builder.param("w", parse_type("f32[1024,1024]"))
    products = list[Value]()
    for builder.phase in ("forward", "forward", "backward"):
        products.append(e.matmul(e.op("exp", e.add(x, float(len(products)))), weight))
    builder.outputs = {f"y{index}": e.op("exp", value) for index, value in enumerate(products)}
    graph = shaped(builder.finish())
    copies = [node for node in graph.nodes if weight in node.inputs]
    assert [(node.phase, node.output.type.dtype) for node in copies] == [
        ("forward", DType.BF16),
        ("backward", DType.BF16),
    ]
    read = [node.inputs for node in graph.nodes if node.region_kind is RegionKind.CONTRACTION]
    assert [copies.index(next(c for c in copies if c.output in inputs)) for inputs in read] == [0, 0, 1]


def compressed(rows: int, format: str) -> Graph:
    """exp(x) times a weight in blocks, twice, as a layer and its gradient read it."""
    builder = Builder("compressed")
    e, x = Emitter(builder), builder.input("x", parse_type(f"f32[{rows},64]"))
    bits = {"int4": 32, "int8": 64, "fp8": 64}[format]
    dtype = {"int4": DType.U8, "int8": DType.I8, "fp8": DType.U8}[format]
    packed = builder.param("packed", TensorType(dtype, (64, bits)))
    scales = builder.param("scales", TensorType(DType.U16, (64, 2)))
    attrs = {"format": format, "block": 32, "shape": (64, 64)}
    for builder.phase in ("forward", "backward"):
        weight = e.op(DEQUANTIZE, packed, scales, **attrs)
        product = e.matmul(e.op("exp", x), weight, trans_b=builder.phase == "forward")
        builder.outputs = {**builder.outputs, builder.phase: e.op("exp", product)}
    return builder.finish()


@pytest.fixture
def little_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_weights, "LEAST_WORK", 1)


@pytest.mark.parametrize("format", [one.value for one in BlockFormat])
def test_a_compressed_weight_is_unpacked_once_for_a_part_of_the_step(format: str, little_work: None) -> None:
    graph = shaped(compressed(1024, format))
    made = [node for node in graph.nodes if node.region_kind is RegionKind.MOVED]
    assert [(node.phase, node.output.type.dtype) for node in made] == [
        ("forward", DType.BF16),
        ("backward", DType.BF16),
    ]
    read = [node for node in graph.nodes if node.region_kind is RegionKind.CONTRACTION]
    assert all(value.type.dtype is DType.BF16 for node in read for value in node.inputs)
    few = shaped(compressed(1008, format))
    assert not any(node.region_kind is RegionKind.MOVED for node in few.nodes)


@pytest.mark.parametrize("format", [one.value for one in BlockFormat])
def test_the_copy_has_the_weights_numbers(format: str, little_work: None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (node, _) = (one for one in shaped(compressed(1024, format)).nodes if one.region_kind is RegionKind.MOVED)
    codes = rng.integers(-100, 100, node.inputs[0].type.shape) & (0x77 if format == "fp8" else 0xFF)
    scales = draw(TensorType(DType.BF16, (64, 2)), rng).view(np.uint16)
    case = Case(node, (codes.astype(np.uint8).view(node.inputs[0].type.dtype.numpy), scales), format)
    library = EmulatedLibrary(tmp_path, [case], get("host"), 1, ("-O1",), backend="cuda")
    library.check(0, 1)
