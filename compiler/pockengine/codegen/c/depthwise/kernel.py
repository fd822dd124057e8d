"""Kernels of convolutions with few channels a group, in NHWC: forward, input gradient and weight gradient.

Most are depthwise: one channel a group. They are vectorised along channels. Of a group with several channels, each in
turn is spread over the group's lanes.

Forward and input gradient are one template. Result columns that see the same taps, which is one set for each residue of
the column modulo the stride, are computed alike: each is a sum over taps of the source at a constant distance. The
epilogue is that of all contractions."""

from __future__ import annotations

from ....ir import Node
from ....plan.program import Lowered
from ....targets import Target
from ...common.mathlib import functions
from ...common.region import body_of, elementwise_pairs
from ..emit.calls import call
from ..emit.epilogue import Epilogue
from ..emit.source import SIGNATURE, Code, kernel
from .plan import Depthwise, DepthwiseTile, Phase
from .rows import emit_row, emit_types, emit_weights, spread

MOST_SUMS = 24
"""Of a weight gradient, in registers at a time."""


def tiles(node: Node, target: Target, threads: int) -> list[DepthwiseTile]:
    """What may be chosen for a region whose anchor is depthwise, the usual choice first."""
    usual = Depthwise.of(node, target, threads)
    narrow, wide, least = usual.lanes // 2, usual.lanes * 2, max(4, usual.group)
    most = max(target.vector_bytes // 4, usual.lanes) if usual.sums_filters else target.vector_bytes // 2
    lanes = [usual.lanes, *(one for one in (wide, narrow) if least <= one <= most)]
    pixels = [usual.pixels, usual.pixels * 2, usual.pixels // 2]
    return [DepthwiseTile(one, count) for one in lanes for count in pixels]


def lower(node: Node, target: Target, threads: int, tile: DepthwiseTile | None = None) -> Lowered:
    """Kernels of a contraction region whose anchor is depthwise."""
    if node.outputs[0].type.size == 0:
        return Lowered(())
    plan = Depthwise.of(node, target, threads, tile)
    code = Code()
    emit_types(plan, code)
    needs = Epilogue(body_of(node), plan.anchor, plan.maps(), columns=plan.narrowest).emit(code)
    if plan.sums_filters:
        _emit_weight_gradient(plan, code)
        workspace = plan.weight_bytes
    else:
        _emit_image(plan, code)
        workspace = plan.weight_bytes + plan.tile_bytes
    title = f"depthwise {plan.anchor.op} {[str(v.type) for v in plan.anchor.inputs]} {dict(plan.anchor.attrs)}"
    built = kernel(f"depthwise_{plan.anchor.op}", title, code.text(), functions(needs))
    return Lowered((call(node, built, True),), workspace * threads, elementwise_pairs(node, plan.anchor.inputs))


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
        emit_row(plan, code, lanes)
    with code.block(SIGNATURE):
        code.line(f"const float *const source = arg[{_argument(plan, 0)}], *const given = arg[{_argument(plan, 1)}];")
        code.line(f"float *const weights = (float *)(void *)({_workspace(plan, plan.weight_bytes + plan.tile_bytes)});")
        code.line(f"float *const tile = weights + {plan.weight_bytes // 4};")
        emit_weights(plan, code)
        code.share(plan.batch * height)
        with code.loop("unit", "last", "first"):
            code.line(f"const ptrdiff_t row = unit % {height};")
            code.line(f"const float *const image = source + unit / {height} * {plan.source[0] * plan.source[1] * c};")
            for lanes, start, end in plan.widths():
                with code.block(f"for (ptrdiff_t c = {start}; c < {end}; c += {lanes})"):
                    code.line(f"row_{lanes}(image + c, weights + c, tile, row);")
                    code.line(f"finish(arg, 0, unit * {width}, c, tile, {lanes}, {width}, {lanes});")


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
        with code.loop("i", plan.weight_rows * c):
            code.line("sums[i] = 0.0f;")
        with code.loop("row", plan.batch * p):
            code.line(f"const float *const image = source + row / {p} * {h * w * c};")
            with code.loop("r", plan.taps[0]):
                code.line(f"const ptrdiff_t from = row % {p} * {stride} + r * {dilation} - {top};")
                code.line(f"if (from < 0 || from >= {h})")
                code.line("    continue;")
                code.line(f"const float *const line = image + from * {w * c}, *const dy_line = dy + row * {q * c};")
                code.line(f"float *const to = sums + r * {plan.taps[1] * plan.group * c};")
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
                code.line(f"finish(arg, 0, 0, c, sums + c, {plan.channels}, {plan.weight_rows}, {lanes});")
            else:
                code.line(f"{function}_{lanes}({arguments});")
        done += count


def _emit_tap_row(plan: Depthwise, code: Code, lanes: int) -> None:
    """Adds one row of dy times one row of x to the sums of one row of taps: of so many channels of each group at a time
    that sums stay in registers."""
    most = max(1, MOST_SUMS // plan.taps[1])
    with code.block(f"static void\ntap_row_{lanes}(const float *line, const float *dy, float *sums)"):
        for start in range(0, plan.group, most):
            own = range(start, min(plan.group, start + most))
            with code.block("/* channels of each group: " + ", ".join(map(str, own)) + " */"):
                _emit_taps(plan, code, lanes, own)
    code.line()


def _emit_taps(plan: Depthwise, code: Code, lanes: int, own: range) -> None:
    c, q, w, vec = plan.channels, plan.result[1], plan.source[1], f"vec{lanes}"
    (_, stride), (_, left, _, _), (_, dilation) = plan.geometry.stride, plan.geometry.pad, plan.geometry.dilation
    taps = [(s, s * dilation - left) for s in range(plan.taps[1])]
    low, high = Phase(0, 1, stride, tuple(taps)).interior(q, w)
    zero = "0.0f" if lanes == 1 else "{0}"
    blocks_end = low + (high - low) // plan.pixels * plan.pixels
    for s, _ in taps:
        code.line(f"{vec} {', '.join(f'sum{s}_{j} = {zero}' for j in own)};")
    for start, stop, pixels in ((low, blocks_end, plan.pixels), (blocks_end, high, 1)):
        if start >= stop:
            continue
        with code.block(f"for (ptrdiff_t t = {start}; t < {stop}; t += {pixels})"):
            code.line(f"const float *const at = line + t * {stride * c};")
            for i in range(pixels):
                code.line(f"const {vec} g{i} = *(const {vec} *)(dy + (t + {i}) * {c});")
            for column in sorted({stride * i + shift for i in range(pixels) for _, shift in taps}):
                for j in own:
                    name = f"x{column}_{j}" if column >= 0 else f"x_{-column}_{j}"
                    code.line(f"const {vec} {name} = {spread(plan, lanes, j, f'*(const {vec} *)(at + {column * c})')};")
                    for i in range(pixels):
                        for s, shift in taps:
                            if stride * i + shift == column:
                                code.line(f"sum{s}_{j} += {name} * g{i};")
    for start, stop in ((0, low), (high, q)):
        if start < stop:
            with code.loop("t", stop, start):
                for s, shift in taps:
                    code.line(f"const ptrdiff_t x{s} = t * {stride} + {shift};")
                    with code.block(f"if (x{s} >= 0 && x{s} < {w})"):
                        for j in own:
                            read = spread(plan, lanes, j, f"*(const {vec} *)(line + x{s} * {c})")
                            code.line(f"sum{s}_{j} += {read} * *(const {vec} *)(dy + t * {c});")
    for s, _ in taps:
        for j in own:
            code.line(f"*({vec} *)(sums + {(s * plan.group + j) * c}) += sum{s}_{j};")
