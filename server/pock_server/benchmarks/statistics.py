"""Exact statistics of few numbers, without an assumption about how they are distributed.

Must not know what was measured. Source: Conover, Practical Nonparametric Statistics, sections 3.2 and 5.1.
"""

from collections.abc import Sequence
from functools import lru_cache
from math import comb, inf

CONFIDENCE = 0.95


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle. There is at least one value."""
    ordered, count = sorted(values), len(values)
    return (ordered[(count - 1) // 2] + ordered[count // 2]) / 2


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Two of the values that have the true median between them with 95 %; None for fewer than six values."""
    ordered, count = sorted(values), len(values)
    rank, outside = 0, 0.0
    while rank < count // 2 and outside + 2 * comb(count, rank) / 2**count <= 1 - CONFIDENCE:
        outside += 2 * comb(count, rank) / 2**count
        rank += 1
    return (ordered[rank - 1], ordered[count - rank]) if rank else None


def rank_test(first: Sequence[float], second: Sequence[float]) -> float:
    """How probable it is that two samples of one distribution differ at least as much: Mann and Whitney, two-sided."""
    above = slower(first, second)
    below = slower(second, first)
    return min(1.0, 2 * min(above, below))


def slower(first: Sequence[float], second: Sequence[float]) -> float:
    """How probable it is that of two samples of one distribution the first is larger at least as clearly.

    All ways to divide the values are counted, so ties and small samples are exact.
    """
    ranks = _double_ranks([*first, *second])
    counts = _subset_sums(tuple(sorted(ranks)), len(first))
    found = sum(ranks[: len(first)])
    return sum(counts[found:]) / comb(len(ranks), len(first))


def ratio_interval(first: Sequence[float], second: Sequence[float]) -> tuple[float, float] | None:
    """Between which two numbers the ratio of the first to the second lies with 95 %: those that the rank test does not
    refuse. None for so few values that it refuses none."""
    ratios = sorted(one / other if other else inf for one in first for other in second)
    ways, outside, rank = comb(len(first) + len(second), len(first)), 0, 0
    counts = _subset_sums(tuple(range(1, len(first) + len(second) + 1)), len(first))
    least = len(first) * (len(first) + 1) // 2
    while rank < len(ratios) // 2 and 2 * (outside + counts[least + rank]) <= (1 - CONFIDENCE) * ways:
        outside += counts[least + rank]
        rank += 1
    return (ratios[rank - 1], ratios[len(ratios) - rank]) if rank else None


def _double_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, from 1; equal values share the mean of theirs, which doubled is a whole number."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks, start = [0] * len(values), 0
    while start < len(order):
        end = start
        while end < len(order) and values[order[end]] == values[order[start]]:
            end += 1
        for place in order[start:end]:
            ranks[place] = start + 1 + end
        start = end
    return ranks


@lru_cache(maxsize=64)
def _subset_sums(ranks: tuple[int, ...], size: int) -> list[int]:
    """How many subsets of `size` of the ranks have each sum, from 0 on.

    The counts of one size are the digits of a long integer, so that a rank is added to all of them by one shift.
    """
    width = len(ranks) // 8 + 1  # bytes of a digit: a count is below 2 ** len(ranks)
    by_size = [1] + [0] * size
    for rank in ranks:
        for count in range(size, 0, -1):
            by_size[count] += by_size[count - 1] << (8 * width * rank)
    highest = sum(sorted(ranks)[len(ranks) - size :])
    digits = by_size[size].to_bytes((highest + 1) * width, "little")
    return [int.from_bytes(digits[place : place + width], "little") for place in range(0, len(digits), width)]
