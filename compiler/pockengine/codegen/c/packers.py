"""Packers: copy a block of an operand of a contraction into the order the micro-kernel reads, through its index map."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .indexing import digits, dot
from .maps import Access, Axis
from .schedule import contiguous
from .source import VECTORIZE, Code


@dataclass(frozen=True)
class Packer:
    """Packs `across` x `k` of an operand. Element (x, k) goes to `dst[(x - x0) * x_step + (k - k0) * k_step]`."""

    name: str
    access: Access
    across: Axis
    k: Axis
    x_step: int
    k_step: int

    def emit(self, code: Code) -> None:
        """Define `static void NAME(const float *src, float *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)`."""
        inner_k = contiguous(self.access, self.k) or not contiguous(self.access, self.across)
        header = "static __attribute__((noinline)) void\n"
        header += f"{self.name}(const float *src, float *dst, ptrdiff_t x0, ptrdiff_t x1, ptrdiff_t k0, ptrdiff_t k1)"
        with code.block(header):
            if inner_k:
                self._walk(code, "x", self.across, self.x_step, "k", self.k, self.k_step)
            else:
                self._walk(code, "k", self.k, self.k_step, "x", self.across, self.x_step)
        code.line()

    def _walk(
        self, code: Code, slow: str, slow_axis: Axis, slow_step: int, fast: str, fast_axis: Axis, fast_step: int
    ) -> None:
        """Run along the fast axis's last digit; everything else is decoded once per run."""
        run_axis = fast_axis[-1:] if fast_axis and not self.access.touches(fast_axis[-1:]) else ()
        outer_axis = fast_axis[: len(fast_axis) - len(run_axis)]
        run = math.prod(digit.extent for digit in run_axis)
        step = self.access.strides.get(run_axis[0].name, 0) if run_axis else 0
        with code.loop(slow, f"{slow}1", f"{slow}0"):
            names = self._decode(code, slow, slow_axis)
            code.line(f"const float *const line = src + {self._offset(names)};")
            code.line(f"float *out = dst + ({slow} - {slow}0) * {slow_step};")
            with code.block(f"for (ptrdiff_t {fast} = {fast}0; {fast} < {fast}1;)"):
                code.line(f"const ptrdiff_t at = {fast} % {run}, left = {run} - at;")
                code.line(f"const ptrdiff_t count = left < {fast}1 - {fast} ? left : {fast}1 - {fast};")
                inner = self._decode(code, f"({fast} / {run})" if run > 1 else fast, outer_axis)
                offsets = [self._offset(inner), dot(["at"], [step])]
                valid = self._windows(code, {**names, **inner}, offsets)
                code.line(f"const float *const from = line + {' + '.join(o for o in offsets if o != '0') or '0'};")
                body = f"out[{dot(['i'], [fast_step])}] = "
                value = f"from[{dot(['i'], [step])}];"
                if valid:
                    with code.block(f"if ({valid})"):
                        self._copy(code, body + value)
                    with code.block("else"):
                        self._copy(code, body + "0.0f;")
                else:
                    self._copy(code, body + value)
                code.line(f"out += count * {fast_step};")
                code.line(f"{fast} += count;")

    def _copy(self, code: Code, statement: str) -> None:
        code.line(VECTORIZE)
        with code.loop("i", "count"):
            code.line(statement)

    def _decode(self, code: Code, flat: str, axis: Axis) -> dict[str, str]:
        """Declare the digits of a flat index; digit name -> C name."""
        names = {}
        for digit, text in zip(axis, digits(flat, [d.extent for d in axis]), strict=True):
            if digit.name in self.access.strides or self.access.touches((digit,)):
                code.line(f"const ptrdiff_t {digit.name}_ = {text};")
                names[digit.name] = f"{digit.name}_"
        return names

    def _offset(self, names: dict[str, str]) -> str:
        strides = [self.access.strides.get(name, 0) for name in names]
        return dot(list(names.values()), strides)

    def _windows(self, code: Code, names: dict[str, str], offsets: list[str]) -> str:
        """Declare the window coordinates, append their offsets, and return the condition under which they are valid."""
        conditions = []
        for index, window in enumerate(self.access.windows):
            name = f"at{index}"
            position = dot([names[n] for n, _ in window.terms], [c for _, c in window.terms], window.offset)
            if window.divisor > 1:
                code.line(f"const ptrdiff_t scaled{index} = {position}, {name} = scaled{index} / {window.divisor};")
                conditions.append(f"scaled{index} % {window.divisor} == 0 && scaled{index} >= 0 && {name} < {window.extent}")
            else:
                code.line(f"const ptrdiff_t {name} = {position};")
                conditions.append(f"{name} >= 0 && {name} < {window.extent}")
            offsets.append(dot([name], [window.stride]))
        return " && ".join(conditions)
