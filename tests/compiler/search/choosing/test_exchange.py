"""Exchanges: what fits stays within the limits, brings no less, and cannot be made better by one more."""

from __future__ import annotations

import itertools

import pytest

from pockengine.search import Choice
from pockengine.search.choosing import gain_of
from pockengine.search.choosing.exchange import exchanged, improvements
from tests.compiler.search.choosing.problems import choices, random_problem


def differing(one: Choice, other: Choice) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_left_to_exchange(seed: int) -> None:
    problem = random_problem(seed)
    begin = next((choice for choice in choices(problem.gains) if problem.allows(choice)), None)
    if begin is None:
        return
    found = exchanged(problem.gains, begin, problem.allows, asked=100_000)
    gain = gain_of(problem.gains, found)
    assert problem.allows(found) and gain >= gain_of(problem.gains, begin)
    for other in choices(problem.gains):
        better = [unit for unit, option in improvements(problem.gains, found) if other[unit] == option]
        if differing(found, other) <= 2 and len(better) == 1 and problem.allows(other):
            assert gain_of(problem.gains, other) <= gain + 1e-6


def test_one_unit_makes_room_for_another() -> None:
    gains = ((0.0, 2.0, 3.0), (0.0, 4.0), (0.0, 1.0))
    takes = ((0, 2, 4), (0, 3), (0, 1))

    def fits(choice: Choice) -> bool:
        return sum(row[option] for row, option in zip(takes, choice, strict=True)) <= 5

    assert exchanged(gains, (2, 0, 1), fits, asked=100) == (1, 1, 0)


def test_no_more_is_asked_than_said() -> None:
    problem = next(made for made in map(random_problem, itertools.count()) if len(made.gains) == 5)
    asked: list[Choice] = []

    def fits(choice: Choice) -> bool:
        asked.append(choice)
        return False

    begin = (1, 0, 0, 0, 0)
    assert exchanged(problem.gains, begin, fits, asked=3) == begin and len(asked) == 3
