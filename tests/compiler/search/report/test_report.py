"""The report: all that was found, as a page that names from a model cannot change."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from pockengine.search.choosing import Chosen, Limits, Point
from pockengine.search.costs import Cost
from pockengine.search.job import Compared, Energy, Found, LayerRow, Training, UnitRow
from pockengine.search.rates import Rates, RateTrial
from pockengine.search.report import report_page
from pockengine.search.report.markup import Markup, element, plain
from pockengine.search.report.picture import _LEFT, _LETTER, _WIDTH

EVIL = '</style><script>alert(1)</script><img src=x onerror="alert(2)">\'&amp;\u202e'


def found(name: str = "layer.0", memory: int | None = 3 << 20) -> Found:
    """Three layers: one in, one in part, one out."""
    units = (
        UnitRow(f"{name}.weight", name, (8, 4), (0.0, 0.5, 1.0), 0, (0.0, 1.0, 2.0)),
        UnitRow("mid.weight", "mid", (8, 8), (0.0, 0.5, 1.0), 1, (0.0, 3.0, 4.0)),
        UnitRow("mid.bias", "mid", (8,), (0.0, 1.0), 0, (0.0, 0.5)),
        UnitRow("head.weight", "head", (3, 8), (0.0, 0.5, 1.0), 2, (0.0, 5.0, 9.0)),
    )
    layers = (LayerRow(name, 1 << 20, 0.5), LayerRow("mid", 200_000, 0.2), LayerRow("head", -3, 0.1))
    cost = Cost(2_900_000, 3.5)
    full = Compared("full", (2, 2, 1, 2), Cost(6 << 20, 7.0), 15.5, 128)
    trained = (Training(0, 0.75, 0.5), Training(1, 0.85, 0.4))
    best = Compared("found", (0, 1, 0, 2), cost, 12.0, 56, trained)
    return Found(
        model=name,
        target="raspberry-pi-4",
        threads=1,
        limits=Limits(memory, 6.0),
        method="fisher",
        provenance={"criterion": name, "batches": 4},
        prefer="accuracy",
        seed=3,
        recipe=f"# {name}\nupdate: full\n",
        chosen=Chosen((0, 1, 0, 2), cost, Cost(2_800_000, 3.4), 12.0, 12.5, "exact", (f"a note on {name}",)),
        units=units,
        layers=layers,
        front=(Point((0, 0, 0, 2), 9.0, Cost(2_000_000, 2.0)), Point((0, 1, 0, 2), 12.0, cost)),
        compared=(best, full, Compared("last3", (0, 2, 1, 2), Cost(4 << 20, 4.0), 13.5, 96)),
        seconds={"contributions": 1.5, "costs": 2.0},
        energy=Energy(8.0, 0.25),
        rates=Rates(
            {name: 0.25, "others": 0.5},
            60,
            2,
            13,
            2.75,
            1.5,
            (RateTrial("everything", 0.5, 1.75), RateTrial(name, 0.25, 1.5), RateTrial(name, 8.0, None)),
            False,
        ),
    )


class Reader(HTMLParser):
    """Collects elements, their attributes and all text; complains of what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data) -> None:
        self.text += data


def test_the_page_says_what_was_found() -> None:
    page = Reader(report_page(found()))
    assert page.open == []
    for said in (
        "2.8 MiB",
        "3.5 ms",
        "limit 3.0 MiB",
        "limit 6 ms",
        "the last 3 parameters",
        "80.0%",
        "weight ½",
        "seed 3",
        "13 samples kept back from the data, which was 2.75 before",
        "diverged",
        "0.028 J, limit 0.25 J",
        "the time was over before all learning rates were tried",
    ):
        assert said in page.text, said
    assert "1.0 MiB more would not fit, as gradients would reach back" in page.text
    assert "in part: the rest brings less than it takes" in page.text and "in: all of it" in page.text
    assert page.text.count("over the limit") == 2, "everything, and the last three"


def test_names_of_a_model_are_text_and_nothing_else() -> None:
    plain_page, evil_page = Reader(report_page(found())), Reader(report_page(found(EVIL)))
    assert evil_page.tags == plain_page.tags, "no element more or less"
    assert [name for name, _ in evil_page.attributes] == [name for name, _ in plain_page.attributes]
    assert EVIL.replace("\u202e", "\ufffd") in evil_page.text
    assert "\u202e" not in report_page(found(EVIL)), "marks that turn the direction of writing are not kept"


def test_the_page_needs_nothing_and_runs_nothing() -> None:
    text = report_page(found())
    page = Reader(text)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("href", "src")]
    assert "default-src 'none'" in text.replace("&#x27;", "'")
    assert not re.search(r"https?://|url\(|@import", text)
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    "changed",
    [
        {"limits": Limits()},
        {"front": ()},
        {"compared": ()},
        {"rates": None, "energy": None},
        {"rates": Rates({"head": 0.1}, 60, 2, 13, 2.75, 1.5, ())},
        {"threads": 4, "chosen": replace(found().chosen, gain=0.0, bound=0.0, notes=())},
        {"units": tuple(replace(unit, gains=(0.0,) * len(unit.gains)) for unit in found().units)},
    ],
)
def test_whatever_is_missing(changed) -> None:
    assert Reader(report_page(replace(found(), **changed))).open == []


def test_trainings_without_a_notion_of_right_show_their_loss() -> None:
    (best, *others) = found().compared
    page = report_page(replace(found(), compared=(replace(best, trained=(Training(0, None, 0.25),)), *others)))
    assert "loss 0.25" in page


def test_the_result_comes_back_from_json() -> None:
    assert Found.from_mapping(json.loads(json.dumps(found().to_mapping()))) == found()


def test_elements_escape_what_is_no_element() -> None:
    assert (
        element("p", "<b>", element("b", "x"), class_='a"b', data_x=1.5)
        == '<p class="a&quot;b" data-x="1.5">&lt;b&gt;<b>x</b></p>'
    )
    assert isinstance(element("p"), Markup) and plain("a\x00\u2066b\n") == "a\ufffd\ufffdb\n"


def test_names_stay_inside_the_picture() -> None:
    usual = [Compared(name, (0, 0, 0, 1), Cost(size, 6.9), 1.0 + number, 10)
             for number, (name, size) in enumerate({"first16": 6 << 20, "most16": 5 << 20, "last157": 3 << 20,
                                                    "lora16": 1 << 20, "once": 4 << 20}.items())]  # fmt: skip
    shown = replace(found(), compared=(*found().compared, *usual))
    labels = re.findall(r'<text x="([\d.]+)"([^>]*) class="label \w+">([^<]*)<', report_page(shown))
    assert len(labels) == 2 * len(shown.compared)
    for x, said, text in labels:
        left = float(x) - _LETTER * len(text) * ("end" in said)
        assert left > _LEFT and left + _LETTER * len(text) < _WIDTH, text


@pytest.mark.parametrize(
    ("memory", "micro_batches", "said"),
    [
        (None, 4, "A step runs in 4 micro-batches, to keep to the memory."),
        (1 << 20, 1, "A step runs with forward nodes that are computed twice, to keep to the memory."),
        (1 << 20, 2, "A step runs in 2 micro-batches with forward nodes that are computed twice, to keep"),
    ],
)
def test_the_page_says_the_form_of_a_step(memory: int | None, micro_batches: int, said: str) -> None:
    plain = found()
    form = replace(plain.chosen, memory=memory, micro_batches=micro_batches)
    assert said in report_page(replace(plain, chosen=form)) and "A step runs" not in report_page(plain)
