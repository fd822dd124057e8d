"""Spearman's rank correlation."""

from __future__ import annotations

import numpy as np
import pytest

from pockengine.search.contributions import rank_correlation
from pockengine.search.contributions.ranks import ranks


def test_ties_share_the_mean_of_their_ranks() -> None:
    assert ranks(np.array([10.0, 20.0, 10.0, 5.0])).tolist() == [2.5, 4.0, 2.5, 1.0]


def test_known_values() -> None:
    x = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert rank_correlation(x, np.exp(x)) == pytest.approx(1.0)
    assert rank_correlation(x, -(x**3)) == pytest.approx(-1.0)
    assert rank_correlation(x, np.array([2.0, 1.0, 4.0, 3.0, 5.0])) == pytest.approx(1 - 6 * 4 / (5 * 24))


def test_as_scipy_says() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(2)
    for _ in range(20):
        x, y = rng.integers(0, 6, 15).astype(float), rng.standard_normal(15)
        assert rank_correlation(x, y) == pytest.approx(stats.spearmanr(x, y).statistic)


def test_nothing_to_rank() -> None:
    assert np.isnan(rank_correlation(np.ones(4), np.arange(4.0)))
    assert np.isnan(rank_correlation(np.ones(0), np.ones(0)))
    with pytest.raises(ValueError, match="3 and 4"):
        rank_correlation(np.ones(3), np.ones(4))
