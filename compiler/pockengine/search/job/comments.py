"""What a recipe file says of itself in comments."""

from __future__ import annotations

from ..figures import memory, milliseconds, percent
from ..rates import Rates, RateTrial
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
        f"Contributions by {found.method}, channels by {found.provenance['channels']}, seed {found.seed}; preferred: "
        f"{found.prefer}.",
    ]
    if found.energy is not None:
        taken = found.energy.words(cost.step_ms)
        lines.append(f"A step takes about {taken}, if the device draws {found.energy.watts:g} W whatever is trained.")
    if full is not None and full.gain > 0:
        lines.append(
            f"It keeps {percent(chosen.gain, full.gain)} of what training everything brings, if contributions add; at "
            f"most {percent(chosen.bound, full.gain)} fit into the limits."
        )
    notes = chosen.notes
    if found.rates is not None:
        lines += _of_rates(found.rates)
        notes += found.rates.notes
    return lines + [f"Note: {note}." for note in notes]


def _of_rates(rates: Rates) -> list[str]:
    """How they were found, and a sentence for each group of what was tried."""
    tried: dict[str, list[RateTrial]] = {}
    for trial in rates.trials:
        tried.setdefault(trial.group, []).append(trial)
    chosen = ", ".join(f"{name} {rate:g}" for name, rate in rates.lr.items())
    return [
        f"Learning rates: {chosen}; by trainings of {rates.steps} steps in {rates.orders} orders, judged by the loss "
        f"of {rates.kept_back} samples kept back from the data: {rates.before:.4g} before, {rates.loss:.4g} with them.",
        *(f"Tried for {name}: {', '.join(map(_tried, trials))}." for name, trials in tried.items()),
    ]


def _tried(trial: RateTrial) -> str:
    return f"{trial.lr:g} {'diverged' if trial.loss is None else f'gave {trial.loss:.4g}'}"


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
