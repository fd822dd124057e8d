"""Kernels of `row` regions (softmax, layer norm and its gradient, losses): several threads walk a row together, where
there are many elements by runs of neighbours.

A later walk computes again what an earlier one had: the operands are in memory, and nothing has to be kept between."""

from __future__ import annotations

from collections.abc import Collection

from ...ir import Graph, Node, Value
from ...ops import is_kind
from ...plan.program import Grid, Kernel, Lowered
from ...targets import Target
from ..common.c_dialect import c_type
from ..common.expressions import Body
from ..common.indexing import broadcast_strides, collapse, flat_offset
from ..common.mathlib import functions
from ..common.reductions import combine, identity
from ..common.region import inplace_pairs
from ..common.row_plan import RowPlan
from .dialect import GPU_C
from .pace import gpu_of
from .source import THREADS, Code, blocks_of, call, kernel, kernel_body, lies_in_runs, operands_of, run_of

SHORT = 32
"""Rows of up to so many elements have one thread each."""


def lower(node: Node, target: Target) -> Lowered:
    """Kernels of a row region."""
    plan = RowPlan.of(node)
    if plan.rows == 0 or all(value.type.size == 0 for value in node.outputs):
        return Lowered(())
    full = [value.type for value in (*plan.graph.inputs, *plan.graph.outputs.values()) if value in plan.full]
    run = run_of((plan.rows, plan.length), full, gpu_of(target)) if full and plan.length > SHORT else 1
    writer = _Writer(node, plan, run)
    grid = Grid(blocks_of(plan.rows, THREADS // writer.lanes), THREADS)
    made = call(node, writer.kernel(), grid)
    return Lowered((made,), 0, inplace_pairs(node, writer.overwritable()))


class _Writer:
    """`lanes` threads share a row, and a block has several rows; those of a row are neighbours. Each takes a `run` of
    elements at a time."""

    def __init__(self, node: Node, plan: RowPlan, run: int) -> None:
        self.node, self.plan, self.graph, self.run = node, plan, plan.graph, run
        self.lanes = 1 if plan.length <= SHORT else min(THREADS, 1 << (plan.length // run - 1).bit_length())
        self.body, self.code = Body(GPU_C, plan.graph), Code()
        self.operands = operands_of(node)
        count = len(plan.graph.inputs)
        self.inputs = {value: name for value, (name, _, _) in zip(plan.graph.inputs, self.operands, strict=False)}
        self.results = list(
            zip(plan.graph.outputs.values(), (name for name, _, _ in self.operands[count:]), strict=True)
        )

    def kernel(self) -> Kernel:
        """The text: `row` is the thread's row, one beyond the last where there is none: all must reach the barriers."""
        code, plan = self.code, self.plan
        with kernel_body(code, self.operands):
            self._shared()
            code.line(f"const ptrdiff_t lane = THREAD % {self.lanes};")
            code.line(f"const ptrdiff_t row = (ptrdiff_t)BLOCK * {THREADS // self.lanes} + THREAD / {self.lanes};")
            code.line(f"const ptrdiff_t length = row < {plan.rows} ? {plan.length} : 0;")
            code.line(f"const ptrdiff_t safe = row < {plan.rows} ? row : {plan.rows - 1};")
            for value, name in self.inputs.items():
                if value not in plan.full:
                    code.line(f"const {GPU_C.type(value.type.dtype)} {name}_0 = {name}[{self._start(value)}];")
                    self.body.names[value] = f"{name}_0"
            for number in range(plan.passes):
                self._pass(number)
            late = [(value, name) for value, name in self.results if value not in plan.full]
            if late:
                with code.block("if (lane == 0 && length > 0)"):
                    for value, name in late:
                        code.line(f"{name}[{self._start(value)}] = {self.body.names[value]};")
        title = f"row by row over {list(plan.space[: plan.split])} x {list(plan.space[plan.split :])}"
        return kernel("row", title, code.text(), functions(self.body.needs))

    def overwritable(self) -> list[tuple[int, int]]:
        """Pairs (input, output) of a row's elements whose input no walk reads after the one that writes the output, and
        of one number a row where all threads have read it by then: before the sums that make the output."""
        plan = self.plan
        reads = [self._read(number) for number in range(plan.passes)]
        pairs = []
        for o, value in enumerate(plan.graph.outputs.values()):
            for i, operand in enumerate(plan.graph.inputs):
                if (value in plan.full) != (operand in plan.full) or plan.length == 1:
                    continue
                if value not in plan.full or not any(operand in read for read in reads[plan.level[value] + 1 :]):
                    pairs.append((i, o))
        return pairs

    def _shared(self) -> None:
        """Memory for the sums of each type, one at a time."""
        types = {c_type(n.output.type.dtype) for n in self.graph.nodes if is_kind(n, "reduction")}
        for type in sorted(types) if self.lanes > 1 else ():
            self.code.line(f"SHARED {type} parts_{type}[{THREADS}];")

    def _wanted(self, number: int) -> tuple[list[Node], set[Value]]:
        """The reductions of a walk, and the values of a row's length that it must have."""
        plan = self.plan
        reductions = plan.reductions(number)
        wanted = {node.inputs[0] for node in reductions}
        wanted |= {value for value, _ in self.results if value in plan.full and plan.level[value] == number}
        return reductions, wanted

    def _read(self, number: int) -> set[Value]:
        """The operands that a walk reads."""
        _, wanted = self._wanted(number)
        nodes = _computed(self.graph, wanted, self.plan.full)
        return wanted | {value for node in nodes for value in node.inputs}

    def _pass(self, number: int) -> None:
        """Numbers of the row that are now known, then one walk over it."""
        plan, code, names = self.plan, self.code, self.body.names
        known = [n for n in self.graph.nodes if plan.level[n.output] == number and not is_kind(n, "reduction")]
        self.body.compute(code, [n for n in known if n.output not in plan.full])
        reductions, wanted = self._wanted(number)
        if not wanted:
            return
        for i, node in enumerate(reductions):
            code.line(f"{c_type(node.output.type.dtype)} sum{number}_{i} = {identity(node)};")
        before = dict(names)
        wanted_here = self._read(number)
        read = [(v, name) for v, name in self.inputs.items() if v in wanted_here and v in plan.full]
        written = [one for one in self.results if one[0] in plan.full and plan.level[one[0]] == number]
        with code.loop("j", "length", f"lane * {self.run}", self.lanes * self.run):
            for value, name in read if self.run > 1 else ():
                if self._lies_in_runs(value):
                    self._load(value, name)
            for value, name in written:
                code.line(f"{GPU_C.type(value.type.dtype)} {name}_run[{self.run}];")
            with code.neighbours("e", self.run):
                for value, name in read:
                    there = self.run > 1 and self._lies_in_runs(value)
                    text = f"{name}_run[e]" if there else f"{name}[{self._element(value, '(j + e)')}]"
                    code.line(f"const {GPU_C.type(value.type.dtype)} x{name[2:]} = {text};")
                    names[value] = f"x{name[2:]}"
                self.body.compute(code, _computed(self.graph, wanted, plan.full))
                for value, name in written:
                    code.line(f"{name}_run[e] = {names[value]};")
                for i, node in enumerate(reductions):
                    total = f"sum{number}_{i}"
                    code.line(f"{total} = {combine(node, total, names[node.inputs[0]])};")
            for value, name in written:
                type = GPU_C.type(value.type.dtype)
                code.line(f"STORE_RUN({type}, {self.run}, &{name}[{self._element(value, 'j')}], {name}_run);")
        names.clear()
        names.update(before)
        for i, node in enumerate(reductions):
            self._together(node, f"sum{number}_{i}")
            names[node.output] = f"sum{number}_{i}"

    def _together(self, node: Node, total: str) -> None:
        """Combine what the row's threads have, as a tree."""
        if self.lanes == 1:
            return
        code, parts = self.code, f"parts_{c_type(node.output.type.dtype)}"
        code.line(f"{parts}[THREAD] = {total};")
        code.line("BARRIER;")
        with code.block(f"for (int width = {self.lanes // 2}; width > 0; width /= 2)"):
            with code.block("if (lane < width)"):
                code.line(f"{parts}[THREAD] = {combine(node, f'{parts}[THREAD]', f'{parts}[THREAD + width]')};")
            code.line("BARRIER;")
        code.line(f"{total} = {parts}[THREAD - lane];")
        code.line("BARRIER;")

    def _start(self, value: Value) -> str:
        """Expression of the offset of the value's part of the thread's row."""
        outer = self.plan.space[: self.plan.split]
        strides = broadcast_strides(value.type.shape, self.plan.space)[: self.plan.split]
        return flat_offset("safe", outer, strides)

    def _element(self, value: Value, j: str) -> str:
        """Expression of the offset of its element `j`."""
        inner = self.plan.space[self.plan.split :]
        strides = broadcast_strides(value.type.shape, self.plan.space)[self.plan.split :]
        return f"{self._start(value)} + {flat_offset(j, inner, strides)}"

    def _load(self, value: Value, name: str) -> None:
        """A run of it, from element `j` on."""
        type = GPU_C.type(value.type.dtype)
        self.code.line(f"{type} {name}_run[{self.run}];")
        self.code.line(f"LOAD_RUN({type}, {self.run}, {name}_run, &{name}[{self._element(value, 'j')}]);")

    def _lies_in_runs(self, value: Value) -> bool:
        """Whether the elements of each run of a row lie side by side."""
        space, split = self.plan.space, self.plan.split
        strides = broadcast_strides(value.type.shape, space)
        inner, (along,) = collapse(space[split:], [strides[split:]])
        return len(inner) == 1 and lies_in_runs((*strides[:split], *along), self.run)


def _computed(graph: Graph, wanted: Collection[Value], full: Collection[Value]) -> list[Node]:
    """The nodes, in order, that make the wanted values of what is in memory and the numbers of the row."""
    needed, found = set(wanted), []
    for node in reversed(graph.nodes):
        if node.output in full and node.output in needed:
            found.append(node)
            needed |= set(node.inputs)
    return found[::-1]
