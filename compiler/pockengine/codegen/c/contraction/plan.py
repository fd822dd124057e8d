"""The plan of one contraction kernel: oriented index maps, schedule, and the layout of the workspace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ....ir import Node
from ....ops.quantised import BlockFormat
from ....plan.program import PACKED
from ....targets import Target
from ...common.index_maps import Contraction, contractions_of
from ...common.memo import Memo
from ...common.region import anchor_of, body_of
from ...common.scratch import aligned
from ...common.storage import Blocks
from ..emit.operands import Operand, computed_operands
from .compressed import Compressed, dequantization
from .formats import CompressedOperand, Format, named
from .models import schedules_of
from .packed import Layout, Operands, layout_of
from .schedule import Right, Schedule, Split

HEADER_BYTES = 64
"""Start of the workspace of a kernel that splits k: the number of tasks that left partial sums."""


def compressed_operand(node: Node) -> CompressedOperand | None:
    """The compressed operand of a region's contraction, if it has one."""
    unpacking = dequantization(node)
    if unpacking is None:
        return None
    index = anchor_of(node).inputs.index(unpacking.output)
    return CompressedOperand(index, BlockFormat.of(unpacking.attrs).significant_bits)


def products_of(node: Node) -> list[Contraction]:
    """The index maps of a region's contraction."""
    anchor = anchor_of(node)
    return contractions_of(anchor, computed_operands(body_of(node), anchor))


def _scheduled(
    node: Node, target: Target, threads: int, compressed: CompressedOperand | None, memo: Memo
) -> list[tuple[Contraction, Schedule]]:
    """The index maps of a contraction with the model's schedules: a model's programs, and the recipes that `pock check`
    compares, have most contractions in common."""
    anchor = anchor_of(node)
    types, attrs = tuple(value.type for value in anchor.inputs), tuple(sorted(anchor.attrs.items()))
    key = ("schedules", anchor.op, compressed, computed_operands(body_of(node), anchor), types, attrs, target, threads)
    return memo.get(
        key,
        lambda: _oriented((made, schedules_of(made, target, threads, compressed)[0][1]) for made in products_of(node)),
    )


def _oriented(scheduled: Iterable[tuple[Contraction, Schedule]]) -> list[tuple[Contraction, Schedule]]:
    return [(made.swapped() if schedule.swap else made, schedule) for made, schedule in scheduled]


