"""Exchanges: what a choice trains makes room for what brings more, one unit for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

from ..space import Choice, with_option
from .problem import Gains

_LEAST = 1e-9
"""The part of what is added that an exchange has to bring: it is more than the order of a sum makes."""


def exchanged(gains: Gains, choice: Choice, fits: Callable[[Choice], bool], asked: int) -> Choice:
    """A choice with what else fits, or fits where another unit trains less: the largest gains first, then the least
    losses, again and again, until nothing does or `fits` was asked so often."""
    left = asked
    while True:
        for candidate in _neighbours(gains, choice):
            if not left:
                return choice
            left -= 1
            if fits(candidate):
                choice = candidate
                break
        else:
            return choice


def improvements(gains: Gains, choice: Choice) -> list[tuple[int, int]]:
    """Units and options that would bring more than what is chosen of them, the largest gains first."""
    more = [
        (unit, option)
        for unit, options in enumerate(gains)
        for option in range(1, len(options))
        if options[option] > options[choice[unit]]
    ]
    return sorted(more, key=lambda one: gains[one[0]][choice[one[0]]] - gains[one[0]][one[1]])


def _neighbours(gains: Gains, choice: Choice) -> Iterator[Choice]:
    """Choices that bring more: with one unit more, or with that and less of another one."""
    for unit, option in improvements(gains, choice):
        more = with_option(choice, unit, option)
        added = gains[unit][option] - gains[unit][choice[unit]]
        yield from chain([more], _reduced(gains, more, unit, added * (1 - _LEAST)))


def _reduced(gains: Gains, choice: Choice, kept: int, most: float) -> Iterator[Choice]:
    """With less of one unit, not of `kept`, at a loss below `most`; the least losses first."""
    losses = [
        (options[choice[unit]] - options[option], unit, option)
        for unit, options in enumerate(gains)
        if choice[unit] and unit != kept
        for option in range(len(options))
        if option != choice[unit] and 0 <= options[choice[unit]] - options[option] < most
    ]
    return (with_option(choice, unit, option) for _, unit, option in sorted(losses))
