"""Exact statistics, against SciPy and against counting."""

import itertools
import random

import pytest
from scipy import stats

from pock_server.benchmarks.statistics import median, median_interval, rank_test, ratio_interval, slower


@pytest.mark.parametrize("sizes", [(1, 1), (3, 4), (7, 7), (5, 12), (20, 17)], ids=str)
def test_the_rank_test_is_that_of_scipy(sizes: tuple[int, int]) -> None:
    source = random.Random(str(sizes))
    for shift in (0.0, 0.5, 2.0):
        first = [source.gauss(0, 1) + shift for _ in range(sizes[0])]
        second = [source.gauss(0, 1) for _ in range(sizes[1])]
        exact = {"method": "exact"}
        assert rank_test(first, second) == pytest.approx(stats.mannwhitneyu(first, second, **exact).pvalue)
        one_sided = stats.mannwhitneyu(first, second, alternative="greater", **exact).pvalue
        assert slower(first, second) == pytest.approx(one_sided)


def test_ties_are_counted_exactly() -> None:
    first, second = [2.0, 2.0, 3.0], [1.0, 2.0, 2.0, 3.0]
    values = [*first, *second]
    ranks = stats.rankdata(values)
    found = sum(ranks[:3])
    ways = [sum(ranks[place] for place in some) for some in itertools.combinations(range(7), 3)]
    assert slower(first, second) == pytest.approx(sum(one >= found for one in ways) / len(ways))
    assert rank_test([1.0] * 7, [1.0] * 7) == 1.0


def test_the_largest_samples_that_are_compared() -> None:
    source = random.Random(0)
    first, second = ([source.random() for _ in range(50)] for _ in range(2))
    wanted = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert rank_test(first, second) == pytest.approx(wanted)


def test_the_interval_of_a_ratio_is_what_the_rank_test_does_not_refuse() -> None:
    source = random.Random(1)
    first, second = ([source.gauss(10, 1) for _ in range(7)] for _ in range(2))
    low, high = ratio_interval(first, second) or (0.0, 0.0)
    for factor, refused in ((low * 0.999, True), (low * 1.001, False), (high * 0.999, False), (high * 1.001, True)):
        assert (rank_test(first, [value * factor for value in second]) <= 0.05) == refused
    assert ratio_interval([1.0, 2.0], [1.0, 2.0]) is None


@pytest.mark.parametrize(("count", "places"), [(5, None), (6, (0, 5)), (8, (0, 7)), (9, (1, 7)), (20, (5, 14))])
def test_the_interval_of_a_median(count: int, places: tuple[int, int] | None) -> None:
    """The places are those of the binomial distribution's 2.5 % (Conover, table A3)."""
    values = [float(one) for one in range(count)]
    wanted = None if places is None else (values[places[0]], values[places[1]])
    assert median_interval(random.Random(2).sample(values, count)) == wanted


def test_the_median() -> None:
    assert (median([3.0, 1.0, 2.0]), median([4.0, 1.0, 2.0, 3.0]), median([7.0])) == (2.0, 2.5, 7.0)
