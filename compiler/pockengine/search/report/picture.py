"""The front as a picture: what schemes bring against what they take, with the limits and the usual schemes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..costs import Cost
from ..job.found import AT_RATES, Found
from .markup import Markup, element
from .words import scheme_words

_WIDTH, _HEIGHT = 520, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 16, 34, 44
_LINE, _LETTER = 15, 6.6
"""Pixels that a line of a label takes, and each of its letters."""


@dataclass(frozen=True)
class Axis:
    """A linear scale with round ticks."""

    low: float
    high: float
    start: float
    stop: float
    ticks: tuple[float, ...]

    @classmethod
    def of(cls, values: Sequence[float], start: float, stop: float, from_zero: bool) -> Axis:
        """Round numbers around the values."""
        low, high = (0.0 if from_zero else min(values)), max(values)
        step = _round_step((high - low) or abs(high) or 1.0)
        first, last = math.floor(low / step), math.ceil(high / step - 1e-9)
        last = max(last, first + 1)
        return cls(first * step, last * step, start, stop, tuple(tick * step for tick in range(first, last + 1)))

    def at(self, value: float) -> float:
        """Where a value lies, in pixels."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.stop - self.start)


def _round_step(span: float) -> float:
    """1, 2 or 5 times a power of ten, about a fifth of the span."""
    power = 10.0 ** math.floor(math.log10(span / 5))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= span / 5)


@dataclass(frozen=True)
class _Mark:
    x: float
    y: float
    label: str
    kind: str


def front_pictures(found: Found) -> tuple[Markup, Markup]:
    """Gain against peak memory, and against step time; gain as a part of what training everything brings."""
    limits = found.limits
    memory_limit = None if limits.memory_bytes is None else limits.memory_bytes / 2**20
    return (
        _picture(found, "peak memory, MiB", lambda cost: cost.peak_bytes / 2**20, memory_limit),
        _picture(found, "time of a step, ms", lambda cost: cost.step_ms, limits.step_ms),
    )


def _picture(found: Found, title: str, figure: Callable[[Cost], float], limit: float | None) -> Markup:
    full = sum(max(unit.gains) for unit in found.units) or 1.0
    points = sorted((figure(point.cost), 100 * point.gain / full) for point in found.front)
    marks = [
        (
            figure(one.cost),
            100 * one.gain / full,
            scheme_words(one.name, short=True),
            "found" if one.name == "found" else "usual",
        )
        for one in found.compared
        if one.name != AT_RATES  # which lies on the found one
    ]
    xs = [x for x, _ in points] + [mark[0] for mark in marks] + ([limit] if limit is not None else [])
    ys = [y for _, y in points] + [mark[1] for mark in marks]
    across = Axis.of(xs or [1.0], _LEFT, _WIDTH - _RIGHT, from_zero=True)
    up = Axis.of([*ys, 100.0], _HEIGHT - _BOTTOM, _TOP, from_zero=False)
    front = [(across.at(x), up.at(y)) for x, y in points]
    placed = _together([_Mark(across.at(x), up.at(y), label, kind) for x, y, label, kind in marks])
    return element(
        "svg",
        *_frame(across, up, title),
        *_limit(across, limit),
        *_steps(front),
        *_marks(placed, front),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"What schemes bring against {title}",
        class_="picture",
    )


def _together(marks: Sequence[_Mark]) -> list[_Mark]:
    """Marks that lie on each other have one label; the found scheme is the first of all."""
    found: list[_Mark] = []
    for mark in marks:
        near = next((one for one in found if abs(one.x - mark.x) < 4 and abs(one.y - mark.y) < 4), None)
        if near is None:
            found.append(mark)
        else:
            found[found.index(near)] = replace(near, label=f"{near.label}, {mark.label}")
    return found


