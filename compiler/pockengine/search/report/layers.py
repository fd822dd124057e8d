"""The table of layers: what each brings, what it takes, and what of it is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..figures import memory, milliseconds, percent
from ..job.found import Found, UnitRow
from .markup import Markup, element, joined
from .words import reason, share_words

_DECADES = 4
"""Powers of ten that a bar of gain spans, below the largest."""

_WIDTH, _HEIGHT = 110, 12


def layer_table(found: Found) -> Markup:
    """One row a layer, in model order."""
    layers = _layers(found.units)
    full = sum(max(unit.gains) for unit in found.units)
    gains = {name: sum(unit.gain for unit in units) for name, units in layers.items()}
    taken = {layer.name: layer for layer in found.layers}
    costs = {name: max(0, taken[name].added_bytes) for name in layers}
    most_gain, most_cost = max(gains.values(), default=0.0), max(costs.values(), default=0)
    rows, before = [], True
    for name, units in layers.items():
        trained = any(unit.option for unit in units)
        before = before and not trained
        gain, cost = gains[name], costs[name]
        rows.append(
            element(
                "tr",
                element("th", name, scope="row"),
                element("td", *(_chip(unit) for unit in units), class_="chips"),
                bar_cell(_logarithmic(gain, most_gain), percent(gain, full), trained, ticks=True),
                bar_cell(cost / most_cost if most_cost else 0.0, memory(cost), trained),
                element("td", milliseconds(max(0.0, taken[name].added_ms)), class_="number"),
                element("td", _rate(gain, cost, full), class_="number"),
                element("td", reason(units, taken[name], before, found), class_="why"),
                class_="in" if trained else "out",
            )
        )
    titles = ("layer", "trained of it", "brings", "takes", "a step", "brings per MiB", "why")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    return element("table", element("thead", head), element("tbody", *rows), class_="layers")


def _layers(units: Sequence[UnitRow]) -> dict[str, list[UnitRow]]:
    layers: dict[str, list[UnitRow]] = {}
    for unit in units:
        layers.setdefault(unit.module, []).append(unit)
    return layers


def _chip(unit: UnitRow) -> Markup:
    """One parameter: filled where it is trained, as far as it is."""
    label = unit.name.removeprefix(unit.module).lstrip(".") or unit.name
    part = f"rank {unit.rank}" if unit.rank else share_words(unit.share) if unit.option else ""
    text = joined(label, f" {part}" if part else "")
    shape = "×".join(map(str, unit.shape))
    trained = f"an adapter of rank {unit.rank}" if unit.rank else f"{unit.share:.1%} trained"
    about = f"{unit.name} [{shape}]: {trained if unit.option else 'frozen'}"
    return element("span", text, class_="chip on" if unit.option else "chip", title=about)


def bar_cell(share: float, text: str, trained: bool, ticks: bool = False) -> Markup:
    """A bar of a share of the width, with its figure; `trained` fills it."""
    marks = [
        element("line", x1=_WIDTH * step / _DECADES, x2=_WIDTH * step / _DECADES, y1=0, y2=_HEIGHT, class_="tick")
        for step in range(1, _DECADES)
        if ticks
    ]
    width = max(2.0, _WIDTH * min(share, 1.0)) if share > 0 else 0.0
    bar = element("rect", x=0, y=1, width=width, height=_HEIGHT - 2, rx=3, class_="bar on" if trained else "bar")
    track = element("rect", x=0, y=1, width=_WIDTH, height=_HEIGHT - 2, rx=3, class_="track")
    picture = element(
        "svg", track, bar, *marks, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", width=_WIDTH, height=_HEIGHT, aria_hidden="true"
    )
    return element("td", element("div", picture, element("span", text), class_="barred"))


def _logarithmic(value: float, most: float) -> float:
    """1 for the largest, a quarter less for each power of ten below it."""
    return max(0.02, 1 + math.log10(value / most) / _DECADES) if value > 0 and most > 0 else 0.0


def _rate(gain: float, cost: int, full: float) -> str:
    if not cost:
        return "–"
    return percent(gain / (cost / 2**20), full) if full > 0 else "–"
