"""Kernels of `gradients` regions: both gradients of a depthwise convolution, and sums over pixels, in one pass over dy.

The first kernel walks the rows of the input gradient; each task adds up its own share of what belongs to a channel. The
second kernel adds the shares and finishes them."""

from __future__ import annotations

from dataclasses import replace

from ....ir import Node, Value
from ....passes.gradients import Gradients, Part
from ....plan.program import Kernel, Lowered
from ....targets import Target
from ...common.c_dialect import C, c_type
from ...common.expressions import Body
from ...common.indexing import broadcast_strides
from ...common.mathlib import functions
from ...common.region import body_of, inplace_pairs, needed
from ...common.scratch import aligned
from ..emit.bits import bit, is_bits
from ..emit.calls import PARALLEL_BYTES, call
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel
from .plan import Depthwise
from .rows import emit_row, emit_types, emit_weights

HEADER_BYTES = 64
"""Start of the workspace: the number of tasks that left partial sums."""
BLOCK = 64
"""Channels of a unit of work of the second kernel."""


def lower(node: Node, target: Target, threads: int) -> Lowered:
    """The two kernels of a gradients region."""
    writer = _Writer(node, target, threads)
    plan = writer.plan
    combining = plan.weight_bytes * (threads + len(node.inputs)) >= PARALLEL_BYTES
    calls = (
        call(node, writer.rows_kernel(), True, share=0.98),
        call(node, writer.sums_kernel(), True, combining, share=0.02),
    )
    return Lowered(calls, HEADER_BYTES + threads * writer.task_bytes, inplace_pairs(node, writer.overwritable()))


