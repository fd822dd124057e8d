"""Benchmarks in words and tables: verdicts, and each beside its baseline. Knows answers, not where they come from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from .console import milliseconds, short, show_table

_REASONS = {
    "few_repeats": "fewer than 6 repeats",
    "interval": "the repeats differ by more than 5 %",
    "throttled": "the device was throttled",
    "temperature": "it did not cool down",
    "frequency": "its clock slowed down",
    "emulated": "the binary was emulated",
}
_DIGITS = 1e-4


def share_of(text: str) -> float:
    """The share that `5%` or `0.05` means."""
    try:
        value = float(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 10:
        raise typer.BadParameter(f"'{text}' is no share such as 5%", param_hint="--fail-slower")
    return value


def verdict_of(one: Any) -> str:
    """A benchmark's verdict as a sentence's end."""
    if one.verdict is None:
        return f"{one.state}: {one.failure.detail} ({one.failure.code})" if one.failure else str(one.state)
    found = one.verdict
    text = milliseconds(found.median_ms)
    if found.interval_low is not None:
        text += f", 95 % within {milliseconds(found.interval_low)} – {milliseconds(found.interval_high)}"
    if found.stable:
        return f"{text}, stable"
    return f"{text}, not to be trusted: {', '.join(_REASONS.get(str(word), str(word)) for word in found.reasons)}"


def _compared(beside: Any) -> tuple[str, ...]:
    """The ratio of a comparison, its interval, its p, and whether it is the same machine."""
    low, high = beside.interval_low, beside.interval_high
    interval = "–" if low is None else f"{low:.3f} – {high:.3f}"
    p_value = f"{beside.p_value:.4f}" if beside.p_value >= _DIGITS else f"< {_DIGITS}"
    same = "yes" if beside.same_machine else "no: " + ", ".join(found.fact for found in beside.differences)
    return f"{beside.ratio:.3f}×", interval, p_value, same


def show_against_baseline(found: Sequence[Any]) -> None:
    """A row for each benchmark that has a baseline; nothing where none has."""
    if found:
        show_beside([(one, one.comparison) for one in found])


def show_beside(pairs: Sequence[tuple[Any, Any]]) -> None:
    """A row for each benchmark and its comparison with another one."""
    titles = ("benchmark", "build", "device", "step", "beside", "ratio", "95 %", "p", "same machine")
    show_table(titles, [_row(one, beside) for one, beside in pairs], "")


def _row(one: Any, beside: Any) -> tuple[str, ...]:
    """One benchmark beside another, under the titles of `show_against_baseline`."""
    name = f"{one.build_name}:v{one.build_version}"
    start = (short(one.id), name, one.device_name, milliseconds(one.verdict.median_ms), short(beside.other_id))
    return (*start, *_compared(beside))
