"""GPU-C's types, numbers and operators: C's, but for what many GPUs lack, double precision,
and C++ lacks, a type within an expression."""

from __future__ import annotations

from dataclasses import replace

from ...ir import DType
from ..common.c_dialect import C

_F32 = C.elements[DType.F32]

GPU_C = replace(
    C,
    name="GPU-C",
    elements={**C.elements, DType.F32: replace(_F32, operators={**_F32.operators, "pow": "pow({0}, {1})"})},
    bitcast="SAME_BITS({source}, {to}, {0})",
)
"""C computes a single power in double precision; a GPU's own function is good to 16 units in the last place (OpenCL
C 3.0 specification, table of relative errors) and needs none."""