class _Writer:
    def __init__(self, node: Node, target: Target, threads: int) -> None:
        self.node, self.graph = node, body_of(node)
        found = Gradients.of(self.graph.nodes)
        assert found is not None
        self.gradients = found
        self.plan = replace(Depthwise.of(node, target, threads, anchor=found.dx), both=True)
        self.weights = replace(self.plan, anchor=found.dw)
        self.title = f"{[str(value.type) for value in (*found.dw.inputs, found.dx.inputs[1])]} {dict(found.dw.attrs)}"

    # a task's part of the workspace: [weights] [sums by tap, sum of dy, sum of the image] [tile]
    @property
    def sums_rows(self) -> int:
        return self.plan.tap_count + 2

    @property
    def sums_bytes(self) -> int:
        return aligned(4 * self.sums_rows * self.plan.channels)

    @property
    def task_bytes(self) -> int:
        return self.plan.weight_bytes + self.sums_bytes + self.plan.tile_bytes

    def results(self, part: Part) -> tuple[Value, ...]:
        """The outputs that one part writes."""
        return tuple(value for value in self.graph.outputs.values() if self.gradients.place(value) is part)

    def overwritable(self) -> list[tuple[int, int]]:
        """Outputs may take the place of what only their own part reads, element by element. The first kernel reads a
        row of x before it writes that row; the second one writes weights when nobody reads them any more."""
        users, places = self.graph.users(), [self.gradients.place(value) for value in self.graph.outputs.values()]
        pairs = []
        for i, operand in enumerate(self.graph.inputs):
            readers = {self._place(reader) for reader in users[operand]}
            if operand is not self.gradients.dx.inputs[0]:
                pairs += [(i, o) for o, place in enumerate(places) if readers <= {place}]
        return pairs

    def _place(self, reader: Node) -> Part:
        """The part whose outputs may overwrite what a node reads; of an anchor's operands other than dy."""
        anchors = {self.gradients.dw: Part.IMAGE, self.gradients.dx: Part.WEIGHTS}
        return anchors.get(reader) or self.gradients.place(reader.output)

    def _argument(self, value: Value) -> int:
        return self.graph.inputs.index(value)

    @property
    def workspace(self) -> str:
        return f"arg[{len(self.node.inputs) + len(self.node.outputs)}]"

    def rows_kernel(self) -> Kernel:
        """Rows of the input gradient, and each task's sums."""
        code, plan, c = Code(), self.plan, self.plan.channels
        (height, width), (p, q) = plan.result, plan.source
        emit_types(plan, code)
        needs = self._emit_image(code)
        for lanes, _, _ in plan.widths():
            emit_row(plan, code, lanes)
            self._emit_adding(code, lanes)
        with code.block(SIGNATURE):
            dy, given = (self._argument(value) for value in self.gradients.dx.inputs)
            code.line(f"const float *const dy = arg[{dy}], *const given = arg[{given}];")
            code.line(f"const float *const x = arg[{self._argument(self.gradients.dw.inputs[0])}];")
            code.line(
                f"char *const own = (char *){self.workspace} + {HEADER_BYTES} + task * (ptrdiff_t){self.task_bytes};"
            )
            code.line("float *const weights = (float *)(void *)own;")
            code.line(f"float *const sums = weights + {plan.weight_bytes // 4};")
            code.line(f"float *const tile = sums + {self.sums_bytes // 4};")
            code.line("if (task == 0)")
            code.line(f"    *(int64_t *){self.workspace} = tasks;")
            emit_weights(plan, code)
            with code.loop("i", self.sums_rows * c):
                code.line("sums[i] = 0.0f;")
            code.share(plan.batch * height)
            with code.loop("unit", "last", "first"):
                code.line(f"const float *const image = dy + unit / {height} * {p * q * c};")
                code.line(f"const ptrdiff_t row = unit % {height};")
                for lanes, start, end in plan.widths():
                    with code.block(f"for (ptrdiff_t c = {start}; c < {end}; c += {lanes})"):
                        code.line(
                            f"row_{lanes}(image + c, weights + c, tile, row, x + unit * {width * c} + c, sums + c);"
                        )
                        self._emit_finishing(code, lanes)
        title = f"both gradients of depthwise conv2d {self.title}"
        return kernel("depthwise_gradients", title, code.text(), functions(needs))

    def _emit_image(self, code: Code) -> set[str]:
        """Define `finish`, the image's epilogue; returns the math functions it needs."""
        made = self.gradients.image_sum
        kept = made.inputs[0] if made else None
        maps, columns = self.plan.maps(), self.plan.narrowest
        own = self.results(Part.IMAGE)
        image = Epilogue(self.graph, self.plan.anchor, maps, results=own, kept=kept, columns=columns)
        return image.emit(code)

    def _emit_adding(self, code: Code, lanes: int) -> None:
        """Define `add_LANES`, which adds up neighbouring pixels."""
        if not self.gradients.dy_sum and not self.gradients.image_sum:
            return
        vec = f"vec{lanes}"
        with code.block(f"static void\nadd_{lanes}(const float *from, ptrdiff_t count, ptrdiff_t step, float *to)"):
            code.line(f"{vec} sum = {'0.0f' if lanes == 1 else '{0}'};")
            with code.loop("i", "count"):
                code.line(f"sum += *(const {vec} *)(from + i * step);")
            code.line(f"*({vec} *)to += sum;")
        code.line()

    def _emit_finishing(self, code: Code, lanes: int) -> None:
        """A row of the image's epilogue, and the sums of this row and of the rows of dy that lie beside it."""
        plan, c = self.plan, self.plan.channels
        (height, width), (p, q) = plan.result, plan.source
        code.line(f"finish(arg, 0, unit * {width}, c, tile, {lanes}, {width}, {lanes});")
        if self.gradients.image_sum:
            code.line(f"add_{lanes}(tile, {width}, {lanes}, sums + {(plan.tap_count + 1) * c} + c);")
        if self.gradients.dy_sum:
            with code.loop("line", f"(unit + 1) * {p} / {height}", f"unit * {p} / {height}"):
                code.line(f"add_{lanes}(dy + line * {q * c} + c, {q}, {c}, sums + {plan.tap_count * c} + c);")

    def sums_kernel(self) -> Kernel:
        """Adds up the tasks' sums, and finishes what is made of them."""
        code, plan, c = Code(), self.plan, self.plan.channels
        maps, results = self.weights.maps(), self.results(Part.WEIGHTS)
        needs = Epilogue(self.graph, self.gradients.dw, maps, results=results).emit(code)
        body = Body(C, self.graph)
        with code.block(SIGNATURE):
            code.line(f"char *const workspace = {self.workspace};")
            code.line("const ptrdiff_t parts = *(const int64_t *)(const void *)workspace;")
            start = HEADER_BYTES + plan.weight_bytes
            code.line(f"float *const sums = (float *)(void *)(workspace + {start});")
            code.share(-(-c // BLOCK))
            with code.loop("unit", "last", "first"):
                code.line(f"const ptrdiff_t c0 = unit * {BLOCK}, c1 = {c} - c0 < {BLOCK} ? {c} : c0 + {BLOCK};")
                with code.loop("p", "parts", 1), code.loop("i", self.sums_rows):
                    code.line(f"float *const to = sums + i * {c};")
                    with code.loop("c", "c1", "c0", vectorize=True):
                        code.line(f"to[c] += to[p * {self.task_bytes // 4} + c];")
                code.line(f"finish(arg, 0, 0, c0, sums + c0, {c}, {plan.tap_count}, c1 - c0);")
                if self.results(Part.CHANNELS):
                    self._emit_channels(code, body)
        title = f"sums of both gradients of depthwise conv2d {self.title}"
        return kernel("depthwise_sums", title, code.text(), functions(needs | body.needs))

    def _emit_channels(self, code: Code, body: Body) -> None:
        """What is made of the sums over pixels, for channels c0 .. c1."""
        plan, c, results = self.plan, self.plan.channels, self.results(Part.CHANNELS)
        sums = [node for node in (self.gradients.dy_sum, self.gradients.image_sum) if node]
        nodes = needed(results, self.graph, [node.output for node in sums])
        read = {value for node in nodes for value in node.inputs}
        operands = [(i, value, False) for i, value in enumerate(self.graph.inputs) if value in read]
        outputs = enumerate(self.graph.outputs.values(), len(self.graph.inputs))
        operands += [(i, value, True) for i, value in outputs if value in results]
        for index, value, written in operands:
            type = f"{'' if written else 'const '}{c_type(value.type.dtype)}"
            code.line(f"{type} *const at{index} = arg[{index}];")
        with code.loop("c", "c1", "c0", vectorize=True):
            for node in sums:
                row = plan.tap_count + (node is self.gradients.image_sum)
                body.names[node.output] = f"sum{row - plan.tap_count}"
                code.line(f"const float {body.names[node.output]} = sums[{row * c} + c];")
            for index, value, written in operands:
                if not written:
                    place = "c" if broadcast_strides(value.type.shape, (1, 1, 1, c))[-1] else "0"
                    body.names[value] = f"x{index}"
                    text = bit(f"at{index}", place) if is_bits(value) else f"at{index}[{place}]"
                    code.line(f"const {c_type(value.type.dtype)} x{index} = {text};")
            body.compute(code, nodes)
            for index, value, written in operands:
                if written:
                    code.line(f"at{index}[c] = {body.names[value]};")
