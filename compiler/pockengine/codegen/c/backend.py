"""The C backend: which template computes a node."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ... import ops
from ...ir import DType, Graph, Node, RegionKind
from ...plan.pipeline import PIPELINE, Pipeline
from ...plan.program import PACKED, SCRATCH, Lowered, Packing
from ...progress import Progress
from ...targets import HOST_MEMORY, Memory, Target
from ..backend import Built, Description, Limits
from ..common import attention as common_attention
from ..common import expressions
from ..common.c_dialect import C
from ..common.identity import attributes, identity
from ..common.memo import Memo
from ..common.region import anchor_of, as_region
from ..model import Model
from ..native import toolchain
from ..native.host import is_host
from ..native.measure.packs import Packs
from ..tunable import Choice, Picks
from .attention import kernel as attention
from .build import build
from .contraction import compressed
from .contraction.panels import packing
from .contraction.strips import options
from .depthwise import gradients as depthwise_gradients
from .loops import (
    column_reductions,
    elementwise,
    gather_scatter,
    generic_contraction,
    movement,
    pooling,
    random,
    resample,
    rows,
    scans,
)
from .program_size import program_bytes
from .tunable import TunableContraction, schedules_in

if TYPE_CHECKING:
    from .measure.measurer import CMeasurer

BARE: Mapping[str, Callable[[Node], Lowered]] = {
    op: family.lower
    for family in (compressed, gather_scatter, movement, scans, pooling, random, resample)
    for op in family.OPS
}
"""Operators that never stand in a region."""

BYTES_PER_CYCLE = 4
"""Main memory of a small device, all cores together."""

CALL_CYCLES = 2000
"""Starting a kernel and handing it to the threads."""


class CBackend(Packs):
    """Turns legal nodes into C kernels. Bare elementwise, reduction and contraction nodes count as regions of one
    node."""

    name = "c"
    pipeline: Pipeline = PIPELINE

    def __init__(self, picks: Picks | None = None, memo: Memo | None = None) -> None:
        """`picks` has choices by `identity`, for one target and number of threads; the model chooses the rest. `memo`
        is that of another backend, from which this one differs in its picks."""
        self._picks = picks or {}
        self._memo = Memo() if memo is None else memo

    def limits(self, target: Target) -> Limits:
        """What the processor's instructions allow."""
        return Limits(target.processor_formats, tunes=True, trained=tuple(C.narrowed))

    def memory(self, target: Target) -> Memory:
        """The processor's own."""
        return target.memory(HOST_MEMORY)

    def unsupported(self, node: Node) -> str | None:
        """Why this node cannot be lowered, or None."""
        reason = expressions.unsupported_types((*node.inputs, *node.outputs), C)
        if reason:
            return reason
        if node.op in pooling.OPS:
            floats = all(value.type.dtype is DType.F32 for value in node.inputs)
            return None if floats else f"the C backend has {node.op} of f32 only"
        if node.op in common_attention.OPS:
            return common_attention.unsupported(node, "the C backend")
        if node.op in BARE:
            bits = any(value.type.dtype is DType.BIT for value in (*node.inputs, *node.outputs))
            copies = node.op in expressions.COPIES or (node.op in movement.OPS and node.op != "pad")
            only_stored = None if copies else expressions.only_stored(node, C)
            return f"the C backend has no {node.op} of bit" if bits else only_stored
        if node.body is not None:
            inside = (inner for inner in node.body.nodes if not ops.decompresses(inner))
            return next((reason for inner in inside if (reason := _unsupported_inside(inner))), None)
        if ops.get(node.op).kind in ("elementwise", "reduction", "contraction"):
            return _unsupported_inside(node)
        return f"the C backend has no template for {node.op}"

    def claims(self, node: Node) -> bool:
        """Whether a composite is lowered whole: attention, where tiles are no slower than scores in memory."""
        return node.op in common_attention.OPS and common_attention.pays(node) and self.unsupported(node) is None

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """The kernels of one node, with workspaces for at most `threads` tasks. What computes the same as an earlier
        node is not lowered again."""
        key = self._key("kernels", node, target, threads)
        return _for_node(node, *self._memo.get(key, lambda: (node, self._lowered(node, target, threads))))

    def _lowered(self, node: Node, target: Target, threads: int) -> Lowered:
        if node.op in BARE:
            return BARE[node.op](node)
        if node.op in common_attention.OPS:
            return attention.lower(node, target, threads)
        region = as_region(node)
        kind = region.region_kind
        if kind is RegionKind.CONTRACTION:
            if anchor_of(region).output.type.dtype is not DType.F32:
                return generic_contraction.lower(region)
            return TunableContraction(region, target, threads, self._memo).lower(self._picked(region))
        if kind is RegionKind.GRADIENTS:
            return depthwise_gradients.lower(region, target, threads)
        if kind is RegionKind.ROW:
            return rows.lower(region, threads)
        if kind is RegionKind.COLUMN:
            return column_reductions.lower(region, threads)
        return elementwise.lower(region)

    def cost(self, lowered: Lowered, target: Target, threads: int) -> float:
        """Roofline estimate of a node's cycles: arithmetic at half of two fused multiply-adds a cycle, or memory."""
        rate = threads * target.vector_bytes / 2
        return sum(CALL_CYCLES + max(call.flops / rate, call.bytes / BYTES_PER_CYCLE) for call in lowered.calls)

    def rounds(self, node: Node, target: Target) -> DType | None:
        """Products round what they pack, as they pack it."""
        return None

    def packing(self, node: Node, target: Target, threads: int) -> tuple[int, Packing] | None:
        """The operand that a node would pack whole each time, and how it could lie in memory instead."""
        if not self._packs(node, target, threads):
            return None
        return packing(node, target, threads, schedules_in(self._picked(node)), self._memo)

    def scratch(self, node: Node, target: Target, threads: int) -> Sequence[tuple[int, float]]:
        """(bytes of workspace, time in parts of the usual one) of the ways to compute a node in less than the usual
        workspace, the quickest first: contractions that pack an operand a strip at a time."""
        return self._memo.get(
            self._key("strips", node, target, threads),
            lambda: (
                options(node, target, threads, schedules_in(self._picked(node)), self._memo)
                if self._packs(node, target, threads)
                else []
            ),
        )

    def runtime_bytes(self, model: Graph) -> int:
        """See program_size.py."""
        return program_bytes(model)

    def identity(self, node: Node) -> str | None:
        """Of contractions: what they compute, without names."""
        return identity(node) if TunableContraction.has_choice(node) else None

    def tuned(self, picks: Picks) -> CBackend:
        """See Backend."""
        return CBackend(picks, self._memo)

    def describe(self, node: Node, target: Target, threads: int, choice: Choice | None = None) -> Description | None:
        """The schedule of a contraction."""
        tunable = self.tunable(node, target, threads)
        if tunable is None:
            return None
        chosen = choice if choice is not None else tunable.candidates()[0].choice
        share = tunable.share_of_peak(chosen)
        return Description(tunable.family, chosen.multiplies_in, chosen.describe(), chosen.to_plain(), share)

    def tunable(self, node: Node, target: Target, threads: int) -> TunableContraction | None:
        """A contraction of f32; None of other nodes."""
        return TunableContraction(node, target, threads, self._memo) if TunableContraction.has_choice(node) else None

    def environment(self, target: Target) -> Mapping[str, str]:
        """Compiler and flags of kernels."""
        return {"flags": toolchain.kernel_flags(target), "compiler": toolchain.zig_version()}

    def runs_here(self, target: Target) -> bool:
        """Whether this machine's processor is the target's."""
        return is_host(target)

    def measurer(self, target: Target, threads: int, cache: Path | None = None) -> CMeasurer:
        """See measure/measurer.py."""
        from .measure.measurer import CMeasurer

        return CMeasurer(target, threads, cache)

    def prepare(self, target: Target, cache: Path | None = None) -> None:
        """The C library and the runtime."""
        toolchain.prepare(target, cache)

    def build(self, model: Model, target: Target, cache: Path | None, progress: Progress) -> Built:
        """See build.py."""
        return build(model, target, cache, progress)

    def _packs(self, node: Node, target: Target, threads: int) -> bool:
        """Whether a node is a contraction that has schedules."""
        found = self.tunable(node, target, threads)
        return found is not None and not found.is_depthwise and found.winograd(self._picked(node)) is None

    def _key(self, what: str, node: Node, target: Target, threads: int) -> tuple[Hashable, ...]:
        """What the kernels of a node depend on: the computation without names, which inputs are one value, the pick."""
        first = tuple(node.inputs.index(value) for value in node.inputs)
        if node.body is not None:
            text = identity(node)
            kind = (node.region_kind, node.attrs.get(PACKED), node.attrs.get(SCRATCH))
            return (what, target, threads, *kind, text, first, self._picks.get(text))
        types = tuple(value.type for value in (*node.inputs, *node.outputs))
        pick = self._picked(node) if ops.is_kind(node, "contraction") else None
        return (what, target, threads, node.op, types, attributes(node.attrs), first, pick)

    def _picked(self, node: Node) -> Choice | None:
        return self._picks.get(identity(node)) if self._picks else None


