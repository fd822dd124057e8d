"""C text that computes one row of a depthwise convolution's result, or of its input gradient.

It is a function for a block of channels. Where the plan asks for both gradients, it also adds the row's share to the
weight gradient."""

from __future__ import annotations

from contextlib import nullcontext

from ....ops import Convolution
from ..emit.source import Code
from .plan import Depthwise, Phase

COPIED = 16
"""Channels of groups whose weights are put in order at a time: they are read a few lines apart, and written a line at a
time."""


def emit_types(plan: Depthwise, code: Code) -> None:
    """Vectors of as many channels as blocks have."""
    for lanes in dict.fromkeys((plan.lanes, *(lanes for lanes, _, _ in plan.widths()))):
        vector = f"vec{lanes} __attribute__((vector_size({4 * lanes}), aligned(4), may_alias))"
        code.line(f"typedef float {vector if lanes > 1 else 'vec1'};")
    code.line()
    if plan.group > 1:
        for lanes, _, _ in plan.widths():
            _emit_spreads(plan, code, lanes)


def _emit_spreads(plan: Depthwise, code: Code, lanes: int) -> None:
    """Define `spreadLANES_J`: channel j of each group, in all of the group's lanes."""
    for j in range(plan.group):
        places = ", ".join(str(lane // plan.group * plan.group + j) for lane in range(lanes))
        with code.block(f"static inline __attribute__((always_inline)) vec{lanes}\nspread{lanes}_{j}(vec{lanes} x)"):
            code.line(f"return __builtin_shufflevector(x, x, {places});")
        code.line()


def spread(plan: Depthwise, lanes: int, j: int, x: str) -> str:
    """C expression of channel j of each group of a vector, in all of the group's lanes."""
    return f"spread{lanes}_{j}({x})" if plan.group > 1 else x


def emit_weights(plan: Depthwise, code: Code) -> None:
    """Copy `given` to `weights`, of which a vector has what its lanes are multiplied with: for the input gradient
    that of the group's channels which read the lane's."""
    c, group, taps = plan.channels, plan.group, plan.tap_count
    code.line("/* weights as [tap][channel of the group][channel] */")
    if group == 1:
        with code.loop("c", c), code.loop("t", taps):
            code.line(f"weights[t * {c} + c] = given[c * {taps} + t];")
        return
    source = f"(c * {group} + j)"
    if plan.convolution is Convolution.IMAGE_GRADIENT:
        source = f"((c / {group} * {group} + j) * {group} + c % {group})"
    with code.block(f"for (ptrdiff_t c0 = 0; c0 < {c}; c0 += {COPIED})"):
        code.line(f"const ptrdiff_t c1 = {c} - c0 < {COPIED} ? {c} : c0 + {COPIED};")
        with code.loop("t", taps), code.loop("j", group), code.loop("c", "c1", "c0"):
            code.line(f"weights[(t * {group} + j) * {c} + c] = given[{source} * {taps} + t];")


def emit_row(plan: Depthwise, code: Code, lanes: int) -> None:
    """Define `row_LANES`, which computes a row of the result for `lanes` channels and, for both gradients, adds the row
    `x` times what it meets of the source to `sums`, [tap][channel]."""
    width = plan.result[1]
    more = ",\n    const float *x, float *sums" if plan.both else ""
    header = f"static void\nrow_{lanes}(const float *image, const float *weights, float *tile, ptrdiff_t row{more})"
    with code.block(header):
        code.line(f"const float *line[{plan.taps[0]}], *factor[{plan.taps[0]}];")
        if plan.both:
            code.line(f"float *gradient[{plan.taps[0]}];")
        code.line("ptrdiff_t lines = 0;")
        with code.loop("r", plan.taps[0]):
            _source_row(plan, code)
            code.line(f"line[lines] = image + from * {plan.source[1] * plan.channels};")
            if plan.both:
                code.line(f"gradient[lines] = sums + r * {plan.taps[1] * plan.channels};")
            code.line(f"factor[lines++] = weights + r * {plan.taps[1] * plan.group * plan.channels};")
        for phase in plan.phases():
            low, high = phase.interior(width, plan.source[1])
            blocks_end = low + (high - low) // plan.pixels * plan.pixels
            rest = high - blocks_end if plan.group > 1 else 1
            with code.block(f"/* columns {phase.first} + {phase.step} t */"):
                for start, stop, pixels in ((low, blocks_end, plan.pixels), (blocks_end, high, rest)):
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
    if plan.convolution is Convolution.FORWARD:
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
    if plan.both and phase.taps:
        for i in range(pixels):
            code.line(f"const {vec} own{i} = *(const {vec} *)(x + {_column(phase, f't + {i}')} * {c});")
    if phase.taps:
        with code.loop("r", "lines"):
            code.line(f"const float *const at = line[r] + t * {phase.pace * c};")
            for j in range(plan.group):
                with code.block(f"/* channel {j} of each group */") if plan.group > 1 else nullcontext():
                    _taps(plan, code, phase, lanes, pixels, j)
    for i in range(pixels):
        code.line(f"*({vec} *)(tile + {_column(phase, f't + {i}')} * {lanes}) = sum{i};")


def _taps(plan: Depthwise, code: Code, phase: Phase, lanes: int, pixels: int, j: int) -> None:
    """What channel j of each group gives to some pixels through one row of taps."""
    c, vec = plan.channels, f"vec{lanes}"
    for s, _ in phase.taps:
        code.line(f"const {vec} w{s} = *(const {vec} *)(factor[r] + {(s * plan.group + j) * c});")
        if plan.both:
            code.line(f"{vec} d{s} = *({vec} *)(gradient[r] + {s * c});")
    for column in sorted({phase.pace * i + shift for i in range(pixels) for _, shift in phase.taps}):
        name = f"x{column}" if column >= 0 else f"x_{-column}"
        code.line(f"const {vec} {name} = {spread(plan, lanes, j, f'*(const {vec} *)(at + {column * c})')};")
        for i in range(pixels):
            for s, shift in phase.taps:
                if phase.pace * i + shift == column:
                    code.line(f"sum{i} += {name} * w{s};")
                    if plan.both:
                        code.line(f"d{s} += {name} * own{i};")
    if plan.both:
        for s, _ in phase.taps:
            code.line(f"*({vec} *)(gradient[r] + {s * c}) = d{s};")


def _edge(plan: Depthwise, code: Code, phase: Phase, lanes: int) -> None:
    """One column at the border, where some taps read outside the source. With several channels a group each tap has a
    sum of its own: so many additions would wait for each other."""
    c, vec = plan.channels, f"vec{lanes}"
    zero = "0.0f" if lanes == 1 else "{0}"
    parts = [f"sum{s if plan.group > 1 else ''}" for s, _ in phase.taps] or ["sum"]
    code.line(f"{vec} {', '.join(f'{part} = {zero}' for part in dict.fromkeys(parts))};")
    if plan.both and phase.taps:
        code.line(f"const {vec} own = *(const {vec} *)(x + {_column(phase, 't')} * {c});")
    for (s, shift), part in zip(phase.taps, parts, strict=False):
        code.line(f"const ptrdiff_t x{s} = t * {phase.pace} + {shift};")
        with code.block(f"if (x{s} >= 0 && x{s} < {plan.source[1]})"), code.loop("r", "lines"):
            code.line(f"const {vec} read = *(const {vec} *)(line[r] + x{s} * {c});")
            for j in range(plan.group):
                weight = f"*(const {vec} *)(factor[r] + {(s * plan.group + j) * c})"
                code.line(f"{part} += {spread(plan, lanes, j, 'read')} * {weight};")
            if plan.both:
                code.line(f"*({vec} *)(gradient[r] + {s * c}) += read * own;")
    code.line(f"*({vec} *)(tile + {_column(phase, 't')} * {lanes}) = {' + '.join(dict.fromkeys(parts))};")


def _column(phase: Phase, t: str) -> str:
    """C expression of a result column of a phase."""
    first = f"{phase.first} + " if phase.first else ""
    return f"({first}({t}) * {phase.step})" if phase.step > 1 else f"({t})"
