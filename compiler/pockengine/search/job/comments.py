"""What a recipe file says of itself in comments."""

from __future__ import annotations

from ..figures import memory, milliseconds, percent
from .found import Compared, Found


def comments_of(found: Found) -> list[str]:
    """Sentences: what the scheme costs, what it was searched by, how good it is."""
    chosen, full = found.chosen, found.of("full")
    cost = chosen.cost
    threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
    lines = [
        f"Found by pock search for {found.target}, {threads}.",
        f"Predicted peak {memory(cost.peak_bytes)} ({cost.peak_bytes} bytes)"
        f"{_share(full, 'peak_bytes', cost.peak_bytes)}{_limit(found)}; a step about {milliseconds(cost.step_ms)}"
        f"{_share(full, 'step_ms', cost.step_ms)}.",
        f"Contributions by {found.method}, seed {found.seed}; preferred: {found.prefer}.",
    ]
    if full is not None and full.gain > 0:
        lines.append(
            f"It keeps {percent(chosen.gain, full.gain)} of what training everything brings, if contributions add; at "
            f"most {percent(chosen.bound, full.gain)} fit into the limits."
        )
    return lines + [f"Note: {note}." for note in chosen.notes]


def _share(full: Compared | None, figure: str, value: float) -> str:
    whole = getattr(full.cost, figure) if full is not None else 0
    return f", {value / whole:.0%} of training everything" if whole else ""


def _limit(found: Found) -> str:
    parts = []
    if found.limits.memory_bytes is not None:
        parts.append(memory(found.limits.memory_bytes))
    if found.limits.step_ms is not None:
        parts.append(f"{found.limits.step_ms:g} ms")
    return f", limit {' and '.join(parts)}" if parts else ""
