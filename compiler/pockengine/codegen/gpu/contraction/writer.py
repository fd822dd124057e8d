"""Writing the kernel of a contraction: operands at the digits of their axes, the region's epilogue on each result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from ....ir import DType, Graph, Node, TensorType, Value
from ....ops import decompresses, unpacks
from ....ops.quantised import BlockFormat
from ....plan.program import Kernel, Map
from ...common.c_dialect import c_type
from ...common.expressions import Body
from ...common.index_maps import Access, Axis, Contraction, element_offset
from ...common.indexing import broadcast_strides, digits
from ...common.mathlib import functions
from ...common.region import anchor_of, body_of, needed
from ...common.storage import Blocks
from ..dialect import GPU_C
from ..pace import Cut
from ..source import Code, kernel, kernel_body, operands_of


class Writer:
    """Of one part of a contraction, whose sums may be cut in parts: then results are sums of parts in scratch memory,
    [parts, b, m, n], which another kernel adds up (sums.py)."""

    def __init__(
        self, node: Node, anchor: Node, part: Contraction, cut: Cut, of_codes: bool = False, apart: bool = False
    ) -> None:
        """`of_codes`: sums are those of codes, which are multiplied with the scales of their rows; `apart`: also whole
        sums go to scratch memory."""
        self.anchor, self.part, self.graph, self.cut = anchor, part, body_of(node), cut
        self.of_codes, self.apart, self.whole = of_codes, apart, cut.parts == 1 and not apart
        self.type = c_type(anchor.output.type.dtype)
        self.code, self.operands = Code(), operands_of(node)
        self.body = Body(GPU_C, self.graph)

    @contextmanager
    def function(self, blocks: int, more: Sequence[str] = ()) -> Iterator[None]:
        """The kernel's function, with `more` parameters: a block of it does one of so many pieces of the work."""
        with kernel_body(self.code, [*self.operands, *self.scratch()], more=more):
            self.piece("BLOCK", blocks)
            yield

    def piece(self, number: str, blocks: int) -> None:
        """A piece of the work: `block` is which of so many it is, from `first` to `end` are its terms. `later`, where
        there is a tail, is negative for those before it."""
        code, k, cut, tail = self.code, self.part.sizes()[3], self.cut, self.cut.tail
        if tail is not None:
            code.line(f"const int later = {number} - {tail.first}, part = later < 0 ? 0 : later / {tail.tiles};")
            code.line(f"const int block = later < 0 ? {number} : {tail.first} + later % {tail.tiles};")
            code.line(f"const ptrdiff_t first = (ptrdiff_t)part * {cut.terms};")
            code.line(f"const ptrdiff_t end = later < 0 || first + {cut.terms} > {k} ? {k} : first + {cut.terms};")
        elif cut.parts == 1:
            code.line(f"const int block = {number}{', part = 0' if self.apart else ''};")
            code.line(f"const ptrdiff_t first = 0, end = {k};")
        else:
            code.line(f"const int part = {number} / {blocks}, block = {number} % {blocks};")
            code.line(f"const ptrdiff_t first = (ptrdiff_t)part * {cut.terms};")
            code.line(f"const ptrdiff_t end = first + {cut.terms} < {k} ? first + {cut.terms} : {k};")

    def scratch(self) -> list[tuple[str, TensorType, bool]]:
        """The operand beside those of the node, if there is one."""
        if self.cut.parts == 1 and not self.apart:
            return []
        tail = self.cut.tail
        of_each = self.part.sizes()[:3] if tail is None else (tail.tiles, tail.rows, tail.columns)
        shape = (self.cut.parts, *of_each)
        return [("scratch", TensorType(self.anchor.output.type.dtype, shape), True)]

    def digits(self, flat: str, axis: Axis) -> None:
        """Declare the digits of a flat index."""
        for digit, text in zip(axis, digits(flat, [digit.extent for digit in axis]), strict=True):
            self.code.line(f"const ptrdiff_t at_{digit.name} = {text};")

    def element(self, access: Access) -> str:
        """Expression of an element of an operand, at the digits that are declared."""
        made = self._made(access)
        if made is not None and decompresses(made):
            weight = Blocks.of(made)
            packed, scales = (self._name(one) for one in made.inputs)
            return weight.element(packed, scales, *_row_and_column(access, weight.columns))
        bits = self.bits(access)
        return bits if made is None else f"({GPU_C.widened[self.lies(access).dtype].format(bits)})"

    def bits(self, access: Access) -> str:
        """The same of an operand that lies in memory as numbers, as it lies there."""
        return f"{self.pointer(access)}[{element_offset(access)}]"

    def side(self, name: str) -> tuple[Access, Axis, str, int]:
        """The `left` or `right` operand, its axis beside k, the name of that axis's index, and its extent."""
        _, m, n, _ = self.part.sizes()
        return (self.part.left, self.part.m, "m", m) if name == "left" else (self.part.right, self.part.n, "n", n)

    @property
    def is_f32(self) -> bool:
        """Whether both operands lie in memory as f32 numbers."""
        sides = (self.part.left, self.part.right)
        return all(self._made(access) is None and self.lies(access).dtype is DType.F32 for access in sides)

    def codes_of(self, name: str) -> Blocks | None:
        """How the `left` or `right` operand lies in memory, if its rows, along k, are 8-bit floats with one scale."""
        access, axis, _, _ = self.side(name)
        made, k = self._made(access), self.part.sizes()[3]
        if made is None or not decompresses(made) or self.part.b or access.windows or access.base:
            return None
        found = Blocks.of(made)
        whole = found.format is BlockFormat.FP8 and found.blocks == 1 and found.row_bytes == found.columns == k
        right = access.linear(self.part.k) == 1 and access.linear(axis) == k
        return found if whole and right else None

    def _scale(self, name: str, row: str) -> str:
        """That of a row of the `left` or `right` operand."""
        made, codes = self._made(self.side(name)[0]), self.codes_of(name)
        assert made is not None and codes is not None
        return codes.scale(self._name(made.inputs[1]), row)

    def pointer(self, access: Access) -> str:
        """The name of an operand that lies in memory as numbers."""
        return self._name(self._source(access))

    def place_of(self, access: Access) -> int:
        """Which of a call's operands it is."""
        return self.graph.inputs.index(self._source(access))

    def lies_in_numbers(self, access: Access) -> bool:
        """Whether an operand lies in memory as numbers, one for each of its own."""
        made = self._made(access)
        return made is None or not decompresses(made)

    def lies(self, access: Access) -> TensorType:
        """As what an operand, or the integers that it is made of, lies in memory."""
        return self._source(access).type

    def _source(self, access: Access) -> Value:
        made = self._made(access)
        return self.anchor.inputs[access.operand] if made is None else made.inputs[0]

    def _made(self, access: Access) -> Node | None:
        """The node of the region that unpacks an operand, if there is one."""
        return unpacked(self.graph, self.anchor).get(self.anchor.inputs[access.operand])

    def _name(self, value: Value) -> str:
        return self.operands[self.graph.inputs.index(value)][0]

    def give(self, total: str) -> None:
        """What becomes of a sum, or of a part of one, of the element (b, m, n)."""
        if self.whole:
            self.finish(total)
        else:
            self.code.line(f"{self._part()} = {total};")

    def finish(self, total: str) -> None:
        """The region's epilogue on one element of the product, and its results."""
        for place, text in zip(self._results("n"), self._values(total, "n", {}), strict=True):
            self.code.line(f"{place} = {text};")

    def give_both(self, totals: str) -> None:
        """The same of two sums, from the pointer `totals` on, of (b, m, n) and (b, m, n + 1), where n is even. What
        lies in pairs in memory is read and written so."""
        code = self.code
        if not self.whole:
            code.line(f"STORE_RUN({self.type}, 2, &{self._part()}, {totals});")
            return
        values, pairs = list(self.graph.outputs.values()), dict[Value, str]()
        for value, (name, _, _) in self._read():
            if self._lies_in_pairs(value):
                pairs[value], type = f"pair{name[2:]}", GPU_C.type(value.type.dtype)
                code.line(f"{type} {pairs[value]}[2];")
                code.line(f"LOAD_RUN({type}, 2, {pairs[value]}, &{name}[{self._place(value, 'n')}]);")
        for index, value in enumerate(values):
            code.line(f"{GPU_C.type(value.type.dtype)} made{index}[2];")
        code.line("#pragma unroll")
        with code.block("for (int e = 0; e < 2; ++e)"):
            made = self._values(f"({totals})[e]", "(n + e)", {value: f"{name}[e]" for value, name in pairs.items()})
            for index, text in enumerate(made):
                code.line(f"made{index}[e] = {text};")
        for index, value in enumerate(values):
            if self._lies_in_pairs(value):
                type, place = GPU_C.type(value.type.dtype), self._results("n")[index]
                code.line(f"STORE_RUN({type}, 2, &{place}, made{index});")
                continue
            for e in range(2):
                code.line(f"{self._results(f'(n + {e})')[index]} = made{index}[{e}];")

    def _part(self) -> str:
        """Where a part of a sum goes."""
        (batch, m, n, _), tail = self.part.sizes(), self.cut.tail
        if tail is None:
            return f"scratch[(((ptrdiff_t)part * {batch} + b) * {m} + m) * {n} + n]"
        place = f"((ptrdiff_t)(part * {tail.tiles} + later % {tail.tiles}) * {tail.rows} + m % {tail.rows})"
        return f"scratch[{place} * {tail.columns} + n % {tail.columns}]"

    def epilogue(self) -> list[Node]:
        """The nodes of the region's epilogue."""
        return needed(list(self.graph.outputs.values()), self.graph, [self.anchor.output])

    def _read(self) -> list[tuple[Value, tuple[str, TensorType, bool]]]:
        """What they read from memory."""
        read = {value for node in self.epilogue() for value in node.inputs}
        return [one for one in zip(self.graph.inputs, self.operands, strict=False) if one[0] in read]

    def _values(self, total: str, n: str, there: Mapping[Value, str]) -> list[str]:
        """Compute the results of the element (b, m, n) of the product: their expressions. Some of what is read is
        `there`."""
        names = dict(self.body.names)
        if self.of_codes:
            total = f"({total} * ({self._scale('left', 'm')} * {self._scale('right', n)}))"
        self.body.names[self.anchor.output] = total
        for value, (name, _, _) in self._read():
            text = there.get(value, f"{name}[{self._place(value, n)}]")
            self.code.line(f"const {GPU_C.type(value.type.dtype)} x{name[2:]} = {text};")
            self.body.names[value] = f"x{name[2:]}"
        self.body.compute(self.code, self.epilogue())
        made = [self.body.names[value] for value in self.graph.outputs.values()]
        self.body.names = names
        return made

    def _results(self, n: str) -> list[str]:
        """Where they go."""
        results = self.operands[len(self.graph.inputs) :]
        values = self.graph.outputs.values()
        return [f"{name}[{self._place(value, n)}]" for value, (name, _, _) in zip(values, results, strict=False)]

    def steps(self, value: Value) -> tuple[Mapping[str, int], int]:
        """How far apart in memory neighbours along each digit are, of what belongs to elements of the product, and
        where it begins."""
        strides = broadcast_strides(value.type.shape, self.part.shape)
        base = sum(start * stride for start, stride in zip(self.part.origin, strides, strict=False))
        return self.part.steps(strides), base

    def _lies_in_pairs(self, value: Value) -> bool:
        """Whether what belongs to (b, m, n) and to (b, m, n + 1) lies side by side wherever n is even, the first at a
        multiple of both's bytes."""
        (steps, base), last = self.steps(value), self.part.n[-1]
        others = [step for name, step in steps.items() if name != last.name]
        return steps.get(last.name) == 1 and not any(number % 2 for number in (last.extent, base, *others))

    def _place(self, value: Value, n: str) -> str:
        """Expression of the offset of what belongs to element (b, m, n) of the product."""
        part, (steps, base) = self.part, self.steps(value)
        terms = []
        for flat, axis in (("b", part.b), ("m", part.m), (n, part.n)):
            for digit, text in zip(axis, digits(flat, [digit.extent for digit in axis]), strict=True):
                if steps.get(digit.name, 0):
                    terms.append(f"({text}) * {steps[digit.name]}")
        return " + ".join([*terms, str(base)])

    def kernel(self, stem: str, shared: int = 0, maps: Sequence[Map] = ()) -> Kernel:
        """The kernel whose text was written, which takes so many bytes of POOL and these maps."""
        types = ", ".join(str(value.type) for value in self.anchor.inputs)
        title = f"{self.anchor.op}({types}): b, m, n, k = {self.part.sizes()}"
        title += f" in {self.cut.parts} parts" if self.cut.parts > 1 else ""
        title += f", of {self.cut.tail}" if self.cut.tail is not None else ""
        weights = [Blocks.of(node) for node in self.graph.nodes if decompresses(node)]
        helpers = dict.fromkeys([*functions(self.body.needs), *(text for one in weights for text in one.helpers)])
        return kernel(f"{stem}_{self.anchor.op}", title, self.code.text(), helpers, shared, maps)


