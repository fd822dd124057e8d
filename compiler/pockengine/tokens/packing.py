"""Which pieces share a sequence: none is cut that fits into one, and little is padded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import numpy as np

from ..ir import Array


class Long(StrEnum):
    """What becomes of a document that is longer than a sequence."""

    SPLIT = "split"
    """Its pieces are documents of their own."""
    CUT = "cut"
    """Its beginning stays, the rest is left off: of a conversation, nothing is learned without what led to it."""


def pieces_of(starts: Array, length: int, long: Long = Long.SPLIT) -> Array:
    """i64 [pieces, 2]: where each piece begins and ends. Of a document longer than `length` tokens, `long` decides."""
    found = [
        (begin, min(begin + length, int(end)))
        for start, end in pairwise(starts)
        for begin in range(int(start), int(end), length)
        if long is Long.SPLIT or begin == start
    ]
    return np.array(found, np.int64).reshape(-1, 2)


def packed(lengths: Sequence[int], length: int, seed: int) -> list[list[int]]:
    """Numbers of the pieces of each sequence of `length` tokens: best fit, the longest first (Johnson 1973), equally
    long ones and the sequences in an order by `seed`. Each of `lengths` is 1 to `length`."""
    random = np.random.default_rng(seed)
    shuffled = random.permutation(len(lengths))
    order = shuffled[np.argsort(-np.asarray(lengths, np.int64)[shuffled], kind="stable")]
    sequences: list[list[int]] = []
    open_by_room: defaultdict[int, list[int]] = defaultdict(list)
    rooms = 0  # bit r is set where an open sequence has room for r more
    for piece in map(int, order):
        needed = lengths[piece]
        fitting = rooms >> needed
        if fitting:
            room = needed + (fitting & -fitting).bit_length() - 1
            at = open_by_room[room].pop()
            rooms &= ~(1 << room) if not open_by_room[room] else -1
            sequences[at].append(piece)
        else:
            room, at = length, len(sequences)
            sequences.append([piece])
        if room > needed:
            open_by_room[room - needed].append(at)
            rooms |= 1 << (room - needed)
    return [sequences[at] for at in random.permutation(len(sequences))]
