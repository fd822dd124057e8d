"""Random numbers that a step can repeat: a counter-based generator, dropout written with it, and a hash.

The generator is Philox2x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Random123). It
keeps nothing between calls: each element of each mask of each step is a function of the element's index, the step's
generator number and the number of the site in the graph, so that any number of threads gives the same bits.

The hash (`uniform`) is a function of the same three, written in elementwise operators: it is fused into what reads the
numbers, so that they are never in memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..ir import Array, Attrs, DType, TensorType, Value
from .composites import composite
from .emitter import Emitter
from .movement import ints
from .registry import LINEAR, Kind, Op, Sample, register

MULTIPLIER, WEYL, ROUNDS = 0xD256D193, 0x9E3779B9, 10
_GOLDEN = 0x9E3779B9
_MIXING = ((16, 0x7FEB352D), (15, 0x846CA68B))


def philox2x32(counter: tuple[Array, Array], key: Array) -> tuple[Array, Array]:
    """Two random words for each counter of two words and key of one; everything is uint32 and broadcasts."""
    first, second = (word.astype(np.uint64) for word in counter)
    for index in range(ROUNDS):
        bumped = (key.astype(np.uint64) + np.uint64(index * WEYL)) & np.uint64(0xFFFFFFFF)
        product = first * np.uint64(MULTIPLIER)
        first, second = (product >> np.uint64(32)) ^ bumped ^ second, product & np.uint64(0xFFFFFFFF)
    return first.astype(np.uint32), second.astype(np.uint32)


def threshold(p: float) -> int:
    """A random word below this number happens with probability `p`, to 32 bits."""
    return round(p * 2**32)


def _bernoulli(inputs: Sequence[Array], attrs: Attrs) -> Sequence[Array]:
    """Element i is true with probability p: word 0 of counter (i, low half of the state) and key (high half ^ site)."""
    shape, state = ints(attrs, "shape"), np.asarray(inputs[0]).astype(np.int64).view(np.uint64)
    index = np.arange(np.prod(shape, dtype=np.int64)).astype(np.uint32)
    low, high = state.astype(np.uint32), (state >> np.uint64(32)).astype(np.uint32)
    words, _ = philox2x32((index, low), high ^ np.uint32(attrs["site"]))
    return [(words.astype(np.uint64) < np.uint64(threshold(attrs["p"]))).reshape(shape)]


register(
    Op(
        "bernoulli",
        Kind.RANDOM,
        lambda inputs, attrs: (TensorType(DType.BOOL, ints(attrs, "shape")),),
        _bernoulli,
        cost=lambda inputs, outputs, attrs: 4 * ROUNDS * outputs[0].size,
        samples=tuple(
            Sample(("i64[]",), {"shape": shape, "p": p, "site": site}, ints=1 << 62)
            for shape, p, site in (((3, 5), 0.5, 0), ((2, 3, 1031), 0.9, 7), ((), 0.1, 1), ((4, 4), 1.0, 2))
        ),
    )
)


def _dropout(e: Emitter, inputs: Sequence[Value], attrs: Attrs) -> Sequence[Value]:
    """With a generator, as training does it: an element is zero with probability p, else scaled so that the mean stays
    (`torch.nn.functional.dropout`). Without one, as evaluation does it: the identity. `mask`, if there, is the shape of
    the mask, which broadcasts to the input: one number for a whole channel or sample."""
    if len(inputs) == 1:
        return inputs
    x, generator = inputs
    keep = 1.0 - float(attrs["p"])
    mask = e.op("bernoulli", generator, shape=attrs.get("mask", x.type.shape), p=keep, site=int(attrs["site"]))
    return [e.where(mask, e.mul(x, 1.0 / keep) if keep > 0.0 else e.zeros(x), 0.0)]


composite(
    "dropout",
    _dropout,
    (
        Sample(("f32[3,5]",), {"p": 0.4}),
        Sample(("f32[3,5]", "i64[]"), {"p": 0.4, "site": 3}, ints=1 << 62),
        Sample(("f32[2,3,4]", "i64[]"), {"p": 0.4, "mask": (2, 3, 1), "site": 1}, ints=1 << 62),
        Sample(("f32[4]", "i64[]"), {"p": 1.0, "site": 0}, ints=1 << 62),
    ),
    singular=LINEAR,
)


def seed_of(e: Emitter, generator: Value) -> Value:
    """u32 of rank 0 from the i64 state that a run advances (seed in its high half, number of the run in the low)."""
    number = e.cast(generator, DType.U32)
    seed = e.cast(e.op("shift_right", generator, e.scalar(32, generator)), DType.U32)
    return _mixed(e, e.op("bitwise_xor", _mixed(e, number), seed))


def uniform(e: Emitter, shape: Sequence[int], seed: Value, site: int) -> Value:
    """f32 of this shape, of rank 1 or more, evenly spread over [0, 1) in steps of 2^-24.

    No two calls for one `seed` (see `seed_of`) have the same `site`: each has numbers of its own."""
    bits = _words(e, shape, seed, site)
    return e.mul(e.cast(e.op("shift_right", bits, e.scalar(8, bits)), DType.F32), 2.0**-24)


def rounded_at_random(e: Emitter, x: Value, seed: Value, site: int) -> Value:
    """bf16 of f32 x of rank 1 or more: the number below or the one above in magnitude, with the probabilities that make
    it right on average. What bf16 has, infinities and NaN stay. `seed` and `site`: as `uniform` takes them.

    The lower half of the bits is what is lost: whether it overflows, a random number of as many bits added to it."""
    words = _words(e, x.type.shape, seed, site)
    bits = e.add(e.op("bitcast", x, to=DType.U32.value), e.op("shift_right", words, e.scalar(16, words)))
    upper = e.op("bitcast", e.op("bitwise_and", bits, e.scalar(0xFFFF0000, bits)), to=DType.F32.value)
    finite = e.less(e.op("abs", x), math.inf)
    return e.cast(e.where(finite, upper, x), DType.BF16)


def _words(e: Emitter, shape: Sequence[int], seed: Value, site: int) -> Value:
    """u32 of this shape, every bit of them random."""
    lanes = (np.arange(shape[-1]) + site * _GOLDEN).astype(np.uint32)
    # The seed first: a sum of constants alone would be folded to one as large as the tensor. And the site with it: what
    # two tensors had in common, both would read from memory.
    bits = e.add(e.const(_along(lanes, len(shape), len(shape) - 1)), seed)
    for axis in reversed(range(len(shape) - 1)):
        if shape[axis] > 1:
            starts = (np.arange(shape[axis]) * math.prod(shape[axis + 1 :])).astype(np.uint32)
            bits = e.add(bits, e.const(_along(starts, len(shape), axis)))
    return _mixed(e, bits)


def _along(line: Array, rank: int, axis: int) -> Array:
    """The line as a tensor of this rank, along one axis."""
    return line.reshape(*[1] * axis, -1, *[1] * (rank - 1 - axis))


def _mixed(e: Emitter, x: Value) -> Value:
    """A u32 whose every bit depends on every bit of x: the finaliser `lowbias32` (C. Wellons, "Prospecting for hash
    functions", 2018)."""
    for places, factor in _MIXING:
        x = e.mul(_folded(e, x, places), e.scalar(factor, x))
    return _folded(e, x, _MIXING[0][0])


def _folded(e: Emitter, x: Value, places: int) -> Value:
    return e.op("bitwise_xor", x, e.op("shift_right", x, e.scalar(places, x)))
