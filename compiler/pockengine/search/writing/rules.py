"""From a choice to update rules: few of them, that train exactly what was chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from glob import escape
from typing import Any, TypeVar

from ...recipe import Recipe, resolve
from ...recipe.resolution.scheme import most_important
from ..space import Choice, Importance, Space, Unit

_T = TypeVar("_T")
_SPECIAL = frozenset("*?[]")
_MOST_TOKENS = 12
"""Names of more parts than this get no patterns: their number grows with the square."""

Part = str | int | float | tuple[int, ...]
"""What becomes of a unit: `frozen`, `all`, or the channels that are trained: their share, number or indices."""

Rule = dict[str, Any]
"""As a recipe has it."""


def few_rules(space: Space, choice: Choice, importance: Importance | None = None) -> Recipe:
    """The base recipe that trains what was chosen, in as few rules as were found. It means the same as `space.recipe`,
    which it is where a pattern would mean anything else. Raises RecipeError where nothing is chosen."""
    importance = importance or {}
    plain = space.recipe(choice, importance)
    wanted = resolve(plain, space.graph).updates
    names = [unit.name for unit in space.units]
    patterns = list(_patterns(names))
    lists = [
        find(names, patterns, parts)
        for parts in (_shares(space, choice, importance), _counts(space, choice, importance))
        for find in (_behind_exceptions, _wide_first)
    ]
    for rules in sorted(lists, key=len):
        found = plain.with_(update=rules)
        if len(rules) < len(plain.update) and resolve(found, space.graph).updates == wanted:
            return found
    return plain


def few_patterns(names: Sequence[str], parts: Mapping[str, _T]) -> list[tuple[str, _T]]:
    """Patterns for `fnmatch`, of which the first that matches gives each of the names its part; those without a part
    match none."""
    known = list(dict.fromkeys(parts.values()))
    places: list[Part] = [known.index(parts[name]) if name in parts else "frozen" for name in names]
    found = []
    for pattern, part in _covering(names, list(_patterns(names)), places, ends=False):
        assert isinstance(part, int)
        found.append((escape(pattern.text) if len(pattern.places) == 1 else pattern.text, known[part]))
    return found


def _shares(space: Space, choice: Choice, importance: Importance) -> list[Part]:
    """Channels as a share, which one rule can say of weights of any width."""
    return _parts(space, choice, importance, Unit.share)


def _counts(space: Space, choice: Choice, importance: Importance) -> list[Part]:
    """Channels as a number."""
    return _parts(space, choice, importance, Unit.channels)


def _parts(
    space: Space, choice: Choice, importance: Importance, some: Callable[[Unit, int], float | int]
) -> list[Part]:
    parts: list[Part] = []
    for unit, option in zip(space.units, choice, strict=True):
        if unit.share(option) in (0, 1):
            parts.append("all" if unit.share(option) else "frozen")
        elif unit.name in importance:
            parts.append(most_important(importance[unit.name], unit.channels(option)))
        else:
            parts.append(some(unit, option))
    return parts


@dataclass(frozen=True)
class _Pattern:
    """A pattern, the places of the names that it matches, and, with `last`, how many of them from behind are meant."""

    text: str
    places: tuple[int, ...]
    last: int | None = None

    @property
    def claims(self) -> tuple[int, ...]:
        return self.places if self.last is None else self.places[-self.last :]


def _wide_first(names: Sequence[str], patterns: Sequence[_Pattern], parts: Sequence[Part]) -> list[Rule]:
    """Rules from the first on: one that covers most of what no rule has, again and again."""
    return [_rule(pattern, part) for pattern, part in _covering(names, patterns, parts, ends=True)]


def _covering(
    names: Sequence[str], patterns: Sequence[_Pattern], parts: Sequence[Part], ends: bool
) -> Iterator[tuple[_Pattern, Part]]:
    """Patterns with the part that they give; the first that matches counts. A pattern may match what an earlier one has
    already, but nothing of another part. `ends`: also of the last few that a pattern matches."""
    left = {place for place, part in enumerate(parts) if part != "frozen"}
    claimed: set[int] = set()
    while left:
        best, covered = _Pattern(names[min(left)], (min(left),)), 1
        lasts = (one for pattern in patterns for one in _lasts(pattern, parts, claimed)) if ends else ()
        for pattern in (*patterns, *lasts):
            new = [place for place in pattern.claims if place not in claimed]
            if len(new) > covered and len({parts[place] for place in new}) == 1 and parts[new[0]] != "frozen":
                best, covered = pattern, len(new)
        new_places = set(best.claims) - claimed
        yield best, parts[min(new_places)]
        claimed |= new_places
        left -= new_places


def _behind_exceptions(names: Sequence[str], patterns: Sequence[_Pattern], parts: Sequence[Part]) -> list[Rule]:
    """Rules from the last on: one that is right of most, behind rules for those of which it is wrong. A pattern may
    match nothing that is frozen."""
    fitting = [pattern for pattern in patterns if all(parts[place] != "frozen" for place in pattern.places)]
    left = {place for place, part in enumerate(parts) if part != "frozen"}
    rules: list[Rule] = []
    while left:
        best, best_part, most = _Pattern(names[min(left)], (min(left),)), parts[min(left)], 1
        for pattern in fitting:
            for part in dict.fromkeys(parts[place] for place in pattern.places):
                right = sum(parts[place] == part and place in left for place in pattern.places)
                broken = sum(parts[place] != part and place not in left for place in pattern.places)
                if right - broken > most:
                    best, best_part, most = pattern, part, right - broken
        rules.append(_rule(best, best_part))
        left = {place for place in left if place not in best.places or parts[place] != best_part}
        left |= {place for place in best.places if parts[place] != best_part}
    return rules[::-1]


def _rule(pattern: _Pattern, part: Part) -> Rule:
    rule: Rule = {"params": pattern.text}
    if pattern.last is not None:
        rule["last"] = pattern.last
    return rule if part == "all" else {**rule, "channels": part}


def _lasts(pattern: _Pattern, parts: Sequence[Part], claimed: set[int]) -> Iterator[_Pattern]:
    """The longest end of what a pattern matches that is of one part: `last: k`."""
    part, count = None, 0
    for place in reversed(pattern.places):
        if place not in claimed:
            if parts[place] == "frozen" or part not in (None, parts[place]):
                break
            part = parts[place]
        count += 1
    if part is not None and 1 < count < len(pattern.places):
        yield _Pattern(pattern.text, pattern.places, count)


def _patterns(names: Sequence[str]) -> Iterator[_Pattern]:
    """Patterns that match several names, the plainest first; each set of names once."""
    texts: dict[str, None] = {"*": None}
    tokens = {name: name.split(".") for name in names if not _SPECIAL & set(name)}
    for parts in tokens.values():
        if len(parts) <= _MOST_TOKENS:
            texts |= dict.fromkeys(_wild(parts))
    for parts in tokens.values():
        if len(parts) <= _MOST_TOKENS:
            texts |= dict.fromkeys(_ranges(parts, tokens.values()))
    seen: set[tuple[int, ...]] = set()
    for text in sorted(texts, key=lambda text: (text.count("["), text.count("*"), len(text), text)):
        matches = re.compile(translate(text)).match
        places = tuple(place for place, name in enumerate(names) if matches(name))
        if len(places) > 1 and places not in seen:
            seen.add(places)
            yield _Pattern(text, places)


def _wild(parts: list[str]) -> Iterator[str]:
    """Everything between two parts left open: `encoder.*`, `*.bias`, `encoder.*.bias`."""
    for start in range(len(parts)):
        for stop in range(start + 1, len(parts) + 1):
            yield ".".join([*parts[:start], "*", *parts[stop:]])


def _ranges(parts: list[str], every: Any) -> Iterator[str]:
    """Runs of a number's last digit: `layer.1[0-5].*`, with what may stand behind it."""
    for place, part in enumerate(parts):
        if not part.isascii() or not part.isdigit():
            continue
        before = parts[:place]
        digits = {other[place][-1] for other in every if _beside(other, parts, place)}
        for last in sorted(digits):
            if part[-1] < last:
                run = ".".join([*before, f"{part[:-1]}[{part[-1]}-{last}]"])
                yield ".".join([run, *parts[place + 1 :]])
                for kept in range(place + 1, len(parts) + 1):
                    yield ".".join([run, "*", *parts[kept:]])


def _beside(other: list[str], parts: list[str], place: int) -> bool:
    """Whether two names differ, up to a place, in that number's last digit at most."""
    return (
        len(other) > place
        and other[:place] == parts[:place]
        and other[place][:-1] == parts[place][:-1]
        and other[place].isdigit()
        and len(other[place]) == len(parts[place])
    )
