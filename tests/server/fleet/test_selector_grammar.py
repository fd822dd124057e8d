"""Selectors as texts: what they mean, where they are wrong, and that no text does harm."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pock_server.devices.selectors.grammar import (
    MAX_CHARACTERS,
    MAX_TERMS,
    BadSelector,
    Comparison,
    Key,
    Term,
    Text,
    parse,
)
from pock_server.devices.selectors.versions import version_rank
from pock_server.devices.states import DeviceState

ID = "018f0000-0000-7000-8000-000000000000"
GIB = 1 << 30


@pytest.mark.parametrize(
    ("selector", "key", "comparison", "value"),
    [
        ("pi-*", Key.NAME, "=", Text("pi-*", False)),
        ('"pi-*"', Key.NAME, "=", Text("pi-*", True)),
        (ID, Key.ID, "=", Text(ID, False)),
        (f'"{ID}"', Key.NAME, "=", Text(ID, True)),
        (f"name={ID}", Key.NAME, "=", Text(ID, False)),
        (" pool = kitchen and hall ", Key.POOL, "=", Text("kitchen and hall", False)),
        ('name="a, \\"b\\" \\\\ =c"', Key.NAME, "=", Text('a, "b" \\ =c', True)),
        ("room!=attic", "room", "!=", Text("attic", False)),
        ("example.com/rack-2=a", "example.com/rack-2", "=", Text("a", False)),
        ("Pool=x", "Pool", "=", Text("x", False)),
        ("state!=offline", Key.STATE, "!=", DeviceState.OFFLINE),
        ("ram>=2GiB", Key.RAM, ">=", 2 * GIB),
        ("ram<1.5gib", Key.RAM, "<", 3 * GIB // 2),
        ("ram=512 MB", Key.RAM, "=", 512_000_000),
        ("ram>0", Key.RAM, ">", 0),
        ("cores<=4", Key.CORES, "<=", 4),
        ("agent>=0.2", Key.AGENT, ">=", version_rank("0.2.0")),
    ],
)
def test_a_term(selector: str, key: str, comparison: str, value: Any) -> None:
    assert parse(selector) == (Term(key, Comparison(comparison), value),)


@pytest.mark.parametrize(
    ("selector", "reason", "place"),
    [
        ("", "a value is missing", 1),
        ("pool=a,", "a value is missing", 8),
        ("pool=", "a value is missing", 6),
        ('pool=""', "a value is missing", 6),
        ("a,=b", "no key", 3),
        ("pool==a", "in quotes", 6),
        ('pool="a', "in quotes", 6),
        ('pool="a"b', "in quotes", 6),
        ("ümlaut=a", "no key", 1),
        ("a b=c", "no key", 1),
        ("x,pool>a", "no order", 3),
        ("room<3", "no order", 1),
        ("a!b", "in quotes", 2),
        ("ram>=many", "number of bytes", 6),
        ("ram>=2XB", "number of bytes", 6),
        ("ram>=-1", "number of bytes", 6),
        ("ram>=1e9", "number of bytes", 6),
        ("ram>=999999999TiB", "less than", 6),
        ("ram>=٣", "number of bytes", 6),
        ("cores=1.5", "whole number", 7),
        ("agent>=0.2.0rc1", "a version", 8),
        ("state=awake", "online, offline, busy", 7),
        ("x" * 201, "at most 200 characters", 1),
        (",".join(["a"] * (MAX_TERMS + 1)), f"at most {MAX_TERMS} terms", 2 * MAX_TERMS + 1),
        ("a," * 10_000, f"at most {MAX_CHARACTERS} characters", MAX_CHARACTERS + 1),
    ],
)
def test_what_is_wrong_and_where(selector: str, reason: str, place: int) -> None:
    with pytest.raises(BadSelector, match=reason) as found:
        parse(selector)
    assert found.value.place == place and str(found.value).endswith(f", at character {place}")


@given(st.text(max_size=300) | st.text(alphabet='ab=!<>,"\\ *?ram', max_size=80))
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    try:
        terms = parse(text)
    except BadSelector as error:
        assert 1 <= error.place <= len(text) + 1
    else:
        assert 1 <= len(terms) <= MAX_TERMS


@given(st.lists(st.text(min_size=1, max_size=50), min_size=1, max_size=8))
def test_in_quotes_every_text_means_itself(texts: list[str]) -> None:
    quoted = [text.replace("\\", "\\\\").replace('"', '\\"') for text in texts]
    terms = parse(",".join(f'label = "{text}"' for text in quoted))
    assert [term.value for term in terms] == [Text(text, True) for text in texts]


@given(st.text(max_size=100))
def test_any_text_has_a_rank_or_none(text: str) -> None:
    assert 0 <= (version_rank(text) or 0) < 10**18


def test_versions_are_ordered_by_their_numbers() -> None:
    names = ["0.1", "0.1.1", "0.2.0rc1", "0.10.0", "1", "1.0.999999", "999999.999999.999999"]
    ranks = [version_rank(name) or 0 for name in names]
    assert ranks == sorted(set(ranks))
    assert [version_rank(name) for name in ("", "v1", "1234567", "١")] == [None] * 4
