"""Products that cuBLASLt, NVIDIA's library, may make in the place of a kernel where it is installed.

It is a candidate for tuning: no model chooses it, and the kernel that goes along computes the same where there is no
library. An epilogue that does more than to store is a kernel behind it, which reads the sums from scratch memory."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace

from ....ir import DType
from ....plan.program import Kernel, Matrices, Product
from ...common.index_maps import Access, Axis
from ...common.indexing import collapse
from .rings import SIDES
from .straight import E4M3, is_multiplied_as_stored
from .writer import Writer

NAME = "cuBLASLt"
WORKSPACE_BYTES = 32 << 20
"""What NVIDIA advises for Hopper (cuBLAS library 12.9, "cublasSetWorkspace"); a kernel of the library that wants more
than it is given is not chosen."""
_ALIGNED = 256


def product_of(writer: Writer, compute: str, limit: int) -> Product | None:
    """What the library would do for a part of a contraction, with at most `limit` bytes of scratch memory; None where
    it cannot: an operand is no matrix in memory, is made of what is smaller, or has another format."""
    left, right = (_operand(writer, name, compute) for name in SIDES)
    if left is None or right is None:
        return None
    stored, scratch, (batch, m, n, _) = _stored(writer, compute), len(writer.operands), writer.part.sizes()
    used = 0 if stored is not None else -(-batch * m * n * DType.F32.nbytes // _ALIGNED) * _ALIGNED
    workspace = min(limit - used, WORKSPACE_BYTES) // _ALIGNED * _ALIGNED
    if workspace < 0:
        return None
    result = stored or Matrices(scratch, DType.F32, 0, (m * n, n, 1))
    return Product(writer.part.sizes(), left, right, result, compute, scratch, used, workspace, stored is None)


def with_product(kernel: Kernel, product: Product) -> Kernel:
    """The kernel, or the library: another function of the host's."""
    text = f"/* or cuBLASLt: {product} */\n{kernel.source}"
    symbol = f"{kernel.symbol}_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
    return replace(kernel, symbol=symbol, source=text.replace(kernel.symbol, symbol), product=product)


def _operand(writer: Writer, name: str, compute: str) -> Matrices | None:
    """The `left` or `right` operand."""
    access, axis, _, _ = writer.side(name)
    as_stored = compute != E4M3 and is_multiplied_as_stored(writer, name, compute)
    if access.windows or not (as_stored or (compute in ("f32", "tf32") and writer.is_f32)):
        return None
    rows, columns = (axis, writer.part.k) if name == SIDES[0] else (writer.part.k, axis)
    return _matrices(writer, writer.place_of(access), writer.lies(access).dtype, access, rows, columns)


def _stored(writer: Writer, compute: str) -> Matrices | None:
    """The region's result, if its epilogue only stores the sums, as they are or in the operands' format."""
    (value, *others), made = writer.graph.outputs.values(), writer.epilogue()
    rounds = [node.op for node in made] == ["cast"] and value.type.dtype.value == compute
    if others or (made and not rounds):
        return None
    steps, base = writer.steps(value)
    access = Access(0, dict(steps), (), base)
    found = _matrices(writer, len(writer.graph.inputs), value.type.dtype, access, writer.part.m, writer.part.n)
    return found if found is not None and found.steps[2] == 1 else None


def _matrices(writer: Writer, operand: int, dtype: DType, access: Access, rows: Axis, columns: Axis) -> Matrices | None:
    """What an access reads, where it is matrices whose rows or columns lie side by side, at equal steps."""
    extents, (between,) = collapse([digit.extent for digit in writer.part.b], [access.along(writer.part.b)])
    down, along = access.linear(rows), access.linear(columns)
    if len(extents) > 1 or down is None or along is None:
        return None
    whole = (along == 1 and down >= _extent(columns)) or (down == 1 and along >= _extent(rows))
    return Matrices(operand, dtype, access.base, (between[0], down, along)) if whole else None


def _extent(axis: Axis) -> int:
    return math.prod(digit.extent for digit in axis)
