"""What a check may find."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How it stands."""

    OK = "ok"
    """All is well, or as well as this machine can tell."""
    WARN = "warn"
    """Jobs run, but not as one would want them to."""
    FAIL = "fail"
    """No job can run."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at, and one sentence: how it is, or what is wrong and what to do."""

    item: str
    outcome: Outcome
    says: str


def ok(item: str, says: str) -> Finding:
    """All is well."""
    return Finding(item, Outcome.OK, says)


def warn(item: str, says: str) -> Finding:
    """It could be better."""
    return Finding(item, Outcome.WARN, says)


def fail(item: str, says: str) -> Finding:
    """It does not work."""
    return Finding(item, Outcome.FAIL, says)