def _for_node(node: Node, other: Node, lowered: Lowered) -> Lowered:
    """The kernels of `other`, which computes the same, on the operands of `node`."""
    if node is other:
        return lowered
    own = dict(zip((*other.inputs, *other.outputs), (*node.inputs, *node.outputs), strict=True))
    calls = (replace(call, operands=tuple(own[value] for value in call.operands)) for call in lowered.calls)
    return replace(lowered, calls=tuple(calls))


MOST_STRIDE = 64 * 64
"""Of a transposed convolution: each place within a stride is a product of its own."""


def _unsupported_inside(node: Node) -> str | None:
    reason = expressions.unsupported_types((*node.inputs, *node.outputs), C) or expressions.only_stored(node, C)
    if reason:
        return reason
    if ops.convolution_of(node) is ops.Convolution.IMAGE_GRADIENT and math.prod(node.attrs["stride"]) > MOST_STRIDE:
        return f"the C backend has no strides as large as {list(node.attrs['stride'])} there"
    if ops.is_kind(node, "contraction"):
        return f"the C backend has no {node.op} of bool" if node.output.type.dtype is DType.BOOL else None
    if (how := ops.combination_of(node)) is not None:
        adds = how in (ops.Combination.SUM, ops.Combination.PRODUCT)
        return f"the C backend has no {node.op} of bool" if adds and node.output.type.dtype is DType.BOOL else None
    return expressions.unsupported(node, C)
