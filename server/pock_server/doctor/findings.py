"""What a check may find."""

from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """How it stands."""

    OK = "ok"
    WARN = "warn"  # the service works, but not as one would want it
    FAIL = "fail"  # the service, or a part of it, does not work


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
