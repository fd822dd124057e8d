"""The transforms of minimal filtering as C of lines of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from ...common.winograd.transforms import Row, combination
from ..emit.source import Code


def emit_line(code: Code, name: str, matrix: Sequence[Row]) -> None:
    """Define `void NAME(vec x0, vec x1, …, float *to, ptrdiff_t step)`: the matrix times a column of vectors."""
    names = [f"x{i}" for i in range(len(matrix[0]))]
    given = ", ".join(f"vec {name}" for name in names)
    header = f"static inline __attribute__((always_inline)) void\n{name}({given}, float *to, ptrdiff_t step)"
    with code.block(header):
        row = 0
        while row < len(matrix):
            mirrored = _mirrored(matrix[row], matrix[row + 1]) if row + 1 < len(matrix) else None
            if mirrored is None:
                code.line(f"*(vec *)(to + {row} * step) = {combination(matrix[row], names)};")
                row += 1
                continue
            same, opposite = mirrored
            code.line(
                f"const vec same{row} = {combination(same, names)}, opposite{row} = {combination(opposite, names)};"
            )
            code.line(f"*(vec *)(to + {row} * step) = same{row} + opposite{row};")
            code.line(f"*(vec *)(to + {row + 1} * step) = same{row} - opposite{row};")
            row += 2
    code.line()


def _mirrored(first: Row, second: Row) -> tuple[Row, Row] | None:
    """The terms that two rows have in common and those of opposite sign, where these are all of them."""
    if any(abs(a) != abs(b) for a, b in zip(first, second, strict=True)):
        return None
    same = tuple(a if a == b else Fraction(0) for a, b in zip(first, second, strict=True))
    opposite = tuple(a if a != b else Fraction(0) for a, b in zip(first, second, strict=True))
    return (same, opposite) if sum(map(bool, same)) and sum(map(bool, opposite)) else None
