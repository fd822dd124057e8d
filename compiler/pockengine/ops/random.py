"""Random numbers that a step can repeat: a counter-based generator, and dropout written with it.

The generator is Philox2x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011; Random123). It
keeps nothing between calls: each element of each mask of each step is a function of the element's index, the step's
generator number and the number of the site in the graph, so that any number of threads gives the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..ir import Array, Attrs, DType, TensorType, Value
from .composites import composite
from .emitter import Emitter
from .movement import ints
from .registry import LINEAR, Kind, Op, Sample, register

MULTIPLIER, WEYL, ROUNDS = 0xD256D193, 0x9E3779B9, 10


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
