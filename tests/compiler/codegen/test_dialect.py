"""Expressions in a language: each element type has its own table, and another language is another value."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from pockengine.codegen.common.c_dialect import C
from pockengine.codegen.common.dialect import Dialect, Element
from pockengine.codegen.common.expressions import Body, unsupported
from pockengine.codegen.common.lines import Lines
from pockengine.codegen.common.mathlib import functions
from pockengine.ir import Builder, DType, Graph, parse_type
from pockengine.ops import Emitter

CUDA = Dialect(
    "CUDA",
    {DType.F32: replace(C.elements[DType.F32], operators={"exp": "gpu_exp({0})", "sqrt": "sqrtf({0})"})},
    bitcast="as<{to}>({0})",
    library="gpu_",
)  # fmt: skip


def graph(dtype: str, *ops: str) -> Graph:
    builder = Builder("body")
    value, e = builder.input("x", parse_type(f"{dtype}[4]")), Emitter(builder)
    for op in ops:
        value = e.op(op, value)
    builder.outputs["y"] = value
    return builder.finish()


def test_another_language_is_another_value() -> None:
    body = Body(CUDA, graph("f32", "sqrt", "exp"))
    body.names[body.graph.inputs[0]] = "x"
    lines = Lines()
    body.compute(lines, body.graph.nodes)
    assert lines.text() == "const float v1 = sqrtf(x);\nconst float v2 = gpu_exp(v1);\n"
    assert body.needs == {"exp"}
    refused = [unsupported(graph(*one).nodes[0], CUDA) for one in (("f32", "tanh"), ("f64", "exp"))]
    assert refused == ["the CUDA backend has no tanh of f32", "the CUDA backend does not compute with f64"]


def test_no_type_is_computed_with_in_another_one() -> None:
    """In double no single-precision function or literal is left; what is called is defined for that type."""
    single, double = C.elements[DType.F32], C.elements[DType.F64]
    assert double.operators.keys() <= single.operators.keys()
    for op, text in double.operators.items():
        assert "0f" not in text and "float" not in text and "f(" not in text.replace("erf(", ""), op
    for element in C.elements.values():
        for text in element.operators.values():
            result = "double" if element is double else "float" if element is single else "int64_t"
            for name in C.called(text):
                assert any(f"{result} pock_{name}(" in defined for defined in functions([name]))


@pytest.mark.parametrize("element", [C.elements[DType.F32], C.elements[DType.F64]], ids=["f32", "f64"])
def test_literals_are_exact(element: Element) -> None:
    suffix = "f" if element.name == "float" else ""
    assert [element.literal(x) for x in (1.0, -math.inf, math.nan)] == [
        f"1.0{suffix}", f"-__builtin_inf{suffix}()", f'__builtin_nan{suffix}("")',
    ]  # fmt: skip
    assert C.literal(-(1 << 63), DType.I64) == "INT64_MIN" and C.literal((1 << 64) - 1, DType.U64).startswith(
        "UINT64_C"
    )
