"""Numbers that look random, are the same in numpy and in C, and need no state: what a trial's operands are made of."""

from __future__ import annotations

import numpy as np

from ...ir import Array
from ...ops.random import MULTIPLIER, ROUNDS, WEYL

PHILOX = f"""
/* Word 0 of Philox2x32-{ROUNDS}. */
static inline uint32_t philox(uint32_t first, uint32_t second, uint32_t key)
{{
    for (int round = 0; round < {ROUNDS}; ++round) {{
        const uint64_t product = (uint64_t)first * {MULTIPLIER}u;
        first = (uint32_t)(product >> 32) ^ key ^ second;
        second = (uint32_t)product;
        key += {WEYL}u;
    }}
    return first;
}}
"""
"""C of the generator of `bernoulli`: see ops/random.py."""


def pick(seed: int, count: int, choices: int) -> Array:
    """`count` whole numbers below `choices` [count], of which number i depends on seed + i: the finaliser of C.
    Wellons' lowbias32 (nullprogram.com/blog/2018/07/31), and the high half of a product. trials.c has the same."""
    x = np.arange(count, dtype=np.uint32) + np.uint32(seed)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    return np.asarray((x.astype(np.uint64) * np.uint64(choices)) >> np.uint64(32)).astype(np.int64)
