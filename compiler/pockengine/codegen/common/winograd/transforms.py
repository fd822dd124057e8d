"""The transforms of Winograd's minimal filtering F(m x m, 3 x 3), as matrices and as expressions of C.

y = A^T ((G g G^T) * (B^T d B)) A for m x m results y, taps g and the (m + 2) x (m + 2) window d (A. Lavin, S. Gray,
"Fast Algorithms for Convolutional Neural Networks", 2016). The matrices come from Toom and Cook's interpolation in
m + 1 points and infinity, exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

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


def combination(row: Row, names: Sequence[str]) -> str:
    """The sum of what is called so, times the row's factors."""
    text = ""
    for name, factor in zip(names, row, strict=True):
        if not factor:
            continue
        size = abs(factor)
        term = name if size == 1 else f"{_literal(size)} * {name}"
        text += (" - " if factor < 0 else " + ") + term if text else ("-" if factor < 0 else "") + term
    return text


def _literal(value: Fraction) -> str:
    if value.denominator == 1:
        return f"{value.numerator}.0f"
    return f"({value.numerator}.0f / {value.denominator}.0f)"
