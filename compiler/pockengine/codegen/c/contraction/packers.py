"""Packers: they copy a block of an operand, through its index map, into the order in which the micro-kernel reads."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...common.index_maps import Access, Axis, Window
from ...common.indexing import digits, dot
from ..emit.operands import Operand, Source
from ..emit.source import Code
from .reading import contiguous, storage_order, window_run


@dataclass(frozen=True)
class Packer:
    """Packs `across` x `k` of an operand. Element (x, k) goes to `dst[(x - x0) * x_step + (k - k0) * k_step]`."""

    name: str
    operand: Operand
    across: Axis
    k: Axis
    x_step: int
    k_step: int
    lanes: int
    whole: bool
    count: int | None = None
    type: str = "float"

    @property
    def access(self) -> Access:
        """How the operand itself would be read."""
        return self.operand.access

    @property
    def sources(self) -> tuple[Source, ...]:
        """What is read."""
        return self.operand.sources

    def emit(self, code: Code) -> None:
        """Define `static void NAME(const float *src, float *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t
        k1)`, with one pointer for each source; `type` is that of dst, where it is not float, see `narrow.declarations`.

        `whole` says that k0 .. k1 is always all of k, `count` that x1 - x0 is always this."""
        header = "static __attribute__((noinline)) void\n"
        header += f"{self.name}({self.operand.parameters}, {self.type} *dst, "
        header += "ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)"
        order = self._storage_order()
        with code.block(header):
            if order is not None:
                self._turn(code, order)
            elif self.count is not None and self._is_matrix():
                with code.loop("k", "k1", "k0"):
                    for s in self.sources:
                        offset = dot(["k", "x0"], [s.access.linear(axis) or 0 for axis in (self.k, self.across)])
                        code.line(f"const {s.type} *const from{s.suffix} = src{s.suffix} + {offset};")
                    code.line(f"{self.type} *const to = dst + (k - k0) * {self.k_step};")
                    self._copy(
                        code, str(self.count), "to", 1, [s.access.linear(self.across) or 0 for s in self.sources]
                    )
            elif self.inner_is_k():
                self._walk(code, "x", self.across, self.x_step, "k", self.k, self.k_step)
            else:
                self._walk(code, "k", self.k, self.k_step, "x", self.across, self.x_step)
        code.line()

    @property
    def turns(self) -> bool:
        """Whether the packer calls `transpose`, which `transposition` defines."""
        return self._storage_order() is not None

    def _is_matrix(self) -> bool:
        """Whether the operand is a matrix whose rows lie along `across`."""
        return self.x_step == 1 and self.access.linear(self.across) == 1 and self._are_linear(self.across, self.k)

    def _are_linear(self, *axes: Axis) -> bool:
        """Whether each axis is one loop in the operand and in all that is read."""
        accesses = (self.access, *(source.access for source in self.sources))
        return all(access.linear(axis) is not None for access in accesses for axis in axes)

    def inner_is_k(self) -> bool:
        """Whether to walk along k inside: where memory is contiguous, else where the steps are shorter."""
        if contiguous(self.access, self.k) or contiguous(self.access, self.across):
            return contiguous(self.access, self.k)
        steps = [self.access.strides.get(axis[-1].name, 0) if axis else 0 for axis in (self.k, self.across)]
        return steps[0] <= steps[1]

    def _storage_order(self) -> Axis | None:
        """See `storage_order`; None also when vectors lie along k, k is shorter than one, or numbers are converted."""
        if self.k_step == 1 or self.type != "float" or math.prod(digit.extent for digit in self.k) < self.lanes:
            return None
        order = storage_order(self.access, self.across, self.k, self.whole)
        return order if order is not None and self._are_linear(self.across, order) else None

    def _turn(self, code: Code, order: Axis) -> None:
        """Blocks of `lanes` x `lanes`; what is left over goes one by one."""
        lanes = self.lanes
        steps = [(s.access.linear(self.across) or 0, s.access.linear(order) or 0) for s in self.sources]
        for s, step in zip(self.sources, steps, strict=True):
            code.line(f"const {s.type} *const first{s.suffix} = src{s.suffix} + {dot(['x0', 'k0'], step)};")

        def read(x: str, k: str) -> list[str]:
            places = [dot([x, k], step) for step in steps]
            return [f"first{s.suffix}[{place}]" for s, place in zip(self.sources, places, strict=True)]

        with code.block(f"for (ptrdiff_t x = 0; x < x1 - x0; x += {lanes})"):
            code.line(f"const ptrdiff_t rows = x1 - x0 - x < {lanes} ? x1 - x0 - x : {lanes};")
            code.line("ptrdiff_t k = 0;")
            with code.block(f"for (; k + {lanes} <= k1 - k0 && rows == {lanes}; k += {lanes})"):
                code.line(f"vec block[{lanes}];")
                with code.loop("i", lanes):
                    if self.operand.prologue is None:
                        code.line(f"block[i] = *(const vec *)(first + {dot(['x + i', 'k'], steps[0])});")
                    else:
                        code.line(f"float row[{lanes}] __attribute__((aligned(64)));")
                        with code.loop("j", lanes, vectorize=True):
                            code.line(f"row[j] = {self.operand.element(code, read('x + i', 'k + j'))};")
                        code.line("block[i] = *(const vec *)row;")
                code.line("transpose(block);")
                with code.loop("i", lanes):
                    code.line(f"*(vec *)(dst + {self._place(order, '(k + i)')} * {self.k_step} + x) = block[i];")
            with code.block("for (; k < k1 - k0; ++k)"), code.loop("i", "rows"):
                value = self.operand.element(code, read("x + i", "k"))
                code.line(f"dst[{self._place(order, 'k')} * {self.k_step} + x + i] = {value};")

    def _place(self, order: Axis, at: str) -> str:
        """C expression of the index k of the element that lies `at` elements from the start in memory."""
        if order == self.k:
            return at
        below = {d.name: math.prod(e.extent for e in self.k[i + 1 :]) for i, d in enumerate(self.k)}
        return f"({dot(digits(at, [d.extent for d in order]), [below[d.name] for d in order])})"

    def _walk(
        self, code: Code, slow: str, slow_axis: Axis, slow_step: int, fast: str, fast_axis: Axis, fast_step: int
    ) -> None:
        """Run along the fast axis's last digit; everything else is decoded once per run."""
        row = None if self.operand.prologue else window_run(self.access, fast_axis)
        inside = fast_axis and not self.access.touches(fast_axis[-1:])
        run_axis = fast_axis[-2:] if row else fast_axis[-1:] if inside else ()
        outer_axis = fast_axis[: len(fast_axis) - len(run_axis)]
        run = max(1, math.prod(digit.extent for digit in run_axis))
        steps = [s.access.strides.get(run_axis[-1].name, 0) if run_axis else 0 for s in self.sources]
        with code.loop(slow, f"{slow}1", f"{slow}0"):
            names = self._decode(code, slow, slow_axis)
            for s in self.sources:
                code.line(f"const {s.type} *const line{s.suffix} = src{s.suffix} + {_offset(s.access, names)};")
            code.line(f"{self.type} *out = dst + ({slow} - {slow}0) * {slow_step};")
            with code.block(f"for (ptrdiff_t {fast} = {fast}0; {fast} < {fast}1;)"):
                code.line(f"const ptrdiff_t at = {fast} % {run}, left = {run} - at;")
                code.line(f"const ptrdiff_t count = left < {fast}1 - {fast} ? left : {fast}1 - {fast};")
                inner = self._decode(code, f"({fast} / {run})" if run > 1 else fast, outer_axis)
                valid, coordinates = self._windows(code, {**names, **inner}, row)
                if row:
                    self._clip(code, row, run_axis, {**names, **inner})
                for s, step in zip(self.sources, steps, strict=True):
                    offsets = [_offset(s.access, inner), dot(["at"], [step])]
                    strides = [s.access.windows[index].stride for index in coordinates]
                    offsets += [
                        dot([name], [stride]) for name, stride in zip(coordinates.values(), strides, strict=True)
                    ]
                    offsets += [dot(["start"], [row.stride])] if row else []
                    offset = " + ".join(o for o in offsets if o != "0") or "0"
                    code.line(f"const {s.type} *const from{s.suffix} = line{s.suffix} + {offset};")
                whole = [valid, "low <= at && at + count <= high"] if row else [valid]
                conditions = " && ".join(part for part in whole if part)
                if conditions:
                    with code.block(f"if ({conditions})"):
                        self._copy(code, "count", "out", fast_step, steps)
                    if row:
                        with code.block(f"else if ({valid or '1'})"), code.loop("i", "count"):
                            kept = f"low <= at + i && at + i < high ? from[{dot(['i'], steps)}] : 0.0f"
                            code.line(f"out[{dot(['i'], [fast_step])}] = {self._converted(f'({kept})')};")
                    with code.block("else"):
                        self._copy(code, "count", "out", fast_step, None)
                else:
                    self._copy(code, "count", "out", fast_step, steps)
                code.line(f"out += count * {fast_step};")
                code.line(f"{fast} += count;")

    def _clip(self, code: Code, row: Window, run: Axis, names: dict[str, str]) -> None:
        """Declare `start`, and `low` and `high`, the part of a run of taps and channels that lies inside the image."""
        taps, channels = run
        terms = [(name, factor) for name, factor in row.terms if name != taps.name]
        start = dot([names[name] for name, _ in terms], [factor for _, factor in terms], row.offset)
        code.line(f"const ptrdiff_t start = {start}, rest = {row.extent} - start;")
        code.line(f"const ptrdiff_t low = start < 0 ? -start * {channels.extent} : 0;")
        code.line(f"const ptrdiff_t high = (rest < {taps.extent} ? rest : {taps.extent}) * {channels.extent};")

    def _copy(self, code: Code, count: str, to: str, to_step: int, steps: list[int] | None) -> None:
        """A run of what is read, in `steps`, or of zeros."""
        if self.type != "float" and self.operand.prologue is None and (to_step, steps) == (1, [1]):
            code.line(f"narrow(from, {to}, {count});")
            return
        with code.loop("i", count, vectorize=True):
            value = "0.0f"
            if steps is not None:
                read = [f"from{s.suffix}[{dot(['i'], [step])}]" for s, step in zip(self.sources, steps, strict=True)]
                value = self.operand.element(code, read)
            code.line(f"{to}[{dot(['i'], [to_step])}] = {self._converted(value)};")

    def _converted(self, value: str) -> str:
        return value if self.type == "float" else f"({self.type}){value}"

    def _decode(self, code: Code, flat: str, axis: Axis) -> dict[str, str]:
        """Declare the digits of a flat index; digit name -> C name."""
        names = {}
        for digit, text in zip(axis, digits(flat, [d.extent for d in axis]), strict=True):
            if self.access.touches((digit,)) or any(s.access.strides.get(digit.name) for s in self.sources):
                code.line(f"const ptrdiff_t {digit.name}_ = {text};")
                names[digit.name] = f"{digit.name}_"
        return names

    def _windows(self, code: Code, names: dict[str, str], but: Window | None) -> tuple[str, dict[int, str]]:
        """Declare the coordinates of all windows but one; returns the condition under which they are valid, and their
        names by the windows' places."""
        conditions, coordinates = [], dict[int, str]()
        for place, window in enumerate(self.access.windows):
            if window is but:
                continue
            name = coordinates[place] = f"at{len(coordinates)}"
            position = dot([names[n] for n, _ in window.terms], [c for _, c in window.terms], window.offset)
            code.line(f"const ptrdiff_t {name} = {position};")
            conditions.append(f"{name} >= 0 && {name} < {window.extent}")
        return " && ".join(conditions), coordinates


def _offset(access: Access, names: dict[str, str]) -> str:
    return dot(list(names.values()), [access.strides.get(name, 0) for name in names])


def transposition(lanes: int) -> str:
    """C function that transposes a square of vectors: at each stage two vectors swap blocks of `size` elements."""
    lines = ["static inline __attribute__((always_inline, unused)) void", "transpose(vec *block)", "{"]
    size = 1
    while size < lanes:
        low = [j if not j & size else lanes + j - size for j in range(lanes)]
        high = [j + size if not j & size else lanes + j for j in range(lanes)]
        for i in range(lanes):
            if not i & size:
                pair = f"block[{i}], block[{i + size}]"
                lines.append("    {")
                lines.append(f"        const vec low = __builtin_shufflevector({pair}, {', '.join(map(str, low))});")
                lines.append(
                    f"        block[{i + size}] = __builtin_shufflevector({pair}, {', '.join(map(str, high))});"
                )
                lines.append(f"        block[{i}] = low;")
                lines.append("    }")
        size *= 2
    return "\n".join([*lines, "}"])
