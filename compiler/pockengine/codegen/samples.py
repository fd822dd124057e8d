"""Which samples of a dataset a step takes, and which are held out.

It is what the C runtime's `order.c` and `split.c` do, so that runs compare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import DataError
from ..ir import Array

ROUNDS = 8
_MASK = (1 << 64) - 1


def _mix(value: int) -> int:
    """splitmix64's finaliser (Steele, Lea, Flood 2014)."""
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _feistel(value: int, key: int, half_bits: int) -> int:
    """A permutation of the numbers of 2 * half_bits bits, whatever the round function is."""
    mask = (1 << half_bits) - 1
    left, right = value >> half_bits, value & mask
    for number in range(ROUNDS):
        left, right = right, left ^ (_mix(right ^ _mix((key + number) & _MASK)) & mask)
    return (left << half_bits) | right


def held_out(samples: int, share: float, seed: int, classes: Array | None) -> Array:
    """bool[samples]: a share of each class, the same for the same seed and classes; at least one of each is left.

    `classes` [samples] orders and tells apart classes by number; None: all samples are alike. Raises DataError where
    not one would be held out. Selection sampling (Knuth, The Art of Computer Programming 3.4.2, algorithm S)."""
    if not 0 < share < 1:
        raise DataError(f"the share to hold out is a number between 0 and 1, such as 0.2, not {share}")
    of = np.zeros(samples, np.int64) if classes is None else np.unique(classes, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(of)
    wanted = np.floor(share * np.cumsum(sizes) + 0.5).astype(np.int64)
    quotas = np.minimum(np.diff(wanted, prepend=0), sizes - 1)
    if not quotas.any():
        raise DataError(f"{share:g} of {samples} samples holds out none: give more samples or a larger share")
    left, needed = sizes.tolist(), quotas.tolist()
    chosen = np.zeros(samples, bool)
    for sample, one in enumerate(of.tolist()):
        taken = _mix(seed ^ _mix(sample)) % left[one] < needed[one]
        chosen[sample] = taken
        needed[one] -= taken
        left[one] -= 1
    return chosen


@dataclass(frozen=True)
class Order:
    """The endless stream of a dataset's samples, each epoch in an order of its own; `seed` None: as they are stored."""

    samples: int
    seed: int | None

    def at(self, position: int) -> int:
        """The sample at a position of the stream: cycle walking (Black and Rogaway 2002)."""
        epoch, index = divmod(position, self.samples)
        if self.seed is None:
            return index
        half_bits = 1
        while half_bits < 32 and 1 << (2 * half_bits) < self.samples:
            half_bits += 1
        key = _mix(self.seed ^ _mix(epoch))
        index = _feistel(index, key, half_bits)
        while index >= self.samples:
            index = _feistel(index, key, half_bits)
        return index


@dataclass(frozen=True)
class Stream:
    """How training goes through a dataset: `step_samples` at a time, what is left as `last_batch` says."""

    order: Order
    step_samples: int
    last_batch: str

    @property
    def _epoch_steps(self) -> int:
        """Steps of one epoch, where each epoch begins with a step."""
        whole, rest = divmod(self.order.samples, self.step_samples)
        return whole + (self.last_batch == "partial" and rest > 0)

    @property
    def possible(self) -> bool:
        """Whether a step finds enough samples."""
        return self.last_batch == "wrap" or self._epoch_steps > 0

    def positions(self, step: int) -> range:
        """The positions in the stream of a step's samples, fewer than `step_samples` at a partial end."""
        if self.last_batch == "wrap":
            return range(step * self.step_samples, (step + 1) * self.step_samples)
        epoch, within = divmod(step, self._epoch_steps)
        first = epoch * self.order.samples
        start = first + within * self.step_samples
        return range(start, min(start + self.step_samples, first + self.order.samples))

    def epoch(self, step: int) -> int:
        """The epoch of a step's first sample, from 0."""
        return self.positions(step).start // self.order.samples

    def steps(self, epochs: int) -> int:
        """Steps of so many epochs."""
        if self.last_batch == "wrap":
            return -(-epochs * self.order.samples // self.step_samples)
        return epochs * self._epoch_steps
