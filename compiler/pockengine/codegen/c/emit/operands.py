"""How a contraction reads an operand: where it lies in memory, or computed by its *prologue* while it is packed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ....ir import Graph, Node, Value
from ....ops import decompresses
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.index_maps import Access, Axis, contractions_of
from ...common.indexing import broadcast_strides, flat_offset
from ...common.region import needed
from .source import Code


@dataclass(frozen=True)
class Source:
    """A tensor that is read through an index map: argument number `argument`. `suffix` tells its pointers in C from
    those of the operand's other ones."""

    access: Access
    argument: int
    type: str = "float"
    suffix: str = ""


@dataclass(frozen=True)
class Prologue:
    """The nodes of a region's `body` that make `result` of `values`."""

    body: Graph
    result: Value
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Operand:
    """One operand; with a prologue, `sources` are its values, each with the operand's digits and its own strides."""

    access: Access
    sources: tuple[Source, ...]
    prologue: Prologue | None = None

    @classmethod
    def stored(cls, access: Access, argument: int) -> Operand:
        """One that lies in memory."""
        return cls(access, (Source(access, argument),))

    @classmethod
    def computed(cls, access: Access, body: Graph, anchor: Node, part: int) -> Operand:
        """One with a prologue, of the anchor's product number `part`."""
        result = anchor.inputs[access.operand]
        read = {value for node in needed([result], body) for value in node.inputs}
        values = [(index, value) for index, value in enumerate(body.inputs) if value in read]
        sources = []
        for number, (index, value) in enumerate(values):
            strides = broadcast_strides(value.type.shape, result.type.shape)
            product = contractions_of(anchor, strides={access.operand: strides})[part]
            own = next(one for one in (product.left, product.right) if one.operand == access.operand)
            sources.append(Source(own, index, c_type(value.type.dtype), str(number)))
        return cls(access, tuple(sources), Prologue(body, result, tuple(value for _, value in values)))

    @property
    def parameters(self) -> str:
        """The first parameters of a packer."""
        return ", ".join(f"const {source.type} *src{source.suffix}" for source in self.sources)

    @property
    def values(self) -> tuple[Value, ...]:
        """What the prologue reads."""
        return self.prologue.values if self.prologue else ()

    def pointers(self, stem: str) -> str:
        """C names of pointers to the sources, as arguments."""
        return ", ".join(stem + source.suffix for source in self.sources)

    def declare(self, code: Code, stem: str) -> None:
        """Declare pointers to the sources."""
        for source in self.sources:
            code.line(f"const {source.type} *const {stem}{source.suffix} = arg[{source.argument}];")

    def start_batch(self, code: Code, name: str, stem: str, batches: Axis) -> None:
        """Declare pointers to a batch's parts of the sources."""
        for source, start in zip(self.sources, self._starts(stem, batches), strict=True):
            code.line(f"const {source.type} *const {name}{source.suffix} = {start};")

    def at_batch(self, stem: str, batches: Axis) -> str:
        """C expressions of where a batch's parts of the sources start, as arguments."""
        return ", ".join(self._starts(stem, batches))

    def _starts(self, stem: str, batches: Axis) -> Iterator[str]:
        for source in self.sources:
            offset = flat_offset("batch", [d.extent for d in batches], source.access.along(batches))
            base = f"{source.access.base} + " if source.access.base else ""
            yield f"{stem}{source.suffix} + {base}{offset}"

    def element(self, code: Code, read: Sequence[str]) -> str:
        """C expression of an element, of the sources' ones; writes what leads to it."""
        if self.prologue is None:
            return read[0]
        return self._compute(code, read).names[self.prologue.result]

    def functions(self) -> set[str]:
        """The math functions that `element` calls."""
        return self._compute(Code(), ["" for _ in self.sources]).needs if self.prologue else set()

    def _compute(self, code: Code, read: Sequence[str]) -> Body:
        assert self.prologue is not None
        body = Body(C, self.prologue.body)
        for source, value, text in zip(self.sources, self.prologue.values, read, strict=True):
            name = f"e{source.suffix}"
            code.line(f"const {source.type} {name} = {text};")
            body.names[value] = name
        body.compute(code, needed([self.prologue.result], body.graph))
        return body


def computed_operands(body: Graph, anchor: Node) -> frozenset[int]:
    """The operands of a region's contraction that have a prologue."""
    made = body.producers()
    return frozenset(i for i, v in enumerate(anchor.inputs) if v in made and not decompresses(made[v]))