def multiplied(node: Node) -> list[Value]:
    """Those of a contraction region's inputs, as its body names them, of which a product's operands are made."""
    anchor, graph = anchor_of(node), body_of(node)
    of_product = {*anchor.inputs, *(value for one in unpacked(graph, anchor).values() for value in one.inputs)}
    return [value for value in graph.inputs if value in of_product]


def unpacked(body: Graph, anchor: Node) -> dict[Value, Node]:
    """The product's operands that a region makes of what is smaller in memory, and the node that makes each."""
    return {node.output: node for node in body.nodes if unpacks(node) and node.output in anchor.inputs}


def _row_and_column(access: Access, columns: int) -> tuple[str, str]:
    """Expressions of where an element of a weight lies, whose digits go along its rows or from row to row."""
    assert not access.windows, "a compressed operand is no image"
    steps = {name: divmod(stride, columns) for name, stride in access.strides.items() if stride}
    assert all(not row or not column for row, column in steps.values())
    row, column = ([f"at_{name} * {step[part]}" for name, step in steps.items() if step[part]] for part in (0, 1))
    first, second = divmod(access.base, columns)
    return " + ".join([*row, str(first)]), " + ".join([*column, str(second)])


def is_run(access: Access, axis: Axis) -> bool:
    """Whether neighbours along an axis are neighbours in memory, its last digit's at least."""
    if not axis:
        return False
    name = axis[-1].name
    steps = access.strides.get(name, 0) + sum(
        factor * window.stride for window in access.windows for term, factor in window.terms if term == name
    )
    return steps == 1


@contextmanager
def guarded(code: Code, conditions: Sequence[str]) -> Iterator[None]:
    """A block if there are conditions."""
    if not conditions:
        yield
        return
    with code.block(f"if ({' && '.join(conditions)})"):
        yield
