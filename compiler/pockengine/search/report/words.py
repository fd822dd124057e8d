"""Figures and schemes in the words of the page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from ..choosing import Chosen
from ..figures import memory, milliseconds
from ..job.found import AT_RATES, EARLIER, GAINS, ONCE, Found, LayerRow, UnitRow

_COUNTED = {
    "last": "the last {} parameters",
    "first": "the head, biases and the first weight of the last {} blocks",
    "most": "the head, biases and all weights but the last of the last {} blocks",
    "lora": "the head, and adapters of rank {}",
}

_SHORT = {
    "last": "the last {}",
    "first": "first weights of {} blocks",
    "most": "most of {} blocks",
    "lora": "adapters of rank {}",
}
"""The same where there is little room."""


def scheme_words(name: str, short: bool = False) -> str:
    """What a compared scheme trains."""
    counted = _SHORT if short else _COUNTED
    if (match := re.fullmatch(r"([a-z]+)(\d+)", name)) and match[1] in counted:
        return counted[match[1]].format(match[2])
    known = {
        "found": "found here",
        AT_RATES: "found here, at its learning rates",
        "full": "everything",
        "head": "the head",
        "bias": "the biases",
        "evolved": "found by evolution",
        GAINS: "the largest gain",
        ONCE: "in quickest steps" if short else "the largest gain in steps of the quickest form",
        EARLIER: "earliest first",
    }
    return known.get(name, name)


def form_words(chosen: Chosen) -> str:
    """How a step keeps to the memory, as a sentence; nothing where the quickest form does."""
    if not chosen.is_spared:
        return ""
    parts = f" in {chosen.micro_batches} micro-batches" if chosen.micro_batches > 1 else ""
    twice = " with forward nodes that are computed twice" if chosen.memory is not None else ""
    return f" A step runs{parts}{twice}, to keep to the memory."


def share_words(share: float) -> str:
    """`½`, or nothing for all of it."""
    if share >= 1:
        return ""
    fraction = Fraction(share).limit_denominator(16)
    return {Fraction(1, 2): "½", Fraction(1, 4): "¼", Fraction(1, 8): "⅛"}.get(fraction, f"{share:.0%}")


def reason(units: Sequence[UnitRow], layer: LayerRow, before: bool, found: Found) -> str:
    """Why a layer is in or out, in a few words. `before`: nothing of it or before it is trained."""
    chosen = [unit for unit in units if unit.option]
    if chosen:
        partly = len(chosen) < len(units) or any(unit.share < 1 for unit in chosen)
        return "in part: the rest brings less than it takes" if partly else "in: all of it"
    if not any(unit.gain > 0 for unit in units):
        return "out: brings nothing"
    cost, limits = found.chosen.cost, found.limits
    over = []
    if limits.memory_bytes is not None and cost.peak_bytes + layer.added_bytes > limits.memory_bytes:
        over.append(memory(layer.added_bytes))
    if limits.step_ms is not None and cost.step_ms + layer.added_ms > limits.step_ms:
        over.append(milliseconds(layer.added_ms))
    if not over:
        return "out: brings little for what it takes"
    return f"out: {' and '.join(over)} more would not fit" + (", as gradients would reach back" if before else "")
