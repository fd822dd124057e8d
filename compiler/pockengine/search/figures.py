"""Figures as people read them: parts of a whole, bytes, milliseconds."""

from __future__ import annotations

from ..plan.budget import mebibytes


def percent(part: float, whole: float) -> str:
    """A part with two digits, or what little there is of it."""
    if whole <= 0:
        return "–"
    share = part / whole
    if share > 0.995:
        return f"{share:.2%}" if share < 0.99995 else f"{share:.0%}"
    return f"{share:.1%}" if share >= 0.001 else "< 0.1%" if share > 0 else "0"


def memory(nbytes: float) -> str:
    """`12.3 MiB`, with a sign where it is below 0."""
    return f"−{mebibytes(int(-nbytes))}" if nbytes < 0 else mebibytes(int(nbytes))


def joules(number: float) -> str:
    """Three digits."""
    return f"{number:.3g} J"


def milliseconds(ms: float) -> str:
    """Three digits."""
    return f"{ms:.3g} ms" if ms < 1000 else f"{ms / 1000:.3g} s"
