"""What happens to a finished tile of a contraction: the region's elementwise epilogue, written to the outputs.

Emits one C function, `finish`, that walks a tile of `rows` x `cols` results and applies the body to each; other operands
are read, and outputs written, through index maps."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Graph, Node, Value
from .expressions import Body, needed
from .indexing import broadcast_strides, flat_offset
from .maps import Axis, Contraction
from .source import Code, c_type

FINISH = """static inline __attribute__((always_inline)) void
finish(void *const *arg, ptrdiff_t b, ptrdiff_t m0, ptrdiff_t n0, const float *tile, ptrdiff_t step, ptrdiff_t rows, ptrdiff_t cols)"""


@dataclass(frozen=True)
class Epilogue:
    """The body after the anchor; operands named by their position among the call's arguments."""

    graph: Graph
    anchor: Node
    contraction: Contraction

    def extra_inputs(self) -> list[tuple[int, Value]]:
        """(argument index, value) of the inputs that the epilogue reads."""
        nodes = needed(self.graph.outputs.values(), self.graph, [self.anchor.output])
        read = {value for node in nodes for value in node.inputs}
        return [(i, value) for i, value in enumerate(self.graph.inputs) if value in read]

    def emit(self, code: Code) -> set[str]:
        """Write `finish`; returns the math functions it needs."""
        body = Body(self.graph)
        outputs = [(len(self.graph.inputs) + i, value) for i, value in enumerate(self.graph.outputs.values())]
        operands = [(i, v, f"x{i}", False) for i, v in self.extra_inputs()]
        operands += [(i, v, f"out{i}", True) for i, v in outputs]
        strides = {name: self._steps(value) for _, value, name, _ in operands}
        along_n = self._inner_is_n(strides[operands[-1][2]])
        outer, inner = (("m", "rows"), ("n", "cols")) if along_n else (("n", "cols"), ("m", "rows"))
        with code.block(FINISH):
            with code.loop(outer[0], outer[1]):
                for index, value, name, written in operands:
                    fixed = [
                        self._offset("b", self.contraction.b, strides[name]),
                        self._offset(f"({outer[0]}0 + {outer[0]})", getattr(self.contraction, outer[0]), strides[name]),
                    ]
                    const = "" if written else "const "
                    offset = " + ".join(text for text in fixed if text != "0") or "0"
                    code.line(f"{const}{c_type(value.type.dtype)} *const {name}_row = ({const}{c_type(value.type.dtype)} *)arg[{index}] + {offset};")
                inner_axis = getattr(self.contraction, inner[0])
                offsets = {
                    name: self._offset(f"({inner[0]}0 + {inner[0]})", inner_axis, strides[name]) for _, _, name, _ in operands
                }
                for _, value, name, written in operands:
                    if offsets[name] == "0" and not written:
                        code.line(f"const {c_type(value.type.dtype)} {name} = {name}_row[0];")
                        body.names[value] = name
                with code.loop(inner[0], inner[1], vectorize=True):
                    code.line("const float product = tile[m * step + n];")
                    body.names[self.anchor.output] = "product"
                    for _, value, name, written in operands:
                        if offsets[name] != "0" and not written:
                            code.line(f"const {c_type(value.type.dtype)} {name} = {name}_row[{offsets[name]}];")
                            body.names[value] = name
                    body.compute(code, needed(self.graph.outputs.values(), self.graph, [self.anchor.output]))
                    for _, value, name, written in operands:
                        if written:
                            code.line(f"{name}_row[{offsets[name]}] = {body.names[value]};")
        code.line()
        return body.needs

    def _steps(self, value: Value) -> dict[str, int]:
        return self.contraction.steps(broadcast_strides(value.type.shape, self.contraction.shape))

    def _offset(self, flat: str, axis: Axis, steps: dict[str, int]) -> str:
        return flat_offset(flat, [d.extent for d in axis], [steps.get(d.name, 0) for d in axis])

    def _inner_is_n(self, steps: dict[str, int]) -> bool:
        """Whether an output's neighbours along n are neighbours in memory, or no axis has that property."""
        m, n = self.contraction.m, self.contraction.n
        return not (m and steps.get(m[-1].name, 0) == 1 and not (n and steps.get(n[-1].name, 0) == 1))
