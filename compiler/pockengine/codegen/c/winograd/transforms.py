"""The transforms of Winograd's minimal filtering F(m x m, 3 x 3), as matrices and as C.

y = A^T ((G g G^T) * (B^T d B)) A for m x m results y, taps g and the (m + 2) x (m + 2) window d (A. Lavin, S. Gray,
"Fast Algorithms for Convolutional Neural Networks", 2016). The matrices come from Toom and Cook's interpolation in
m + 1 points and infinity, exactly. Their C is lines of vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from ..emit.source import Code

TAPS = 3
POINTS = {2: ("0", "1", "-1"), 4: ("0", "3/4", "-3/4", "3/2", "-3/2")}
"""Where the polynomials are evaluated; opposite points follow each other, so that their lines share terms. With these
four, sums over 64 to 512 channels are off by 1e-6 to 4e-6 of the largest result, twice what direct sums are; with 1,
-1, 2, -2 it is four times that."""

Row = tuple[Fraction, ...]


@dataclass(frozen=True)
class Transforms:
    """The three matrices: `image` is B^T, `taps` is G, `result` is A^T."""

    outputs: int
    image: tuple[Row, ...]
    taps: tuple[Row, ...]
    result: tuple[Row, ...]

    @property
    def side(self) -> int:
        """Elements of a window along one axis."""
        return self.outputs + TAPS - 1

    @property
    def points(self) -> int:
        """Products of a tile."""
        return self.side**2


@cache
def transforms_of(outputs: int) -> Transforms:
    """F(m x m, 3 x 3) for the m of POINTS."""
    points = [Fraction(text) for text in POINTS[outputs]]
    image, taps = [], []
    for point in points:
        others = [other for other in points if other != point]
        scale = Fraction(1)
        for other in others:
            scale *= point - other
        sign = -1 if scale < 0 else 1
        image.append(tuple(sign * c for c in (*_product(others), Fraction(0))))
        taps.append(tuple(sign * point**k / scale for k in range(TAPS)))
    image.append(tuple(_product(points)))
    taps.append((Fraction(0),) * (TAPS - 1) + (Fraction(1),))
    result = [(*(point**i for point in points), Fraction(int(i == outputs - 1))) for i in range(outputs)]
    return Transforms(outputs, tuple(image), tuple(taps), tuple(result))


def _product(roots: Sequence[Fraction]) -> list[Fraction]:
    """Coefficients of the product of (x - root), the constant one first."""
    found = [Fraction(1)]
    for root in roots:
        found = [a - root * b for a, b in zip([Fraction(0), *found], [*found, Fraction(0)], strict=True)]
    return found


def emit_line(code: Code, name: str, matrix: Sequence[Row]) -> None:
    """Define `void NAME(vec x0, vec x1, …, float *to, ptrdiff_t step)`: the matrix times a column of vectors."""
    columns = len(matrix[0])
    given = ", ".join(f"vec x{i}" for i in range(columns))
    header = f"static inline __attribute__((always_inline)) void\n{name}({given}, float *to, ptrdiff_t step)"
    with code.block(header):
        row = 0
        while row < len(matrix):
            mirrored = _mirrored(matrix[row], matrix[row + 1]) if row + 1 < len(matrix) else None
            if mirrored is None:
                code.line(f"*(vec *)(to + {row} * step) = {_sum(matrix[row])};")
                row += 1
                continue
            same, opposite = mirrored
            code.line(f"const vec same{row} = {_sum(same)}, opposite{row} = {_sum(opposite)};")
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


def _sum(row: Row) -> str:
    text = ""
    for index, factor in enumerate(row):
        if not factor:
            continue
        size = abs(factor)
        term = f"x{index}" if size == 1 else f"{_literal(size)} * x{index}"
        text += (" - " if factor < 0 else " + ") + term if text else ("-" if factor < 0 else "") + term
    return text


def _literal(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{value.numerator}.0f"
    return f"({value.numerator}.0f / {value.denominator}.0f)"
