"""The layout of packed operands, and which packer makes it: f32 as it is, 16-bit formats converted on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ...common.index_maps import Contraction
from ..emit.operands import Operand
from ..emit.source import Code
from .compressed import Compressed, CompressedPacker
from .formats import Format, Instruction
from .narrow import NarrowPacker, declarations
from .packers import Packer
from .reading import contiguous, turned
from .schedule import Right, Schedule

Widths = Sequence[tuple[int, int]]
"""(vectors, columns) of the panels of B: of the full ones, and of the last one if it is narrower."""


@dataclass(frozen=True)
class Operands:
    """What is packed: the operands of an oriented contraction with a schedule; the left one may be `compressed`."""

    contraction: Contraction
    schedule: Schedule
    format: Format
    left: Operand
    right: Operand
    compressed: Compressed | None

    @property
    def left_parts(self) -> int:
        """Parts of an element of A."""
        return self.format.left_parts(self.compressed.operand if self.compressed else None)

    @property
    def left_part(self) -> int:
        """Elements from the first parts of a packed row of A to the second ones."""
        width = 2 * self.schedule.lanes
        return -(-self.schedule.depth // width) * width


class Layout(Protocol):
    """How packed operands lie."""

    @property
    def permutes(self) -> bool:
        """Whether packing moves numbers and does not change them."""

    @property
    def title(self) -> str:
        """The format, for the title of a kernel, where it is not f32."""

    @property
    def rows_inner(self) -> bool:
        """Whether packed A is [k][row], else it is [row][k]."""

    @property
    def left_turns(self) -> bool:
        """Whether packing A transposes it."""

    @property
    def row_step(self) -> int:
        """Elements between rows of k (or of A) in the packed block of A; odd multiples of a line avoid set
        conflicts."""

    def right_turns(self, widths: Widths) -> bool:
        """Whether packing B calls `transpose`."""

    def chunks(self, widths: Widths) -> bool:
        """Whether memory's rows run across the panels of B, so that a few steps of k at a time are packed of each."""

    def declarations(self) -> str:
        """What the packers use, after `vec`."""

    def emit_left(self, code: Code) -> None:
        """Define `pack_rows`, which packs a block of A."""

    def emit_right(self, code: Code, widths: Widths, part: Sequence[int]) -> None:
        """Define `pack_columns0`, …: for each width of a panel of B, of which `part` are the elements from the first
        parts to the second ones."""


@dataclass(frozen=True)
class PlainLayout:
    """Numbers of f32: packed A is [k][row] when A is contiguous along rows, else [row][k]; B is [k][column]."""

    of: Operands
    permutes = True
    title = ""

    @property
    def rows_inner(self) -> bool:
        c = self.of.contraction
        return not self.left_turns and not contiguous(c.left, c.k) and contiguous(c.left, c.m)

    @property
    def left_turns(self) -> bool:
        return self.of.compressed is None and turned(self.of.contraction, self.of.schedule)

    @property
    def row_step(self) -> int:
        own = self.of.schedule.block if self.rows_inner else self.of.schedule.depth
        return own + 16 if own * 4 % 1024 == 0 else own

    def right_turns(self, widths: Widths) -> bool:
        return any(packer.turns for packer in self._right_packers(widths))

    def chunks(self, widths: Widths) -> bool:
        packer = self._right_packers(widths)[0]
        return not packer.inner_is_k() and not packer.turns

    def declarations(self) -> str:
        return ""

    def emit_left(self, code: Code) -> None:
        c, lanes = self.of.contraction, self.of.schedule.lanes
        x_step, k_step = (1, self.row_step) if self.rows_inner else (self.row_step, 1)
        if self.of.compressed is not None:
            CompressedPacker("pack_rows", self.of.compressed.layout, c.left, c.m, c.k, x_step, k_step).emit(code)
        elif self.left_turns:
            Packer("pack_rows", self.of.left, c.k, c.m, 1, self.row_step, lanes, False).emit(code)
        else:
            Packer("pack_rows", self.of.left, c.m, c.k, x_step, k_step, lanes, False).emit(code)

    def emit_right(self, code: Code, widths: Widths, part: Sequence[int]) -> None:
        for packer in self._right_packers(widths):
            packer.emit(code)

    def _right_packers(self, widths: Widths) -> list[Packer]:
        return _panel_packers(self.of, widths)


@dataclass(frozen=True)
class NarrowLayout:
    """Numbers of 16 bits, see narrow.py: packed A is [row][part][k]."""

    of: Operands
    permutes = False
    rows_inner = False
    left_turns = False

    @property
    def title(self) -> str:
        return f"{self.of.format.type} ({self.of.format.instruction}), "

    @property
    def row_step(self) -> int:
        own = self.of.left_part * self.of.left_parts
        return own + 32 if own * self.of.format.nbytes % 128 == 0 else own

    def right_turns(self, widths: Widths) -> bool:
        return False

    def chunks(self, widths: Widths) -> bool:
        return not _panel_packers(self.of, widths)[0].inner_is_k()

    def declarations(self) -> str:
        return declarations(self.of.format)

    def emit_left(self, code: Code) -> None:
        of, c = self.of, self.of.contraction
        format = replace(of.format, parts=of.left_parts)
        layout = of.compressed.layout if of.compressed else None
        NarrowPacker("pack_rows", of.left, c.m, c.k, format, of.left_part, row_step=self.row_step, layout=layout).emit(
            code
        )

    def emit_right(self, code: Code, widths: Widths, part: Sequence[int]) -> None:
        of, c = self.of, self.of.contraction
        for index, ((vectors, columns), apart) in enumerate(zip(widths, part, strict=True)):
            width = vectors * of.schedule.lanes
            name = f"pack_columns{index}"
            NarrowPacker(name, of.right, c.n, c.k, of.format, apart, width=width, count=columns).emit(code)


def _panel_packers(of: Operands, widths: Widths) -> list[Packer]:
    """Packers of f32 panels: one for each width."""
    c, s = of.contraction, of.schedule
    whole = s.right != Right.BLOCK
    return [
        Packer(f"pack_columns{index}", of.right, c.n, c.k, 1, vectors * s.lanes, s.lanes, whole, columns)
        for index, (vectors, columns) in enumerate(widths)
    ]


def layout_of(of: Operands) -> Layout:
    """How operands of a format lie when they are packed."""
    return PlainLayout(of) if of.format.instruction is Instruction.FMA else NarrowLayout(of)
