"""What a verification found, as plain values."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .culprit import Culprit
from .judge import Change, Verdict


@dataclass(frozen=True)
class Report:
    """A model's training against another program's.

    against    what it was compared with, for a person
    losses     (ours, theirs, verdict) of each step
    gradients  of the first step, of each trained tensor
    changes    what the steps changed in each trained tensor
    kept       frozen tensors that changed all the same
    problems   what else is wrong, each a clause
    first      where the two part first, forward or backward; None where they do not, or it could not be found
    culprit    the first wrong value with its kernel or pass, where the imported model is right
    notes      what was left out, and what else one should know"""

    model: str
    against: str
    steps: int
    losses: tuple[tuple[float, float, Verdict], ...]
    gradients: tuple[Change, ...]
    changes: tuple[Change, ...]
    kept: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    first: str | None = None
    notes: tuple[str, ...] = ()
    culprit: Culprit | None = None

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        losses = all(verdict is not Verdict.DIFFERENT for _, _, verdict in self.losses)
        return (
            losses
            and not self.kept
            and not self.problems
            and all(change.agrees for change in (*self.gradients, *self.changes))
        )

    @property
    def wrong(self) -> tuple[str, ...]:
        """Names of the tensors whose gradient or change differs."""
        found = [change.name for change in (*self.gradients, *self.changes) if not change.agrees]
        return tuple(dict.fromkeys([*found, *self.kept]))

    def sentence(self) -> str:
        """The result, for a person."""
        count, steps = len(self.changes), f"{self.steps} step{'s' * (self.steps != 1)}"
        if self.agrees:
            rounding = sum(change.verdict is Verdict.ROUNDING for change in self.changes)
            judged = f" ({rounding} of them judged in float64)" if rounding else ""
            return f"{self.model} trains as {self.against} does: {steps}, {count} tensors{judged}"
        what = list(self.problems)
        if self.wrong:
            more = f" and {len(self.wrong) - 3} more" if len(self.wrong) > 3 else ""
            names = ", ".join(f"'{name}'" for name in self.wrong[:3])
            what.append(f"{len(self.wrong)} of {count} tensors differ ({names}{more})")
        bad = [i for i, (_, _, verdict) in enumerate(self.losses) if verdict is Verdict.DIFFERENT]
        if bad:
            ours, theirs, _ = self.losses[bad[0]]
            what.append(f"the loss of step {bad[0] + 1} is {ours:.7g} and should be {theirs:.7g}")
        where = f"; {self.first}" if self.first else ""
        return f"{self.model} does not train as {self.against} does: {', '.join(what)}{where}"

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, numbers that are not finite as null: what `--json` prints."""
        losses = [{"ours": a, "theirs": b, "verdict": verdict} for a, b, verdict in self.losses]
        plain: dict[str, Any] = _finite({**asdict(self), "losses": losses})
        return {"agrees": self.agrees, "sentence": self.sentence(), **plain}


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
