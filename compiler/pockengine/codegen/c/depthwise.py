"""Kernels of depthwise convolution in NHWC: forward, input gradient and weight gradient, vectorised along channels.

Forward and input gradient are one template: a row of the result is, per residue of its column, a sum over taps of a
row of the source at a constant distance. The epilogue is that of the other contractions."""

from __future__ import annotations

from dataclasses import dataclass

from ...ir import Node, Value
from ...ops.contraction import Geometry
from ...plan.schedule import aligned
from ...targets import Target
from ..backend import Lowered
from .contraction_plan import anchor_of
from .epilogue import Epilogue
from .maps import Access, Axis, Contraction, Digit
from .mathlib import functions
from .region import body_of, call, inplace_pairs
from .source import SIGNATURE, Code, kernel

PIXELS = 4
"""Neighbouring results computed together, unless measured otherwise: they share loads of the source and of the
weights."""


@dataclass(frozen=True)
class DepthwiseTile:
    """What can be chosen of a depthwise kernel: channels of a block (the widest one) and neighbouring results computed
    together."""

    lanes: int
    pixels: int


def fits(anchor: Node) -> bool:
    """Whether an anchor is a depthwise convolution (or gradient) with one filter per channel, in NHWC."""
    if anchor.op == "matmul" or anchor.attrs["layout"] != "NHWC":
        return False
    w = weights_of(anchor).type.shape
    return anchor.attrs["groups"] == w[0] > 1 and w[1] == 1 and w[2] * w[3] <= 49


def weights_of(anchor: Node) -> Value:
    """The weights, or their gradient."""
    return anchor.output if anchor.op == "conv2d_dw" else anchor.inputs[1]


