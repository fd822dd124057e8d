"""Schemes of the published form: of the last blocks of a network the biases, and one or some weights of each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable

from ..contributions.trainer import head_start
from ..space import Choice, Space

Block = tuple[int, ...]
"""The places of a block's parameters."""


def blocks_of(space: Space) -> list[Block]:
    """The blocks of a network in model order, as the names of its parameters tell them: modules whose names differ in
    numbers alone, of which most have two weights or more; of several such levels the one with the most blocks. Empty
    where there are no two."""
    levels: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, unit in enumerate(space.units):
        parts = unit.name.split(".")
        for depth, part in enumerate(parts[:-1], start=1):
            if re.search(r"\d", part):
                module = ".".join(parts[:depth])
                levels[re.sub(r"\d+", "*", module)][module].append(place)
    found: list[Block] = []
    for blocks in levels.values():
        weights = sum(space.units[place].is_weight for block in blocks.values() for place in block)
        if len(blocks) >= 2 and weights >= 2 * len(blocks) and len(blocks) > len(found):
            found = [tuple(block) for block in blocks.values()]
    return found


def first_weights(space: Space) -> list[Choice]:
    """The head, and of ever more of the last blocks the biases and the first weight, as was published for
    convolutional networks (MICRO 2023)."""
    return _last_blocks(space, lambda weights: weights[:1])


def most_weights(space: Space) -> list[Choice]:
    """The head, and of ever more of the last blocks the biases and all weights but the last, as was published for
    transformers: attention and what follows it, without the layer that narrows again."""
    return _last_blocks(space, lambda weights: weights[:-1])


def _last_blocks(space: Space, chosen: Callable[[Block], Block]) -> list[Choice]:
    start = head_start(space)
    blocks = [block for block in blocks_of(space) if block[-1] < start]
    found = []
    trained = set(range(start, len(space.units)))
    for block in reversed(blocks):
        weights = tuple(place for place in block if space.units[place].is_weight)
        trained |= {*chosen(weights), *(place for place in block if space.units[place].name.endswith("bias"))}
        found.append(tuple(option if place in trained else 0 for place, option in enumerate(space.full)))
    return found