@dataclass(frozen=True)
class ContractionPlan:
    """Everything known about one contraction kernel. `contraction` is already oriented as the schedule says.
    Where the left operand is `compressed`, its argument is that of the codes. `strip` is the part of B at hand."""

    node: Node
    anchor: Node
    contraction: Contraction
    schedule: Schedule
    format: Format
    threads: int
    left: Operand
    right: Operand
    compressed: Compressed | None = None
    strip: int = 0

    @classmethod
    def all(
        cls,
        node: Node,
        target: Target,
        threads: int,
        schedules: Sequence[Schedule] | None = None,
        memo: Memo | None = None,
    ) -> list[ContractionPlan]:
        """The plans of a region's contractions: one, or several that share the result's pixels among them. `schedules`
        has one for each; default: those of the model, which `memo` may know."""
        anchor, unpacking = anchor_of(node), dequantization(node)
        if schedules is None:
            scheduled = _scheduled(node, target, threads, compressed_operand(node), Memo() if memo is None else memo)
        else:
            scheduled = _oriented(zip(products_of(node), schedules, strict=True))
        places = {value: index for index, value in enumerate(body_of(node).inputs)}
        compressed = None
        if unpacking is not None:
            codes, scales = (places[value] for value in unpacking.inputs)
            compressed = Compressed(Blocks.of(unpacking), scales, compressed_operand(node))
            places[unpacking.output] = codes
        plans = []
        for part, (oriented, schedule) in enumerate(scheduled):
            left, right = (
                Operand.computed(access, body_of(node), anchor, part)
                if access.computed
                else Operand.stored(access, places[anchor.inputs[access.operand]])
                for access in (oriented.left, oriented.right)
            )
            format = named(schedule.format, target)
            if node.attrs.get(PACKED):
                schedule = replace(schedule, right=Right.PACKED, strips=1)
            plans.append(cls(node, anchor, oriented, schedule, format, threads, left, right, compressed))
        return plans

    # sizes
    @property
    def sizes(self) -> tuple[int, int, int, int]:
        return self.contraction.sizes()

    @property
    def padded_columns(self) -> int:
        """Columns of all panels together: n rounded up to whole vectors."""
        return -(-self.sizes[2] // self.schedule.lanes) * self.schedule.lanes

    @property
    def panels(self) -> int:
        return -(-self.padded_columns // self.schedule.columns)

    @property
    def strip_panels(self) -> int:
        """Panels of a strip of B, but for the last one."""
        return -(-self.panels // self.schedule.strips)

    @property
    def strip_range(self) -> tuple[int, int]:
        """The first panel of the strip, and the one after its last."""
        first = self.strip * self.strip_panels
        return min(first, self.panels), min(first + self.strip_panels, self.panels)

    @property
    def place_of_panel(self) -> str:
        """C expression of where `panel` lies among those of the strip."""
        first = self.strip_range[0]
        return f"{f'(panel - {first})' if first else 'panel'} * {self.panel_elements}"

    def by_strip(self) -> list[ContractionPlan]:
        """The plans that compute the strips of B one after the other: this one where there is one strip."""
        whole = [replace(self, strip=strip) for strip in range(self.schedule.strips)]
        return [plan for plan in whole if plan.strip_range[0] < plan.strip_range[1]]

    @property
    def blocks_of_k(self) -> int:
        return max(1, -(-self.sizes[3] // self.schedule.depth))

    @property
    def accumulates(self) -> bool:
        """Whether sums wait in the workspace: of several blocks of k, or until whole rows can be put in order."""
        return self.blocks_of_k > 1 or self.schedule.split == Split.DEPTH or self.reorders

    @property
    def reorders(self) -> bool:
        """Whether whole rows of sums are put into the result's order before the epilogue, which then runs along
        memory."""
        return bool(self.contraction.stored) and self.schedule.split != Split.COLUMNS

    @cached_property
    def operands(self) -> Operands:
        """What is packed."""
        return Operands(self.contraction, self.schedule, self.format, self.left, self.right, self.compressed)

    @cached_property
    def layout(self) -> Layout:
        """How packed operands lie."""
        return layout_of(self.operands)

    @property
    def right_depth(self) -> int:
        """k of a packed panel of B."""
        return self.schedule.depth if self.schedule.right == Right.BLOCK else self.filled_depth

    def right_part(self, vectors: int) -> int:
        """Elements from the first parts of a packed panel of B to the second ones."""
        return vectors * self.schedule.lanes * self.right_depth

    @property
    def panel_elements(self) -> int:
        """Elements from one packed panel of B to the next."""
        return self.right_part(self.schedule.vectors) * self.format.parts

    @property
    def filled_depth(self) -> int:
        """k of all blocks together in packed B."""
        return self.format.filled(self.sizes[3])

    @property
    def right_elements(self) -> int:
        """Elements from one batch's packed B to the next one's."""
        return self.right_bytes // self.format.nbytes

    # workspace: [header] [shared B] then per task [A block] [B panels] [C block]
    @property
    def left_bytes(self) -> int:
        s = self.schedule
        lines = s.depth if self.layout.rows_inner else s.block
        return aligned(self.format.nbytes * lines * self.layout.row_step) if s.pack_left else 0

    @property
    def right_bytes(self) -> int:
        columns = min(self.padded_columns, self.strip_panels * self.schedule.columns)
        nbytes = self.format.element_bytes * max(1, self.right_depth) * columns
        return 0 if self.schedule.right == Right.DIRECT else aligned(nbytes)

    @property
    def sums_step(self) -> int:
        """Elements between rows of sums that wait; an odd number of lines where rows would compete for cache sets."""
        return self.padded_columns + 16 if self.padded_columns * 4 % 1024 == 0 else self.padded_columns

    @property
    def sums_bytes(self) -> int:
        if not self.accumulates:
            return 0
        batches = self.sizes[0] if self.schedule.split == Split.DEPTH else 1
        return aligned(4 * batches * self.schedule.block * self.sums_step)

    @property
    def right_is_common(self) -> bool:
        """Whether the tasks' panels lie in one place: packed before, or each task packs the panels that only it
        reads."""
        return self.schedule.right == Right.SHARED or (
            self.schedule.right == Right.PRIVATE and self.schedule.split == Split.COLUMNS
        )

    @property
    def shared_bytes(self) -> int:
        if self.right_is_common:
            return self.right_bytes * (self.sizes[0] if self.schedule.right == Right.SHARED else 1)
        return HEADER_BYTES if self.schedule.split == Split.DEPTH else 0

    @property
    def task_bytes(self) -> int:
        own = not self.right_is_common and self.schedule.right != Right.PACKED
        return self.left_bytes + (self.right_bytes if own else 0) + self.sums_bytes

    def workspace_bytes(self) -> int:
        return self.shared_bytes + self.threads * self.task_bytes
