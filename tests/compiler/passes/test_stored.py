"""Parameters of 16 bits: widened anew by each reader, inside it where it is a product."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from pockengine.interp import evaluate
from pockengine.ir import Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.passes.decompress import decompress_inside
from pockengine.passes.fuse import fuse, fuse_apart
from pockengine.passes.order import reorder
from pockengine.passes.stored import widen_where_read

WEIGHT = np.arange(9).reshape(3, 3).astype(ml_dtypes.bfloat16)


def _network(dtype: DType) -> Graph:
    builder = Builder("net")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (2, 3)))
    w = builder.param("w", TensorType(dtype, (3, 3)), WEIGHT.astype(dtype.numpy))
    wide = e.op("cast", w, to="f32")
    h = e.op("exp", e.matmul(x, wide))
    builder.phase = "backward"
    builder.outputs = {"y": e.op("matmul", h, wide, trans_a=False, trans_b=True)}
    return builder.finish()


def test_each_reader_widens_a_stored_parameter() -> None:
    before = _network(DType.BF16)
    after = widen_where_read(before)
    assert [(node.op, node.phase) for node in after.nodes] == [
        ("cast", "forward"),
        ("matmul", "forward"),
        ("exp", "forward"),
        ("cast", "backward"),
        ("matmul", "backward"),
    ]
    x = {"x": np.full((2, 3), 0.1, np.float32)}
    np.testing.assert_array_equal(evaluate(after, x)["y"], evaluate(before, x)["y"])
    assert len(widen_where_read(after).nodes) == len(after.nodes)


def test_products_widen_what_they_read() -> None:
    before = _network(DType.F16)
    after = decompress_inside(fuse_apart(widen_where_read(before)))
    bodies = [[inner.op for inner in node.body.nodes] for node in after.nodes if node.body is not None]
    assert bodies == [["cast", "matmul", "exp"], ["cast", "matmul"]]
    assert all("w" in {value.name for value in node.inputs} for node in after.nodes)
    x = {"x": np.full((2, 3), 0.1, np.float32)}
    np.testing.assert_array_equal(evaluate(after, x)["y"], evaluate(before, x)["y"])


def test_what_is_read_beside_the_product_too_is_widened_before_it() -> None:
    builder = Builder("net")
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (3, 3)))
    wide = e.cast(builder.param("w", TensorType(DType.BF16, (3, 3)), WEIGHT), DType.F32)
    builder.outputs = {"y": e.add(e.matmul(x, wide), wide)}
    fused = fuse_apart(builder.finish())
    assert decompress_inside(fused).nodes == fused.nodes


def test_what_is_no_16_bit_parameter_is_left_alone() -> None:
    graph = _network(DType.F64)
    assert widen_where_read(graph) is graph


def test_rows_of_a_table_are_looked_up_as_they_are_stored() -> None:
    builder = Builder("net")
    e, indices = Emitter(builder), builder.input("i", TensorType(DType.I64, (2,)))
    wide = e.cast(builder.param("w", TensorType(DType.BF16, (3, 3)), WEIGHT), DType.F32)
    builder.outputs = {"rows": e.op("gather", wide, indices, axis=0), "columns": e.op("gather", wide, indices, axis=1)}
    before = builder.finish()
    after = widen_where_read(before)
    assert [(node.op, node.output.type.dtype.value) for node in after.nodes] == [
        ("gather", "bf16"),
        ("cast", "f32"),
        ("cast", "f32"),
        ("gather", "f32"),
    ]
    given = {"i": np.array([2, 0])}
    for name, expected in evaluate(before, given).items():
        np.testing.assert_array_equal(evaluate(after, given)[name], expected)


def test_an_update_waits_for_products_that_widen_the_old_weight() -> None:
    """Fused with what such a product reads, it could not."""
    builder = Builder("net")
    builder.phase = "backward"
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (3, 3)))
    w = builder.param("w", TensorType(DType.BF16, (3, 3)), WEIGHT)
    wide, h = e.cast(w, DType.F32), e.op("exp", x)
    builder.outputs = {"y": e.matmul(h, wide)}
    builder.phase = "update"
    builder.updates[w] = e.cast(e.sub(wide, h), DType.BF16)
    after = reorder(decompress_inside(fuse(widen_where_read(builder.finish()))))
    read = [index for index, node in enumerate(after.nodes) if w in node.inputs]
    (written,) = (index for index, node in enumerate(after.nodes) if after.updates[w] in node.outputs)
    assert len(read) == 2 and written >= max(read)
