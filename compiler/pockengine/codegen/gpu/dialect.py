"""GPU-C's types, numbers and operators: C's, but for what many GPUs lack, double precision,
and C++ lacks, a type within an expression."""

from __future__ import annotations

from dataclasses import replace

from ...ir import DType
from ..common.c_dialect import C
from ..common.dialect import Element

_F32 = C.elements[DType.F32]

GPU_C = replace(
    C,
    name="GPU-C",
    elements={
        **C.elements,
        DType.F32: replace(_F32, operators={**_F32.operators, "pow": "pow({0}, {1})"}),
        DType.BF16: Element("uint16_t", str, {}),
        DType.F16: Element("uint16_t", str, {}),
    },
    bitcast="SAME_BITS({source}, {to}, {0})",
    widened={DType.BF16: "SAME_BITS(uint32_t, float, (uint32_t){0} << 16)", DType.F16: "WIDEN_F16({0})"},
    narrowed={DType.BF16: "(uint16_t)PACK_BF16({0}, 0.0f)", DType.F16: "(uint16_t)PACK_F16({0}, 0.0f)"},
)
"""C computes a single power in double precision; a GPU's own function is good to 16 units in the last place (OpenCL
C 3.0 specification, table of relative errors) and needs none."""
