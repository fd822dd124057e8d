"""Which template computes a node on a GPU, and what a GPU cannot do: what backends of GPU languages have in common."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Self

from ... import ops
from ...ir import DType, Graph, Node, RegionKind
from ...passes import PASSES, Form, Pass
from ...passes.copied_weights import copy_weights
from ...passes.moves import moves
from ...passes.rounded import store_rounded
from ...passes.rounded_weights import read_rounded
from ...plan.lowering import RUNTIME_BYTES
from ...plan.pipeline import Pipeline, Planning
from ...plan.program import SCRATCH, Lowered, Packing
from ...targets import Gpu, Target
from ..backend import Description, Limits
from ..common import expressions
from ..common.identity import identity
from ..common.region import as_region
from ..tunable import Choice, Picks
from . import columns, elementwise, indexed, moved, movement, pooling, rows, scans, tables
from .attention import kernels as attention
from .contraction import kernels as contraction
from .contraction import matrix
from .contraction.kernels import Products
from .dialect import GPU_C
from .pace import USUAL, call_cycles, gpu_of
from .source import MOST_OPERANDS
from .tunable import TunableProducts, has_choice

BARE: Mapping[str, Callable[[Node], Lowered]] = {
    op: family.lower for family in (indexed, scans, pooling, tables) for op in family.OPS
}
"""Operators that never stand in a region, beside those of movement."""

_INSTEAD = {
    "fuse": "fuse_apart", "chunk_rows": "chunk_rows_widely", "decompress_inside": "decompress_all_inside",
}  # fmt: skip
_LEFT_OUT = ("masks_as_bits", "compute_while_packing")


def _on_gpu(*passes: str) -> tuple[str, ...]:
    return tuple(_INSTEAD.get(name, name) for name in passes if name not in _LEFT_OUT)


READ_ROUNDED = Pass[Planning](
    "read_rounded",
    lambda graph, planning: read_rounded(graph, planning.lower.rounds, dict(planning.rounded)),
    "products find a frozen weight in 16 bits, if all programs round it so",
    (Form.REGIONS,),
)
COPY_WEIGHTS = Pass[Planning](
    "copy_weights",
    lambda graph, planning: copy_weights(graph, planning.lower.rounds),
    "a weight that products read often is copied for them in 16 bits, once in each part of the step",
    (Form.REGIONS,),
)
STORE_ROUNDED = Pass[Planning](
    "store_rounded",
    lambda graph, planning: store_rounded(graph, planning.lower.rounds),
    "what products alone read, and round to 16 bits, is stored so; also once more, beside what others read",
    (Form.REGIONS,),
)
_DEFAULT = Pipeline()
GPU = Pipeline(
    shaping=tuple(PASSES[name] for name in _on_gpu(*(one.name for one in _DEFAULT.shaping))),
    sparing=tuple(PASSES[name] for name in _on_gpu(*(one.name for one in _DEFAULT.sparing))),
    ordering=(PASSES["move_inside"], COPY_WEIGHTS, STORE_ROUNDED, *_DEFAULT.ordering),
    rounding=(READ_ROUNDED,),
)
"""Regions of at most one contraction, which finds its operands in memory, as numbers or compressed; a mask is a byte an
element, which a thread can write by itself."""


def unsupported(node: Node) -> str | None:
    """Why a node has no kernel, or None."""
    if node.op in attention.OPS:
        return attention.unsupported(node)
    values = (*node.inputs, *node.outputs)
    if any(value.type.dtype is DType.BIT for value in values):
        return "a GPU has no masks of bits"
    if len(values) > MOST_OPERANDS and node.op not in movement.OPS:
        return f"a kernel has at most {MOST_OPERANDS} operands"
    reason = expressions.unsupported_types(values, GPU_C)
    if reason or node.op in BARE or node.op in movement.OPS:
        moves = node.op in movement.OPS or node.op in expressions.COPIES
        return reason or _pooled(node) or (None if moves else expressions.only_stored(node, GPU_C))
    if node.body is not None:
        return next((reason for inner in node.body.nodes if (reason := _inside(inner))), None)
    if ops.get(node.op).kind in ("elementwise", "reduction", "contraction"):
        return _inside(node)
    return f"a GPU has no template for {node.op}"


def _pooled(node: Node) -> str | None:
    floats = all(value.type.dtype is DType.F32 for value in node.inputs)
    return None if floats or node.op not in pooling.OPS else f"a GPU has {node.op} of f32 only"


def _inside(node: Node) -> str | None:
    values = (*node.inputs, *node.outputs)
    if reason := expressions.unsupported_types(values, GPU_C) or expressions.only_stored(node, GPU_C):
        return reason
    if ops.decompresses(node) or moves(node):
        return None
    boolean = node.output.type.dtype is DType.BOOL
    if ops.is_kind(node, "contraction"):
        return f"a GPU has no {node.op} of bool" if boolean else None
    if (how := ops.combination_of(node)) is not None:
        adds = how in (ops.Combination.SUM, ops.Combination.PRODUCT)
        return f"a GPU has no {node.op} of bool" if adds and boolean else None
    return expressions.unsupported(node, GPU_C)


def lower(node: Node, target: Target, choice: Products | None = None) -> Lowered:
    """The kernels of one node; of a contraction as is chosen."""
    if node.op in attention.OPS:
        return attention.lower(node, target)
    if node.op in movement.OPS:
        return movement.lower(node, target)
    if node.op in BARE:
        return BARE[node.op](node)
    region = as_region(node)
    match region.region_kind:
        case RegionKind.CONTRACTION:
            return contraction.lower(region, target, choice)
        case RegionKind.ROW:
            return rows.lower(region, target)
        case RegionKind.COLUMN:
            return columns.lower(region, target)
        case RegionKind.ELEMENTWISE:
            return elementwise.lower(region, target)
        case RegionKind.MOVED:
            return moved.lower(region, target)
    raise AssertionError(f"no pass makes a region of kind {region.region_kind} for a GPU")


class Lowering:
    """The part of a backend's protocol that planning asks, for every language of GPU kernels."""

    pipeline: Pipeline = GPU
    formats: tuple[str, ...] = ("f32",)
    tunes: bool = True
    usual: Gpu = USUAL
    """The GPU of targets that have none of their own."""

    def __init__(self, picks: Picks | None = None) -> None:
        """`picks` has choices by `identity`, for one target; the model chooses the rest."""
        self._picks = picks or {}

    def limits(self, target: Target) -> Limits:
        """What kernels can be made with; the clock is the GPU's."""
        clock = gpu_of(self._seen(target)).clock_mhz * 1e6
        stored, trained, offloads = tuple(GPU_C.widened), tuple(GPU_C.narrowed), self.offloads(target)
        return Limits(self.formats, tunes=self.tunes, clock=clock, stored=stored, trained=trained, offloads=offloads)

    def _seen(self, target: Target) -> Target:
        """The target with the GPU that kernels are made for."""
        return target if target.gpu is not None else replace(target, gpu=self.usual)

    def offloads(self, target: Target) -> bool:
        """Whether kernels also read and write the memory of the GPU's host, which is another than the GPU's."""
        return False

    def unsupported(self, node: Node) -> str | None:
        """Why this node cannot be lowered, or None."""
        return unsupported(node)

    def claims(self, node: Node) -> bool:
        """Whether a composite is lowered whole: attention, where a head has many scores."""
        return attention.claims(node)

    def lower(self, node: Node, target: Target, threads: int) -> Lowered:
        """The kernels of one node."""
        choice = self._picks.get(identity(node)) if self._picks and has_choice(node) else None
        assert choice is None or isinstance(choice, Products)
        return lower(node, self._seen(target), choice)

    def cost(self, lowered: Lowered, target: Target, threads: int) -> float:
        """Cycles of the target's GPU, as `call_cycles` tells them."""
        gpu = gpu_of(self._seen(target))
        return sum(call_cycles(call, matrix.units_of(call.kernel, target.compute), gpu) for call in lowered.calls)

    def rounds(self, node: Node, target: Target) -> DType | None:
        """What products multiply in 16 bits."""
        seen = self._seen(target)
        return contraction.rounds(node, seen) or attention.rounds(node, seen)

    def packing(self, node: Node, target: Target, threads: int) -> tuple[int, Packing] | None:
        """There is one lowering."""
        return None

    def scratch(self, node: Node, target: Target, threads: int) -> Sequence[tuple[int, float]]:
        """Sums of products in fewer parts, or whole."""
        usual = self.lower(node, target, threads)
        found: list[tuple[int, float]] = []
        least = usual.workspace_bytes
        for limit in (least // 2, least // 4, 0):
            if least > limit and node.body is not None:
                less = self.lower(replace(node, attrs={**node.attrs, SCRATCH: limit}), target, threads)
                time = self.cost(less, target, threads) / self.cost(usual, target, threads)
                found.append((less.workspace_bytes, max(1.0, time)))
                least = less.workspace_bytes
        return found

    def runtime_bytes(self, model: Graph) -> int:
        """A constant: what a driver takes for itself is not counted."""
        return RUNTIME_BYTES

    def identity(self, node: Node) -> str | None:
        """Of contractions: what they compute, without names."""
        return identity(node) if has_choice(node) else None

    def tuned(self, picks: Picks) -> Self:
        """See Backend."""
        return type(self)(picks)

    def tunable(self, node: Node, target: Target, threads: int) -> TunableProducts | None:
        """A contraction of f32; None of other nodes."""
        return TunableProducts(node, self._seen(target)) if has_choice(node) else None

    def describe(self, node: Node, target: Target, threads: int, choice: Choice | None = None) -> Description | None:
        """How the products of a contraction are made."""
        tunable = self.tunable(node, target, threads)
        if tunable is None:
            return None
        chosen = choice if choice is not None else tunable.candidates()[0].choice
        return Description(tunable.family, chosen.multiplies_in, chosen.describe(), chosen.to_plain(), None)
