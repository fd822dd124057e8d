"""Steps that take their samples in micro-batches, one after the other: where that trains the same, and the spaces of
schemes that do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..errors import PockError
from ..ir import Array, Graph
from ..recipe import batch_of
from ..recipe.augment import Mixup
from ..recipe.losses.kinds import CausalLM, Classification, Loss, OwnLoss
from ..recipe.losses.own import LossGraph
from .space import Space

AtBatch = Callable[[int], Graph]
"""Imports the model of a space for so many samples a step. Raises PockError."""


@dataclass(frozen=True)
class MicroBatches:
    """The spaces in which a step takes its samples in parts.

    counts  of micro-batches, ascending, each at least twice the one before; the last is of single samples
    space   count -> the same schemes where a step takes that many"""

    counts: tuple[int, ...]
    space: Callable[[int], Space]

    @classmethod
    def of(cls, space: Space, at_batch: AtBatch, data: Mapping[str, Array]) -> MicroBatches:
        """Raises PockError where they would train otherwise, or the model is for one number of samples."""
        if (reason := _difference(space, data)) is not None:
            raise PockError(f"micro-batches would train otherwise: {reason}")
        batch = batch_of(space.base.bound(space.graph), space.graph)
        counts: list[int] = []
        for count in range(2, batch + 1):
            if batch % count == 0 and count >= 2 * (counts[-1] if counts else 1):
                counts.append(count)
        if not counts:
            raise PockError("a step of one sample has no micro-batches")
        made = cache(lambda count: _split(space, at_batch(batch // count), batch, count))
        made(counts[-1])
        return cls(tuple(counts), made)


def _split(space: Space, graph: Graph, batch: int, count: int) -> Space:
    """Schemes of the graph, which has an equal part of the samples."""
    own = {value.name: value.type for value in space.graph.params}
    if graph.batch * count != space.graph.batch or {value.name: value.type for value in graph.params} != own:
        raise PockError(f"the model does not take {batch // count} samples a step in the place of {batch}")
    base = space.base.with_(batch=batch // count, accumulate=space.base.accumulate * count)
    return Space(replace(graph, data=space.graph.data), base, space.units)


def _difference(space: Space, data: Mapping[str, Array]) -> str | None:
    """Why a step would not be the same in parts; None where it is. A loss is a mean: parts have equal weight where each
    sample counts the same."""
    base = space.base
    if base.batch_norm == "train" or base.norm_batches is not None:
        return "batch norms look at the whole batch"
    if base.last_batch == "partial":
        return "`last_batch: partial` counts samples"
    if any(isinstance(one, Mixup) for one in base.augment):
        return "`mixup` mixes the samples of a batch"
    for loss in base.loss:
        if isinstance(loss, OwnLoss | LossGraph) or not isinstance(loss, Loss):
            return "what the loss does with a batch is its own"
        if loss.mask is not None or not _alike(loss, data):
            return "samples count differently for the loss"
    return None


def _alike(loss: Loss, data: Mapping[str, Array]) -> bool:
    """Whether each sample has as many answers that count."""
    if not isinstance(loss, Classification):
        return True
    if loss.class_weights is not None or loss.target is None:
        return False
    labels = data[loss.target]
    rows = (labels[:, 1:] if isinstance(loss, CausalLM) else labels).reshape(len(labels), -1)
    return len(np.unique((rows != loss.ignore_index).sum(axis=1))) == 1
