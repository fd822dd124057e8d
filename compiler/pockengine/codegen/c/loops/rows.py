"""Kernels of `row` regions (softmax, layer norm and its gradient, losses): one row is finished before the next.

A row is walked several times. Each walk computes what needs only the reductions before it, adds to the reductions that
it feeds, and leaves in the workspace what a later walk of the row reads."""

from __future__ import annotations

from collections.abc import Collection

from ....ir import Node, Value
from ....ops import is_kind
from ....plan.program import Kernel, Lowered
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.indexing import broadcast_strides, flat_offset
from ...common.mathlib import functions
from ...common.reductions import combine, identity
from ...common.region import inplace_pairs
from ...common.row_plan import RowPlan
from ..emit.bits import block_of, declare_row, element, is_bits, load_word, of_word
from ..emit.calls import call, input_names, output_names
from ..emit.source import SIGNATURE, VECTORIZE, Code, declare, kernel

LANES = 32
"""Accumulators of a reduction: enough vectors in flight to hide the latency of an addition on every target."""


def lower(node: Node, threads: int) -> Lowered:
    """Kernels of a row region."""
    plan = RowPlan.of(node)
    if plan.rows == 0 or all(value.type.size == 0 for value in node.outputs):
        return Lowered(())
    source = _Writer(node, plan).kernel()
    per_task = sum(plan.temporary_bytes(value) for value in plan.temporaries)
    return Lowered(
        (call(node, source, workspace=per_task > 0, parallel=None if plan.rows > 1 else False),),
        per_task * threads,
        inplace_pairs(node, plan.overwritable()),
    )


