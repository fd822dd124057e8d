"""The page: what was found, why, and beside what."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..figures import memory, milliseconds, percent
from ..job.found import Compared, Found
from .layers import layer_table
from .markup import Markup, element, joined
from .picture import front_pictures
from .rates import rates_table
from .style import STYLE
from .words import form_words, scheme_words

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""The page loads nothing and runs nothing."""


def report_page(found: Found) -> str:
    """HTML that needs nothing but itself."""
    title = f"What to train in {found.model}"
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    body = element(
        "body",
        element(
            "main",
            element("h1", title),
            element("p", _summary(found), class_="lead"),
            _tiles(found),
            *(_section(*part) for part in _sections(found)),
        ),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _sections(found: Found) -> list[tuple[str, str, Markup]]:
    memory_picture, time_picture = front_pictures(found)
    return [
        (
            "Beside other schemes",
            "All are planned for the same device. “Brings” is the sum of what the parameters contribute, as a part of "
            "what training everything would bring. It orders schemes; it is no accuracy.",
            _comparison(found),
        ),
        (
            "What else could be chosen",
            "Each small dot is a scheme that none of those looked at beats in what it brings, memory and time at once "
            "(estimated, or planned where a step has another form than the quickest). The line is the most that fits.",
            element("div", memory_picture, time_picture, class_="pictures"),
        ),
        (
            "Why each layer is in or out",
            "“Takes” is what the layer adds to the peak beside the rest of the scheme; of a layer that is out, what it "
            "would add. Bars of “brings” are logarithmic: a mark is a power of ten.",
            element("div", layer_table(found), class_="scrolled"),
        ),
        *_rates(found),
        ("The recipe", "", element("pre", found.recipe)),
        ("How it was found", "", _how(found)),
    ]


def _rates(found: Found) -> list[tuple[str, str, Markup]]:
    rates = found.rates
    if rates is None:
        return []
    text = (
        f"Each rate trained {rates.steps} steps in {rates.orders} orders, and was judged by the loss of "
        f"{rates.kept_back} samples kept back from the data, which was {rates.before:.4g} before training."
    )
    return [("Learning rates", text, element("div", rates_table(rates), class_="scrolled"))]


def _section(title: str, text: str, content: Markup) -> Markup:
    return element("section", element("h2", title), element("p", text) if text else None, content)


def _summary(found: Found) -> str:
    trained = sum(1 for unit in found.units if unit.option)
    threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
    return (
        f"For {found.target} with {threads}: {trained} of {len(found.units)} parameters are trained, "
        f"chosen by {_METHODS.get(found.method, found.method)}.{form_words(found.chosen)}"
    )


_METHODS = {
    "fisher": "Fisher information",
    "measured": "measured contributions",
    "gradient_ratio": "ratios of gradient to weight",
}


def _tiles(found: Found) -> Markup:
    cost, full, limits = found.chosen.cost, found.of("full"), found.limits
    numbers = found.of("found")
    everything = sum(max(unit.gains) for unit in found.units)
    whole = full.cost if full is not None else None
    bytes_, ms = (whole.peak_bytes, whole.step_ms) if whole is not None else (None, None)
    most = f"no scheme that fits brings more than {percent(found.chosen.bound, everything)}, if all adds up"
    tiles = [
        _tile(
            "peak memory",
            memory(cost.peak_bytes),
            _beside(cost.peak_bytes, bytes_),
            _meter(cost.peak_bytes, limits.memory_bytes, bytes_, memory),
        ),
        _tile(
            "time of a step",
            milliseconds(cost.step_ms),
            _beside(cost.step_ms, ms),
            _meter(cost.step_ms, limits.step_ms, ms, milliseconds),
        ),
        _tile(
            "brings",
            percent(found.chosen.gain, everything),
            "of what training everything brings",
            element("p", most, class_="note"),
        ),
    ]
    if numbers is not None and full is not None:
        text = f"of {full.numbers:,} numbers".replace(",", " ")
        share = percent(numbers.numbers, full.numbers)
        tiles.append(
            _tile("trained", f"{numbers.numbers:,}".replace(",", " "), text, element("p", share, class_="note"))
        )
    return element("div", *tiles, class_="tiles")


def _tile(label: str, value: str, text: str, below: Markup) -> Markup:
    return element(
        "div",
        element("p", label, class_="label"),
        element("p", value, class_="value"),
        element("p", text, class_="note"),
        below,
        class_="tile",
    )


def _beside(value: float, full: float | None) -> str:
    return f"{value / full:.0%} of training everything" if full else ""


def _meter(value: float, limit: float | None, full: float | None, words: Callable[[float], str]) -> Markup:
    """A bar from 0 to the largest of the three, with a mark at the limit."""
    most = max(value, limit or 0, full or 0) or 1.0
    parts = [
        element("rect", x=0, y=5, width="100%", height=6, rx=3, class_="track"),
        element("rect", x=0, y=5, width=f"{100 * value / most:.1f}%", height=6, rx=3, class_="bar on"),
    ]
    if limit is not None:
        at = f"{100 * limit / most:.1f}%"
        parts.append(element("line", x1=at, x2=at, y1=0, y2=16, class_="limit"))
    picture = element("svg", *parts, class_="meter", aria_hidden="true")
    return joined(picture, element("p", f"limit {words(limit)}" if limit is not None else "no limit", class_="note"))


def _comparison(found: Found) -> Markup:
    titles = ["scheme", "numbers trained", "peak memory", "of everything", "step", "of everything", "brings"]
    measured: dict[str, Callable[[Compared], str | Markup]] = {}
    if any(one.loss is not None for one in found.compared):
        measured["loss when tried"] = lambda one: "" if one.loss is None else f"{one.loss:.4g}"
    if any(one.trained for one in found.compared):
        measured["accuracy"] = _accuracy
    head = element("tr", *(element("th", title, scope="col") for title in [*titles, *measured]))
    rows = [_compared_row(one, found, [said(one) for said in measured.values()]) for one in found.compared]
    return element(
        "div", element("table", element("thead", head), element("tbody", *rows), class_="compared"), class_="scrolled"
    )


def _compared_row(one: Compared, found: Found, measured: Sequence[str | Markup]) -> Markup:
    full = found.of("full")
    everything = sum(max(unit.gains) for unit in found.units)
    over = "" if found.limits.keeps(one.cost) else "over the limit"
    cells = [
        f"{one.numbers:,}".replace(",", " "),
        joined(memory(one.cost.peak_bytes), element("span", f" {over}", class_="over") if over else None),
        f"{one.cost.peak_bytes / full.cost.peak_bytes:.0%}" if full else "",
        milliseconds(one.cost.step_ms),
        f"{one.cost.step_ms / full.cost.step_ms:.0%}" if full else "",
        percent(one.gain, everything),
        *measured,
    ]
    return element(
        "tr",
        element("th", scheme_words(one.name), scope="row"),
        *(element("td", cell, class_="number") for cell in cells),
        class_="in" if one.name == "found" else None,
    )


def _accuracy(one: Compared) -> str:
    known = [training.accuracy for training in one.trained if training.accuracy is not None]
    if not known:
        losses = [training.loss for training in one.trained if training.loss is not None]
        return f"loss {sum(losses) / len(losses):.4g}" if losses else "–"
    spread = f" ({min(known):.1%} to {max(known):.1%})" if len(known) > 1 else ""
    return f"{sum(known) / len(known):.1%}{spread}"


def _how(found: Found) -> Markup:
    chosen, guess = found.chosen, found.chosen.estimated
    rows = {
        "contributions": f"{found.method}, seed {found.seed}",
        **{name.replace("_", " "): str(value) for name, value in found.provenance.items()},
        "preferred": found.prefer,
        "search": chosen.method,
        "bound": f"at most {chosen.gap:.2%} of what could fit is missing, if what parameters bring and take adds up",
        **({"energy of a step": found.energy.words(found.chosen.cost.step_ms)} if found.energy else {}),
        "estimated before planning": f"{memory(guess.peak_bytes)} and {milliseconds(guess.step_ms)}",
        "took": ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in found.seconds.items()),
    }
    pairs = [part for label, text in rows.items() for part in (element("dt", label), element("dd", text))]
    notes = [element("li", note) for note in (*chosen.notes, *(found.rates.notes if found.rates else ()))]
    return joined(element("dl", *pairs), element("ul", *notes) if notes else None)
