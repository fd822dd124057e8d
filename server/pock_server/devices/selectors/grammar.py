"""Selectors: how people say which devices they mean. This module reads them and knows nothing of any database.

    selector = term {"," term}                 all terms hold
    term     = [key ("=" | "!=" | ">=" | "<=" | ">" | "<")] value
    value    = text without , " = ! < >        in which * stands for any characters and ? for one
             | '"' text '"'                    which means itself; \\" and \\\\ stand for " and \\

A term without a key is a name, or an id if it has the form of one. A key that is none of `Key` is a label.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from pock_server.devices.selectors.versions import version_rank
from pock_server.devices.states import DeviceState
from pock_server.http.fields import UUID

MAX_CHARACTERS = 2000
MAX_TERMS = 32
_MAX_VALUE = 200


class Key(StrEnum):
    """What every device has, known or not."""

    ID = "id"
    """The service's own name of it."""
    NAME = "name"
    """Its name."""
    POOL = "pool"
    """The pool that it was let into."""
    TARGET = "target"
    """The target that it says it is."""
    ARCH = "arch"
    """Its processor's architecture."""
    STATE = "state"
    """What a person sees: online, offline, busy, quarantined, revoked."""
    RAM = "ram"
    """Its memory, in bytes."""
    CORES = "cores"
    """Processors that the agent may use."""
    AGENT = "agent"
    """Version of its agent, as `version_rank` orders them."""


class Comparison(StrEnum):
    """How a term compares."""

    EQUAL = "="
    """It is what is wanted; what is not known is not."""
    OTHER = "!="
    """It is something else, or not known."""
    AT_LEAST = ">="
    """It is known, and no less."""
    AT_MOST = "<="
    """It is known, and no more."""
    MORE = ">"
    """It is known, and more."""
    LESS = "<"
    """It is known, and less."""


@dataclass(frozen=True)
class Text:
    """A text to compare with; `exact`: its `*` and `?` stand for themselves."""

    text: str
    exact: bool


@dataclass(frozen=True)
class Term:
    """One condition. `key` is a label's, as a plain text, unless it is a `Key`."""

    key: Key | str
    comparison: Comparison
    value: Text | int | DeviceState


class BadSelector(ValueError):
    """A sentence's beginning about what is wrong, and at which character, counted from 1."""

    def __init__(self, reason: str, place: int) -> None:
        super().__init__(f"{reason}, at character {place}")
        self.place = place


def parse(selector: str) -> tuple[Term, ...]:
    """The terms of a selector, in its order; raises `BadSelector`. Time grows with its length alone."""
    if len(selector) > MAX_CHARACTERS:
        raise BadSelector(f"a selector has at most {MAX_CHARACTERS} characters", MAX_CHARACTERS + 1)
    terms: list[Term] = []
    for place, part in _parts(selector):
        if len(terms) == MAX_TERMS:
            raise BadSelector(f"a selector has at most {MAX_TERMS} terms", place + 1)
        terms.append(_term(part, place))
    return tuple(terms)


def _parts(selector: str) -> Iterator[tuple[int, str]]:
    """What stands between commas that are not quoted, and where it begins."""
    start, quoted, escaped = 0, False, False
    for place, character in enumerate(selector):
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            yield start, selector[start:place]
            start = place + 1
    yield start, selector[start:]


_TERM = re.compile(r'([^"=!<>]*)(!=|>=|<=|=|>|<)(.*)', re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./\-]{0,62}")
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')
_SIGNS = re.compile(r'[",=!<>]')


def _term(part: str, place: int) -> Term:
    found = _TERM.fullmatch(part)
    key, sign, value = found.groups() if found else ("", "=", part)
    place += len(key) + len(sign) if found else 0
    wanted = _text(value, place + len(value) - len(value.lstrip()))
    if found is None:
        is_id = re.fullmatch(UUID, wanted.text) is not None and not wanted.exact
        return Term(Key.ID if is_id else Key.NAME, Comparison.EQUAL, wanted)
    key, comparison = key.strip(), Comparison(sign)
    begin = place - len(sign) - len(found.group(1)) + 1
    if not _LABEL.fullmatch(key):
        raise BadSelector(f"{key[:40]!r} is no key: one has at most 63 letters, digits and _ . / -", begin)
    if key not in _VALUES:
        _refuse_order(key, comparison, begin)
        return Term(key, comparison, wanted)
    read, ordered = _VALUES[Key(key)]
    if not ordered:
        _refuse_order(key, comparison, begin)
    try:
        return Term(Key(key), comparison, read(wanted))
    except ValueError as error:
        raise BadSelector(f"{key} {error}", place + 1) from None


def _refuse_order(key: str, comparison: Comparison, place: int) -> None:
    if comparison not in (Comparison.EQUAL, Comparison.OTHER):
        raise BadSelector(f"{key} has no order: compare it by = or !=", place)


def _text(value: str, place: int) -> Text:
    """The value of a term, which begins at `place`."""
    value = value.strip()
    quoted = _QUOTED.fullmatch(value)
    text = re.sub(r"\\(.)", r"\1", quoted.group(1)) if quoted else value
    sign = None if quoted else _SIGNS.search(value)
    if sign is not None:
        raise BadSelector(f"a value with {sign.group()} in it stands in quotes", place + sign.start() + 1)
    if not text:
        raise BadSelector("a value is missing", place + 1)
    if len(text) > _MAX_VALUE:
        raise BadSelector(f"a value has at most {_MAX_VALUE} characters", place + 1)
    return Text(text, exact=quoted is not None)


_BYTES = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) ?([A-Za-z]{0,3})")
_UNITS = {"": 1, "b": 1} | {
    f"{prefix}{end}": base ** (power + 1)
    for end, base in (("ib", 1024), ("b", 1000))
    for power, prefix in enumerate("kmgt")
}


def _bytes(value: Text) -> int:
    found = _BYTES.fullmatch(value.text)
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ValueError("is a number of bytes, such as 2GiB or 512MB")
    size = int(Fraction(found.group(1)) * unit)
    if size >= 2**63:
        raise ValueError("is less than 8388608TiB")
    return size


def _cores(value: Text) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value.text):
        raise ValueError("is a whole number")
    return int(value.text)


def _version(value: Text) -> int:
    rank = version_rank(value.text) if re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6}){0,2}", value.text) else None
    if rank is None:
        raise ValueError("is a version, such as 0.2 or 1.0.3")
    return rank


def _state(value: Text) -> DeviceState:
    if value.text not in frozenset(DeviceState):
        raise ValueError(f"is one of {', '.join(DeviceState)}")
    return DeviceState(value.text)


def _same(value: Text) -> Text:
    return value


Read = Callable[[Text], Text | int | DeviceState]
_VALUES: dict[str, tuple[Read, bool]] = {
    Key.ID: (_same, False),
    Key.NAME: (_same, False),
    Key.POOL: (_same, False),
    Key.TARGET: (_same, False),
    Key.ARCH: (_same, False),
    Key.STATE: (_state, False),
    Key.RAM: (_bytes, True),
    Key.CORES: (_cores, True),
    Key.AGENT: (_version, True),
}
"""How the value of each key is read, and whether more and less of it mean something."""