@dataclass(frozen=True)
class Phase:
    """Result columns `first + step * t`: each sums tap s at source column `pace * t + shift`, over `taps` = (s,
    shift)."""

    first: int
    step: int
    pace: int
    taps: tuple[tuple[int, int], ...]

    def count(self, width: int) -> int:
        """Result columns of this phase."""
        return max(0, -(-(width - self.first) // self.step))

    def interior(self, width: int, source: int) -> tuple[int, int]:
        """The range of t in which every tap reads inside the source."""
        low = max((-(shift // self.pace) for _, shift in self.taps), default=0)
        high = min(((source - 1 - shift) // self.pace + 1 for _, shift in self.taps), default=self.count(width))
        low = min(max(0, low), self.count(width))
        return low, max(low, min(high, self.count(width)))


@dataclass(frozen=True)
class Depthwise:
    """Sizes of one kernel. `source` and `result` are (height, width) of the image read and the image written
    (forward and input gradient); in the weight gradient the image x and dy."""

    node: Node
    anchor: Node
    geometry: Geometry
    batch: int
    channels: int
    taps: tuple[int, int]
    source: tuple[int, int]
    result: tuple[int, int]
    lanes: int
    tasks: int
    pixels: int = PIXELS

    @classmethod
    def of(cls, node: Node, target: Target, threads: int, tile: DepthwiseTile | None = None) -> Depthwise:
        anchor = anchor_of(node)
        geometry = Geometry.of(anchor.attrs)
        n, c, h, w = geometry.nchw(anchor.inputs[0].type.shape)
        other = anchor.inputs[1] if anchor.op == "conv2d_dw" else anchor.output
        _, _, p, q = geometry.nchw(other.type.shape)
        taps = weights_of(anchor).type.shape[2:]
        if tile is not None:
            sizes = ((taps[0], taps[1]), (h, w), (p, q))
            return cls(node, anchor, geometry, n, c, *sizes, tile.lanes, threads, tile.pixels)
        lanes = target.vector_bytes // 4
        if anchor.op != "conv2d_dw" and target.registers >= 32 and c >= 2 * lanes:
            lanes *= 2  # two registers a value: whole pairs of cache lines at each pixel
        while anchor.op == "conv2d_dw" and -(-c // lanes) < threads and lanes > 4:
            lanes //= 2
        return cls(node, anchor, geometry, n, c, (taps[0], taps[1]), (h, w), (p, q), lanes, threads)

    @property
    def tap_count(self) -> int:
        return self.taps[0] * self.taps[1]

    def widths(self) -> list[tuple[int, int, int]]:
        """(lanes, first channel, end) of the runs of channel blocks: whole registers, then ever narrower ones."""
        found, start, lanes = [], 0, self.lanes
        while start < self.channels:
            count = (self.channels - start) // lanes
            if count:
                found.append((lanes, start, start + count * lanes))
                start += count * lanes
            lanes //= 2
        return found

    def phases(self) -> list[Phase]:
        """Forward: one phase. Input gradient: one per residue of the column modulo the stride."""
        (_, stride), (_, left, _, _), (_, dilation) = self.geometry.stride, self.geometry.pad, self.geometry.dilation
        if self.anchor.op == "conv2d":
            return [Phase(0, 1, stride, tuple((s, s * dilation - left) for s in range(self.taps[1])))]
        phases = []
        for residue in range(min(stride, self.result[1])):
            offsets = [(s, residue + left - s * dilation) for s in range(self.taps[1])]
            taps = tuple((s, offset // stride) for s, offset in offsets if offset % stride == 0)
            phases.append(Phase(residue, stride, 1, taps))
        return phases

    @property
    def weight_bytes(self) -> int:
        return aligned(4 * self.tap_count * self.channels)

    @property
    def tile_bytes(self) -> int:
        return aligned(4 * self.result[1] * self.lanes)

    def maps(self) -> Contraction:
        """The anchor's shape in terms of (m, n): pixels and channels, or taps and channels."""
        nothing = Access(0, {})
        if self.anchor.op == "conv2d_dw":
            m: Axis = (Digit("r", self.taps[0]), Digit("s", self.taps[1]))
            places = ((("c", 1),), (), (("r", 1),), (("s", 1),))
        else:
            m = (Digit("b", self.batch), Digit("p", self.result[0]), Digit("q", self.result[1]))
            places = ((("b", 1),), (("p", 1),), (("q", 1),), (("c", 1),))  # type: ignore[assignment]
        return Contraction(
            (), m, (Digit("c", self.channels),), (), nothing, nothing, self.anchor.output.type.shape, places
        )


def tiles(node: Node, target: Target, threads: int) -> list[DepthwiseTile]:
    """What may be chosen for a region whose anchor `fits`, the usual choice first."""
    usual = Depthwise.of(node, target, threads)
    narrow, wide = max(1, usual.lanes // 2), usual.lanes * 2
    most = max(target.vector_bytes // 4, usual.lanes) if usual.anchor.op == "conv2d_dw" else target.vector_bytes // 2
    lanes = [usual.lanes, *(one for one in (wide, narrow) if 4 <= one <= most)]
    pixels = [usual.pixels, usual.pixels * 2, usual.pixels // 2]
    return [DepthwiseTile(one, count) for one in lanes for count in pixels]


def lower(node: Node, target: Target, threads: int, tile: DepthwiseTile | None = None) -> Lowered:
    """Kernels of a contraction region whose anchor `fits`."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    plan = Depthwise.of(node, target, threads, tile)
    operands = set(plan.anchor.inputs)
    allowed = [
        (i, o)
        for i, value in enumerate(body_of(node).inputs)
        for o in range(len(node.outputs))
        if value not in operands and value.type.shape == node.outputs[o].type.shape
    ]
    code = Code()
    code.line(f"typedef float vec{plan.lanes} __attribute__((vector_size({4 * plan.lanes}), aligned(4), may_alias));")
    for lanes, _, _ in plan.widths():
        if lanes not in (plan.lanes, 1):
            code.line(f"typedef float vec{lanes} __attribute__((vector_size({4 * lanes}), aligned(4), may_alias));")
    if any(lanes == 1 for lanes, _, _ in plan.widths()):
        code.line("typedef float vec1;")
    code.line()
    needs = Epilogue(body_of(node), plan.anchor, plan.maps()).emit(code)
    if plan.anchor.op == "conv2d_dw":
        _emit_weight_gradient(plan, code)
        workspace = plan.weight_bytes
    else:
        _emit_image(plan, code)
        workspace = plan.weight_bytes + plan.tile_bytes
    title = f"depthwise {plan.anchor.op} {[str(v.type) for v in plan.anchor.inputs]} {dict(plan.anchor.attrs)}"
    built = kernel(f"depthwise_{plan.anchor.op}", title, code.text(), functions(needs))
    return Lowered((call(node, built, True),), workspace * threads, inplace_pairs(node, allowed))


def _argument(plan: Depthwise, operand: int) -> int:
    return body_of(plan.node).inputs.index(plan.anchor.inputs[operand])


def _workspace(plan: Depthwise, nbytes: int) -> str:
    index = len(plan.node.inputs) + len(plan.node.outputs)
    return f"(char *)arg[{index}] + task * (ptrdiff_t){nbytes}"


def _emit_image(plan: Depthwise, code: Code) -> None:
    """Forward and input gradient: for each row of the result and block of channels a tile [columns][lanes],
    finished."""
    (height, width), c = plan.result, plan.channels
    for lanes, _, _ in plan.widths():
        _emit_row(plan, code, lanes)
    with code.block(SIGNATURE):
        code.line(f"const float *const source = arg[{_argument(plan, 0)}], *const given = arg[{_argument(plan, 1)}];")
        code.line(f"float *const weights = (float *)(void *)({_workspace(plan, plan.weight_bytes + plan.tile_bytes)});")
        code.line(f"float *const tile = weights + {plan.weight_bytes // 4};")
        code.line("/* weights as [tap][channel] */")
        with code.loop("c", c), code.loop("t", plan.tap_count):
            code.line(f"weights[t * {c} + c] = given[c * {plan.tap_count} + t];")
        code.share(plan.batch * height)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t row = unit % {height};")
            code.line(f"const float *const image = source + unit / {height} * {plan.source[0] * plan.source[1] * c};")
            for lanes, start, end in plan.widths():
                with code.block(f"for (ptrdiff_t c = {start}; c < {end}; c += {lanes})"):
                    code.line(f"row_{lanes}(image + c, weights + c, tile, row);")
                    code.line(f"finish(arg, 0, unit * {width}, c, tile, {lanes}, {width}, {lanes});")


def _emit_row(plan: Depthwise, code: Code, lanes: int) -> None:
    """One row of the result for `lanes` channels."""
    width = plan.result[1]
    header = f"static void\nrow_{lanes}(const float *image, const float *weights, float *tile, ptrdiff_t row)"
    with code.block(header):
        code.line(f"const float *line[{plan.taps[0]}], *factor[{plan.taps[0]}];")
        code.line("ptrdiff_t lines = 0;")
        with code.loop("r", plan.taps[0]):
            _source_row(plan, code)
            code.line(f"line[lines] = image + from * {plan.source[1] * plan.channels};")
            code.line(f"factor[lines++] = weights + r * {plan.taps[1] * plan.channels};")
        for phase in plan.phases():
            low, high = phase.interior(width, plan.source[1])
            blocks_end = low + (high - low) // plan.pixels * plan.pixels
            with code.block(f"/* columns {phase.first} + {phase.step} t */"):
                for start, stop, pixels in ((low, blocks_end, plan.pixels), (blocks_end, high, 1)):
                    if start < stop:
                        with code.block(f"for (ptrdiff_t t = {start}; t < {stop}; t += {pixels})"):
                            _pixels(plan, code, phase, lanes, pixels)
                for start, stop in ((0, low), (high, phase.count(width))):
                    if start < stop:
                        with code.loop("t", stop, start):
                            _edge(plan, code, phase, lanes)
    code.line()


def _source_row(plan: Depthwise, code: Code) -> None:
    """Declare `from`, the source row that tap row r sees, or continue."""
    (stride, _), (top, _, _, _), (dilation, _) = plan.geometry.stride, plan.geometry.pad, plan.geometry.dilation
    if plan.anchor.op == "conv2d":
        code.line(f"const ptrdiff_t from = row * {stride} + r * {dilation} - {top};")
        code.line(f"if (from < 0 || from >= {plan.source[0]})")
    elif stride == 1:
        code.line(f"const ptrdiff_t from = row - r * {dilation} + {top};")
        code.line(f"if (from < 0 || from >= {plan.source[0]})")
    else:
        code.line(f"const ptrdiff_t scaled = row - r * {dilation} + {top}, from = scaled / {stride};")
        code.line(f"if (scaled < 0 || scaled % {stride} != 0 || from >= {plan.source[0]})")
    code.line("    continue;")


def _pixels(plan: Depthwise, code: Code, phase: Phase, lanes: int, pixels: int) -> None:
    c, vec = plan.channels, f"vec{lanes}"
    zero = "0.0f" if lanes == 1 else "{0}"
    code.line(f"{vec} {', '.join(f'sum{i} = {zero}' for i in range(pixels))};")
    if phase.taps:
        with code.loop("r", "lines"):
            code.line(f"const float *const at = line[r] + t * {phase.pace * c};")
            for s, _ in phase.taps:
                code.line(f"const {vec} w{s} = *(const {vec} *)(factor[r] + {s * c});")
            for column in sorted({phase.pace * i + shift for i in range(pixels) for _, shift in phase.taps}):
                name = f"x{column}" if column >= 0 else f"x_{-column}"
                code.line(f"const {vec} {name} = *(const {vec} *)(at + {column * c});")
                for i in range(pixels):
                    for s, shift in phase.taps:
                        if phase.pace * i + shift == column:
                            code.line(f"sum{i} += {name} * w{s};")
    for i in range(pixels):
        code.line(f"*({vec} *)(tile + ({phase.first} + (t + {i}) * {phase.step}) * {lanes}) = sum{i};")


def _edge(plan: Depthwise, code: Code, phase: Phase, lanes: int) -> None:
    """One column at the border, where some taps read outside the source."""
    c, vec = plan.channels, f"vec{lanes}"
    code.line(f"{vec} sum = {'0.0f' if lanes == 1 else '{0}'};")
    for s, shift in phase.taps:
        code.line(f"const ptrdiff_t x{s} = t * {phase.pace} + {shift};")
        with code.block(f"if (x{s} >= 0 && x{s} < {plan.source[1]})"), code.loop("r", "lines"):
            code.line(f"sum += *(const {vec} *)(line[r] + x{s} * {c}) * *(const {vec} *)(factor[r] + {s * c});")
    code.line(f"*({vec} *)(tile + ({phase.first} + t * {phase.step}) * {lanes}) = sum;")


def _emit_weight_gradient(plan: Depthwise, code: Code) -> None:
    """A task owns some blocks of channels and walks all rows of dy; sums lie in the workspace as [tap][channel]."""
    c, (p, q), (h, w) = plan.channels, plan.result, plan.source
    for lanes, _, _ in plan.widths():
        _emit_tap_row(plan, code, lanes)
    blocks = [(lanes, start) for lanes, first, end in plan.widths() for start in range(first, end, lanes)]
    (stride, _), (top, _, _, _), (dilation, _) = plan.geometry.stride, plan.geometry.pad, plan.geometry.dilation
    with code.block(SIGNATURE):
        code.line(f"const float *const source = arg[{_argument(plan, 0)}], *const dy = arg[{_argument(plan, 1)}];")
        code.line(f"float *const sums = (float *)(void *)({_workspace(plan, plan.weight_bytes)});")
        code.share(len(blocks))
        with code.loop("i", plan.tap_count * c):
            code.line("sums[i] = 0.0f;")
        with code.loop("row", plan.batch * p):
            code.line(f"const float *const image = source + row / {p} * {h * w * c};")
            with code.loop("r", plan.taps[0]):
                code.line(f"const ptrdiff_t from = row % {p} * {stride} + r * {dilation} - {top};")
                code.line(f"if (from < 0 || from >= {h})")
                code.line("    continue;")
                code.line(f"const float *const line = image + from * {w * c}, *const dy_line = dy + row * {q * c};")
                code.line(f"float *const to = sums + r * {plan.taps[1] * c};")
                _each_block(plan, code, "line + c, dy_line + c, to + c", "tap_row")
        code.line("/* apply the epilogue */")
        _each_block(plan, code, "", "finish")


def _each_block(plan: Depthwise, code: Code, arguments: str, function: str) -> None:
    """Call a function for each of this task's blocks of channels."""
    done = 0
    for lanes, first, end in plan.widths():
        count = (end - first) // lanes
        with code.block(f"for (ptrdiff_t i = first < {done} ? {done} : first; i < last && i < {done + count}; ++i)"):
            code.line(f"const ptrdiff_t c = {first} + (i - {done}) * {lanes};")
            if function == "finish":
                code.line(f"finish(arg, 0, 0, c, sums + c, {plan.channels}, {plan.tap_count}, {lanes});")
            else:
                code.line(f"{function}_{lanes}({arguments});")
        done += count


def _emit_tap_row(plan: Depthwise, code: Code, lanes: int) -> None:
    """Adds one row of dy times one row of x to the sums of one row of taps."""
    c, q, w, vec = plan.channels, plan.result[1], plan.source[1], f"vec{lanes}"
    (_, stride), (_, left, _, _), (_, dilation) = plan.geometry.stride, plan.geometry.pad, plan.geometry.dilation
    taps = [(s, s * dilation - left) for s in range(plan.taps[1])]
    low, high = Phase(0, 1, stride, tuple(taps)).interior(q, w)
    zero = "0.0f" if lanes == 1 else "{0}"
    blocks_end = low + (high - low) // plan.pixels * plan.pixels
    with code.block(f"static void\ntap_row_{lanes}(const float *line, const float *dy, float *sums)"):
        code.line(f"{vec} {', '.join(f'sum{s} = {zero}' for s, _ in taps)};")
        for start, stop, pixels in ((low, blocks_end, plan.pixels), (blocks_end, high, 1)):
            if start >= stop:
                continue
            with code.block(f"for (ptrdiff_t t = {start}; t < {stop}; t += {pixels})"):
                code.line(f"const float *const at = line + t * {stride * c};")
                for i in range(pixels):
                    code.line(f"const {vec} g{i} = *(const {vec} *)(dy + (t + {i}) * {c});")
                for column in sorted({stride * i + shift for i in range(pixels) for _, shift in taps}):
                    name = f"x{column}" if column >= 0 else f"x_{-column}"
                    code.line(f"const {vec} {name} = *(const {vec} *)(at + {column * c});")
                    for i in range(pixels):
                        for s, shift in taps:
                            if stride * i + shift == column:
                                code.line(f"sum{s} += {name} * g{i};")
        for start, stop in ((0, low), (high, q)):
            if start >= stop:
                continue
            with code.loop("t", stop, start):
                for s, shift in taps:
                    code.line(f"const ptrdiff_t x{s} = t * {stride} + {shift};")
                    code.line(f"if (x{s} >= 0 && x{s} < {w})")
                    code.line(f"    sum{s} += *(const {vec} *)(line + x{s} * {c}) * *(const {vec} *)(dy + t * {c});")
        for s, _ in taps:
            code.line(f"*({vec} *)(sums + {s * c}) += sum{s};")
    code.line()