class _Writer:
    def __init__(self, node: Node, plan: RowPlan) -> None:
        self.node, self.plan, self.graph = node, plan, plan.graph
        self.body, self.code = Body(C, plan.graph), Code()
        self.operands = dict(zip(self.graph.inputs, input_names(node), strict=True))
        self.results = dict(zip(output_names(node), self.graph.outputs.values(), strict=True))
        self.temporaries = {value: f"temp{i}" for i, value in enumerate(plan.temporaries)}

    def kernel(self) -> Kernel:
        code, plan = self.code, self.plan
        with code.block(SIGNATURE):
            inputs = [(name, value.type, False) for value, name in self.operands.items()]
            declare(code, inputs + [(name, value.type, True) for name, value in self.results.items()])
            self._declare_temporaries(len(inputs) + len(self.results))
            code.share(plan.rows)
            with code.loop("row", "last", "first"):
                self._row_pointers()
                for number in range(plan.passes):
                    self._pass(number)
                for name, value in self.results.items():
                    if value not in plan.full:
                        code.line(f"{name}_row[0] = {self.body.names[value]};")
        title = f"row by row over {list(plan.space[: plan.split])} x {list(plan.space[plan.split :])}"
        return kernel("row", title, code.text(), functions(self.body.needs))

    def _declare_temporaries(self, index: int) -> None:
        total = sum(self.plan.temporary_bytes(value) for value in self.temporaries)
        offset = 0
        for value, name in self.temporaries.items():
            type = c_type(value.type.dtype)
            start = f"(char *)arg[{index}] + task * (ptrdiff_t){total} + {offset}"
            self.code.line(f"{type} *const {name} = ({type} *)(void *)({start});")
            offset += self.plan.temporary_bytes(value)

    def _row_pointers(self) -> None:
        plan = self.plan
        outer = plan.space[: plan.split]
        named = [(name, value) for value, name in self.operands.items()] + list(self.results.items())
        for name, value in named:
            strides = broadcast_strides(value.type.shape, plan.space)[: plan.split]
            declare_row(self.code, value, name, flat_offset("row", outer, strides), name in self.results)
            if 0 in plan.space[plan.split :]:
                self.code.line(f"(void){name}_row;")  # an empty row has no element to read
        for value, name in self.operands.items():
            if value not in plan.full:
                self.code.line(f"const {c_type(value.type.dtype)} {name}_0 = {element(value, name, '0')};")
                self.body.names[value] = f"{name}_0"

    def _pass(self, number: int) -> None:
        """Scalars that are now known, then one walk over the row."""
        plan, code = self.plan, self.code
        here = [n for n in self.graph.nodes if plan.level[n.output] == number and not is_kind(n, "reduction")]
        self.body.compute(code, [n for n in here if n.output not in plan.full])
        reductions = plan.reductions(number)
        wanted = {node.inputs[0] for node in reductions}
        wanted |= {v for v in (*self.results.values(), *self.temporaries) if v in plan.full and plan.level[v] == number}
        if not wanted and not reductions:
            return
        nodes = self._needed(here, wanted)
        for i, node in enumerate(reductions):
            self.body.names[node.output] = f"sum{number}_{i}"
            self._open(node, f"acc{number}_{i}")
        masks = [value for value in self.operands if is_bits(value) and self._in_words(value)]
        lanes = bool(reductions or masks)
        main = plan.length // LANES * LANES if lanes else plan.length
        if main:
            if lanes:
                with code.block(f"for (ptrdiff_t start = 0; start < {main}; start += {LANES})"):
                    self._walk(number, nodes, reductions, f"{LANES}", "start + lane", masks)
            else:
                self._walk(number, nodes, reductions, f"{main}", "lane")
        if plan.length > main:
            self._walk(number, nodes, reductions, f"{plan.length - main}", f"{main} + lane")
        for i, node in enumerate(reductions):
            self._close(node, f"acc{number}_{i}", f"sum{number}_{i}")

    def _needed(self, here: list[Node], wanted: set[Value]) -> list[Node]:
        """The full nodes of this pass that `wanted` depends on."""
        wanted = set(wanted)
        found = []
        for node in reversed(here):
            if node.output in self.plan.full and node.output in wanted:
                found.append(node)
                wanted |= set(node.inputs)
        return found[::-1]

    def _in_words(self, value: Value) -> bool:
        """Whether a mask of bits is read a word for all lanes: it lies along the row, and each row begins a word."""
        plan, strides = self.plan, broadcast_strides(value.type.shape, self.plan.space)
        along = self._within(value) == "j"
        return along and block_of([LANES, *strides[: plan.split]]) == LANES

    def _walk(
        self,
        number: int,
        nodes: list[Node],
        reductions: list[Node],
        count: str,
        index: str,
        words: Collection[Value] = (),
    ) -> None:
        plan, code, names = self.plan, self.code, self.body.names
        before = dict(names)
        read = {value for node in (*nodes, *reductions) for value in node.inputs}
        read |= {v for v in self.results.values() if v in plan.full and plan.level[v] == number}
        for value in words:
            if value in read:
                load_word(code, self.operands[value], "start", LANES)
        code.line(VECTORIZE)
        with code.block(f"for (ptrdiff_t lane = 0; lane < {count}; ++lane)"):
            if not plan.full.isdisjoint(read):
                code.line(f"const ptrdiff_t j = {index};")
            for value in sorted((v for v in read if v in plan.full), key=lambda v: v.name):
                if value in self.operands:
                    name = self.operands[value]
                    text = of_word(name) if value in words else element(value, name, self._within(value))
                    code.line(f"const {c_type(value.type.dtype)} x{name[2:]} = {text};")
                    names[value] = f"x{name[2:]}"
                elif value in self.temporaries and plan.level[value] < number:
                    name = self.temporaries[value]
                    code.line(f"const {c_type(value.type.dtype)} {name}_j = {name}[j];")
                    names[value] = f"{name}_j"
            self.body.compute(code, nodes)
            for value, name in self.temporaries.items():
                if plan.level[value] == number:
                    code.line(f"{name}[j] = {names[value]};")
            for name, value in self.results.items():
                if value in plan.full and plan.level[value] == number:
                    code.line(f"{name}_row[{self._within(value)}] = {names[value]};")
            for i, node in enumerate(reductions):
                accumulator = f"acc{number}_{i}[lane]"
                code.line(f"{accumulator} = {combine(node, accumulator, names[node.inputs[0]])};")
        names.clear()
        names.update(before)

    def _within(self, value: Value) -> str:
        plan = self.plan
        strides = broadcast_strides(value.type.shape, plan.space)[plan.split :]
        return flat_offset("j", plan.space[plan.split :], strides)

    def _open(self, node: Node, name: str) -> None:
        start = identity(node)
        self.code.line(f"{c_type(node.output.type.dtype)} {name}[{LANES}];")
        with self.code.loop("lane", LANES):
            self.code.line(f"{name}[lane] = {start};")

    def _close(self, node: Node, name: str, result: str) -> None:
        """Combine the lanes as a tree, so that the sum's error stays small."""
        width = LANES // 2
        with (
            self.code.block(f"for (ptrdiff_t width = {width}; width > 0; width /= 2)"),
            self.code.loop("lane", "width"),
        ):
            self.code.line(f"{name}[lane] = {combine(node, f'{name}[lane]', f'{name}[lane + width]')};")
        self.code.line(f"const {c_type(node.output.type.dtype)} {result} = {name}[0];")
