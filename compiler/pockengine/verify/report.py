"""What a verification found, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .judge import Change, Verdict


@dataclass(frozen=True)
class Report:
    """A model's training against another program's.

    against    what it was compared with, for a person
    losses     (ours, theirs, verdict) of each step
    gradients  of the first step, of each trained tensor
    changes    what the steps changed in each trained tensor
    kept       frozen tensors that changed all the same
    first      where the two part first, forward or backward; None where they do not, or it could not be found
    notes      what was left out, and what else one should know"""

    model: str
    against: str
    steps: int
    losses: tuple[tuple[float, float, Verdict], ...]
    gradients: tuple[Change, ...]
    changes: tuple[Change, ...]
    kept: tuple[str, ...] = ()
    first: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        """Whether nothing differs."""
        losses = all(verdict is not Verdict.DIFFERENT for _, _, verdict in self.losses)
        return losses and not self.kept and all(change.agrees for change in (*self.gradients, *self.changes))

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
        what = []
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
        """Plain values: what `--json` prints."""
        return {
            "agrees": self.agrees,
            "sentence": self.sentence(),
            **asdict(self),
            "losses": [{"ours": a, "theirs": b, "verdict": verdict} for a, b, verdict in self.losses],
        }