def _frame(across: Axis, up: Axis, title: str) -> list[Markup]:
    parts = [element("text", "brings, % of everything", x=_LEFT - 40, y=16, class_="axis")]
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        parts.append(element("text", f"{tick:g}", x=_LEFT - 8, y=y + 4, text_anchor="end", class_="axis"))
    for tick in across.ticks:
        x = across.at(tick)
        parts.append(element("text", f"{tick:g}", x=x, y=_HEIGHT - _BOTTOM + 18, text_anchor="middle", class_="axis"))
    parts.append(element("text", title, x=_WIDTH - _RIGHT, y=_HEIGHT - 8, text_anchor="end", class_="axis"))
    base = _HEIGHT - _BOTTOM
    return [*parts, element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=base, y2=base, class_="base")]


def _limit(across: Axis, limit: float | None) -> list[Markup]:
    if limit is None:
        return []
    x = across.at(limit)
    near_right = x > _WIDTH - 90
    return [
        element("rect", x=x, y=_TOP, width=_WIDTH - _RIGHT - x, height=_HEIGHT - _BOTTOM - _TOP, class_="beyond"),
        element("line", x1=x, x2=x, y1=_TOP - 6, y2=_HEIGHT - _BOTTOM, class_="limit"),
        element(
            "text",
            "limit",
            x=x - 6 if near_right else x + 6,
            y=_TOP - 8,
            text_anchor="end" if near_right else None,
            class_="limit",
        ),
    ]


def _steps(points: Sequence[tuple[float, float]]) -> list[Markup]:
    """The front: what is the most for each figure, as stairs, and its points."""
    best, stairs = float("inf"), []
    for x, y in points:
        if y < best:  # upward is towards 0
            stairs.append((x, y))
            best = y
    parts = []
    if stairs:
        path = f"M{stairs[0][0]:.1f} {stairs[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in stairs[1:])
        parts.append(element("path", d=path, class_="front"))
    return parts + [element("circle", cx=x, cy=y, r=3, class_="point") for x, y in points]


def _marks(marks: Sequence[_Mark], points: Sequence[tuple[float, float]]) -> list[Markup]:
    """Schemes with their names, each as near as it lies over nothing else: `points` are in the way, too."""
    parts = []
    dots = [_Box(x - 3, y - 3, x + 3, y + 3) for x, y in points]
    taken = [*dots, *(_Box(one.x - 7, one.y - 7, one.x + 7, one.y + 7) for one in marks)]
    for mark in marks:
        box, left = _free(mark, taken)
        taken.append(box)
        x, y = (box.right if left else box.left), (box.top + box.bottom) / 2
        if abs(y - mark.y) > 9:
            parts.append(element("line", x1=mark.x, x2=x, y1=mark.y, y2=y, class_="leader"))
        anchor = "end" if left else None
        parts.append(element("text", mark.label, x=x, y=y + 4, text_anchor=anchor, class_=f"label {mark.kind}"))
    circles = [
        element("circle", cx=one.x, cy=one.y, r=6 if one.kind == "found" else 5, class_=one.kind) for one in marks
    ]
    return parts + circles[1:] + circles[:1]


@dataclass(frozen=True)
class _Box:
    left: float
    top: float
    right: float
    bottom: float

    def covers(self, other: _Box) -> bool:
        """Whether the two have a point in common."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def _free(mark: _Mark, taken: Sequence[_Box]) -> tuple[_Box, bool]:
    """Where a label lies: beside its mark or above or below of it; and whether it ends there, on the left."""
    width, half = _LETTER * len(mark.label), _LINE / 2
    for distance in range(0, _HEIGHT, 4):
        for y in dict.fromkeys((mark.y + distance, mark.y - distance)):
            for left in (False, True):
                start = mark.x - 11 - width if left else mark.x + 11
                box = _Box(start, y - half, start + width, y + half)
                inside = box.left > _LEFT and box.right < _WIDTH - 4 and _TOP - 10 < y < _HEIGHT - _BOTTOM - half
                if inside and not any(box.covers(other) for other in taken):
                    return box, left
    return _Box(mark.x + 11, mark.y - half, mark.x + 11 + width, mark.y + half), False
