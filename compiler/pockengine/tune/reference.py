"""What a kernel must compute: contents for a region's operands, and the results of the numpy reference in float64.

Operands hold small integers and eighths, so that sums of products are exact in float32 in whatever order they are
added: candidates that differ in order agree, and comparisons in an epilogue decide alike. Where minimal filtering may
compute the product, whose transforms round, a comparison may go either way within that rounding."""

from __future__ import annotations

import numpy as np

from ..codegen.common.draws import pick
from ..codegen.common.region import anchor_of, body_of
from ..codegen.common.storage import loaded
from ..codegen.tunable import Operand, Wanted
from ..interp import environment, evaluate
from ..ir import Array, DType, Node, Value
from ..ops import decompresses
from ..ops.quantised import BlockFormat
from ..passes.winograd_marks import WINOGRAD

RELATIVE, ABSOLUTE = 1e-4, 1e-5
"""Allowed error: of the expected number, and of the largest one of its tensor."""


CHECKED = 32768
"""Elements of a large output that a trial on a device compares: drawn at random."""

_SCALES = np.array([0x3F00, 0x3F80, 0x4000], np.uint16)
"""Of quantised weights: 0.5, 1 and 2 as bf16."""
_E4M3 = np.array([0xB8, 0x00, 0x38, 0x40], np.uint8)
"""Of quantised weights in fp8: -1, 0, 1 and 2."""
_APART = 1 << 27
"""Between the seeds of two operands, so that none repeats another one's numbers."""
_POSITIONS = 1 << 31
"""Where the seeds of positions begin."""


def operands(node: Node, seed: int = 0) -> tuple[Operand, ...]:
    """What a region's inputs hold, the same for the same seed."""
    multiplied = set(anchor_of(node).inputs)
    weights = [inner for inner in body_of(node).nodes if decompresses(inner)]
    given: dict[Value, Array] = {inner.inputs[1]: _SCALES for inner in weights}
    given |= {inner.inputs[0]: _E4M3 for inner in weights if BlockFormat.of(inner.attrs) is BlockFormat.FP8}
    return tuple(
        Operand(given.get(value, _values(value.type.dtype, value in multiplied)), _seed(seed, index))
        for index, value in enumerate(body_of(node).inputs)
    )


def _seed(first: int, index: int) -> int:
    return (first + index * _APART) % (1 << 32)


def draw(node: Node, seed: int = 0) -> list[Array]:
    """Contents of a region's inputs, the same for the same seed."""
    found = zip(body_of(node).inputs, operands(node, seed), strict=True)
    return [
        np.asarray(one.values[pick(one.seed, value.type.size, len(one.values))].reshape(value.type.shape))
        for value, one in found
    ]


def _values(dtype: DType, multiplied: bool) -> Array:
    if not dtype.is_float:
        return np.arange(2).astype(dtype.numpy)
    if multiplied:
        return np.arange(-3, 4).astype(dtype.numpy)
    return (np.arange(4, 13) / np.float32(8)).astype(dtype.numpy)


def expected(node: Node, inputs: list[Array]) -> list[list[Array]]:
    """For each of the region's outputs, computed in float64, the tensors whose elements are right: one, or where
    minimal filtering may compute the product three, two of them of a product that is a little less or more."""
    body, product = body_of(node), anchor_of(node).output
    given = zip(body.inputs, inputs, strict=True)
    exact = {v.name: array.astype(np.float64) if v.type.dtype.is_float else array for v, array in given}
    with np.errstate(all="ignore"):
        values = environment(body, exact)
        found = [[values[value] for value in body.outputs.values()]]
        if anchor_of(node).attrs.get(WINOGRAD):
            rest = body.with_(
                inputs=(*body.inputs, product), nodes=tuple(one for one in body.nodes if product not in one.outputs)
            )
            slack = ABSOLUTE * np.abs(values[product]).max(initial=0.0)
            for shifted in (values[product] - slack, values[product] + slack):
                outputs = evaluate(rest, {**exact, product.name: shifted})
                found.append([outputs[name] for name in body.outputs])
    return [list(same) for same in zip(*found, strict=True)]


def wanted(node: Node, seed: int = 0) -> tuple[Wanted, ...]:
    """What each of a region's outputs must hold with the operands of `seed`: all of it, or CHECKED elements."""
    found = []
    for index, right in enumerate(expected(node, draw(node, seed))):
        flat = [np.asarray(one, np.float64).reshape(-1) for one in right]
        size, own = flat[0].size, _seed(_POSITIONS + seed, index)
        at = np.arange(size) if size <= CHECKED else pick(own, CHECKED, size)
        finite = np.abs(np.concatenate([one[np.isfinite(one)] for one in flat]))
        with np.errstate(over="ignore"):
            numbers = np.stack([one[at] for one in flat]).astype(np.float32)
        found.append(Wanted(numbers, ABSOLUTE * float(finite.max(initial=0.0)) + 1e-30, own))
    return tuple(found)


def differs(node: Node, found: bytes, wanted: list[list[Array]], offsets: list[int]) -> str | None:
    """Where the bytes that a kernel wrote (outputs at `offsets`) are not what is wanted, in one sentence; None where
    they agree."""
    for index, (value, right, offset) in enumerate(zip(node.outputs, wanted, offsets, strict=True)):
        raw = loaded(value.type, found[offset : offset + value.type.nbytes])
        agree = np.logical_or.reduce([_agree(raw, np.asarray(want)) for want in right])
        if not np.all(agree):
            wrong = int(np.size(agree) - np.count_nonzero(agree))
            return f"{wrong} of {np.size(agree)} numbers of output {index} are wrong"
    return None


def _agree(raw: Array, want: Array) -> Array:
    """Which elements are as wanted."""
    if raw.dtype.kind != "f":
        return np.asarray(raw == want.astype(raw.dtype))
    got, exact = raw.astype(np.float64), want.astype(np.float64)
    finite = np.abs(exact[np.isfinite(exact)])
    allowed = RELATIVE * np.abs(exact) + ABSOLUTE * (finite.max() if finite.size else 0.0) + 1e-30
    with np.errstate(invalid="ignore"):
        return np.asarray((np.abs(got - exact) <= allowed) | (got == exact) | (np.isnan(got) & np.isnan(exact)))
