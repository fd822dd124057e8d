"""Counting of n-grams in sequences of integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...errors import ModelError
from ...ir import Array, DType, Value
from .registry import NodeContext, Operand, converts


@converts("TfIdfVectorizer")
def tfidf(c: NodeContext) -> Sequence[Operand]:
    """[time] or [batch, time] -> how often each n-gram of the pool occurs, weighted; the items of an n-gram may lie
    up to `max_skip_count` items apart."""
    if c.attr("pool_strings", ()):
        raise c.unsupported("a pool of strings")
    x, indexes, e = c.value(0), c.attr("ngram_indexes", ()), c.e
    size, skips = max(indexes) + 1, c.attr("max_skip_count", 0)
    rows = x if x.type.rank == 2 else e.reshape(x, (1, x.type.size))
    counts = e.broadcast_to(e.const(0.0, DType.F32), (rows.type.shape[0], size))
    for grams, places in _pool(c, indexes):
        for distance in range(1, 2 if grams.shape[1] == 1 else skips + 2):
            found = _occurrences(c, rows, grams, distance)
            if found is not None:
                counts = e.add(counts, e.op("scatter_add", found, e.const(places), axis=1, size=size))
    result = _weighted(c, counts)
    return [result if x.type.rank == 2 else e.reshape(result, (size,))]


def _pool(c: NodeContext, indexes: Sequence[int]) -> Iterator[tuple[Array, Array]]:
    """For each length asked for: the n-grams [count, length], and where in the result each is counted."""
    starts: tuple[int, ...] = c.attr("ngram_counts", ())
    pool = np.asarray(c.attr("pool_int64s", ()), np.int64)
    least, most = c.attr("min_gram_length", 1), c.attr("max_gram_length", 1)
    first = 0
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], len(pool)], strict=True), start=1):
        grams = pool[start:stop].reshape(-1, length)
        places = np.asarray(indexes[first : first + len(grams)], np.int64)
        first += len(grams)
        if len(grams) and least <= length <= most:
            yield grams, places


def _occurrences(c: NodeContext, rows: Value, grams: Array, distance: int) -> Value | None:
    """[batch, count]: at how many places each n-gram stands, items `distance` apart; None where there is no room."""
    batch, time = rows.type.shape
    places = time - distance * (grams.shape[1] - 1)
    if places <= 0:
        return None
    hits: Value | None = None
    for item in range(grams.shape[1]):
        start = item * distance
        seen = c.e.op("slice", rows, starts=(0, start), stops=(batch, start + places), steps=(1, 1))
        wanted = c.e.const(grams[:, item].astype(rows.type.dtype.numpy))
        equal = c.e.op("equal", c.e.reshape(seen, (batch, places, 1)), wanted)
        hits = equal if hits is None else c.e.op("logical_and", hits, equal)
    assert hits is not None
    return c.e.sum(c.e.cast(hits, DType.F32), [1], keepdims=False)


def _weighted(c: NodeContext, counts: Value) -> Value:
    mode, weights = c.attr("mode", ""), c.attr("weights", ())
    weight: Value | float = c.e.const(np.asarray(weights, np.float32)) if weights else 1.0
    if mode == "TF":
        return counts
    if mode == "TFIDF":
        return c.e.mul(counts, weight)
    if mode == "IDF":
        return c.e.mul(c.e.cast(c.e.less(0.0, counts), DType.F32), weight)
    raise ModelError(f"{c.where} has the unknown mode '{mode}'")
