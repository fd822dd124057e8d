"""The states of a job as one table: where each state leads when it is done, fails, is cancelled, loses its lease, or is
killed and started again. The state is on disk before anything of it happens, so the table decides after every kill
whether the job is repeated or only reported.

Everything before REPORTING may be repeated: what finished (blobs, phases) is on disk and is found again. So a job
leaves PAUSED for the beginning, and goes past all that is finished. REPORTING has the result on disk and sends that
result until the service has it, so a job is reported once, whatever happens.
"""

from __future__ import annotations

from enum import Enum


class State(str, Enum):
    """What the job in hand is at. The three phases have the names that the service knows them by."""

    ACCEPTED = "accepted"
    """Verified and recorded; nothing starts before the first renewal of the lease."""
    DOWNLOADING = "downloading"
    """What the job needs comes into the cache, and its folder is laid out."""
    EVAL_BEFORE = "eval_before"
    """The loss before the training; the only phase of a job that evaluates."""
    TRAIN = "train"
    """The training, or the benchmark."""
    EVAL_AFTER = "eval_after"
    """The loss with the trained weights."""
    PAUSED = "paused"
    """A policy forbids work for now: nothing runs, the lease is kept, what was finished is on disk."""
    UPLOADING = "uploading"
    """The trained weights go to the service, where they are wanted."""
    REPORTING = "reporting"
    """The result is on disk, and is sent until the service has it."""
    REPORTED = "reported"
    """Over: the service has the result."""
    ABANDONED = "abandoned"
    """Over: the run belongs to another attempt."""


class Trigger(str, Enum):
    """What moves a job from its state to the next."""

    DONE = "done"
    """What the state is for is done."""
    ERROR = "error"
    """It failed."""
    CANCELLED = "cancelled"
    """The service asked to stop the run."""
    LOST = "lost"
    """Another attempt owns the run now."""
    RESTART = "restart"
    """The agent was killed in this state and runs again."""
    FORBIDDEN = "forbidden"
    """A policy forbids what the state is for."""


_S = State
# fmt: off
_ROWS = (
    # state           done             error            cancelled        lost          restart       forbidden
    (_S.ACCEPTED,     _S.DOWNLOADING,  _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.ACCEPTED),
    (_S.DOWNLOADING,  _S.EVAL_BEFORE,  _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.PAUSED),
    (_S.EVAL_BEFORE,  _S.TRAIN,        _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.PAUSED),
    (_S.TRAIN,        _S.EVAL_AFTER,   _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.PAUSED),
    (_S.EVAL_AFTER,   _S.UPLOADING,    _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.PAUSED),
    (_S.PAUSED,       _S.DOWNLOADING,  _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.PAUSED,    _S.PAUSED),
    (_S.UPLOADING,    _S.REPORTING,    _S.REPORTING,    _S.REPORTING,    _S.ABANDONED, _S.ACCEPTED,  _S.PAUSED),
    (_S.REPORTING,    _S.REPORTED,     _S.ABANDONED,    _S.REPORTING,    _S.ABANDONED, _S.REPORTING, _S.REPORTING),
    (_S.REPORTED,     _S.REPORTED,     _S.REPORTED,     _S.REPORTED,     _S.REPORTED,  _S.REPORTED,  _S.REPORTED),
    (_S.ABANDONED,    _S.ABANDONED,    _S.ABANDONED,    _S.ABANDONED,    _S.ABANDONED, _S.ABANDONED, _S.ABANDONED),
)
# fmt: on
_TRIGGERS = (Trigger.DONE, Trigger.ERROR, Trigger.CANCELLED, Trigger.LOST, Trigger.RESTART, Trigger.FORBIDDEN)
TABLE = {row[0]: dict(zip(_TRIGGERS, row[1:])) for row in _ROWS}
FINAL = frozenset((State.REPORTED, State.ABANDONED))


def after(state: State, trigger: Trigger) -> State:
    """The state that follows."""
    return TABLE[state][trigger]
