"""How alike two rankings are."""

from __future__ import annotations

import numpy as np

from ...ir import Array


def rank_correlation(first: Array, second: Array) -> float:
    """Spearman's: Pearson's correlation of the ranks, equal numbers sharing the mean of theirs. Arrays of one length,
    f64 [n]; NaN where one of them is all the same, or n is below 2."""
    if len(first) != len(second):
        raise ValueError(f"rankings of {len(first)} and {len(second)} things do not compare")
    a, b = _centred(ranks(np.asarray(first))), _centred(ranks(np.asarray(second)))
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / scale if scale else float("nan")


def ranks(values: Array) -> Array:
    """The rank of each number from 1, equal ones sharing the mean of theirs: f64 [n]."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    found: Array = (last - (counts - 1) / 2.0)[place]
    return found


def _centred(values: Array) -> Array:
    centred: Array = values - values.mean() if len(values) else values
    return centred
