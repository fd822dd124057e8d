"""What happens to a build or a run, event by event, with a type for each kind."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from pock_client.answers import decode
from pock_client.errors import Damaged
from pock_client.schema import Failure, Step
from pock_client.sse import Sent

FINAL = frozenset({"succeeded", "failed", "cancelled"})
"""States of builds and runs after which nothing follows."""


class StateEvent(Struct, frozen=True, kw_only=True):
    """It is in another state now."""

    id: int = 0
    """Number of the event; they grow."""
    state: str
    failure: Failure | None = None
    reason: str | None = None
    """Why it waits again."""


class ProgressEvent(Struct, frozen=True, kw_only=True):
    """A build got further: `fraction` (0 to 1) of a stage is done."""

    id: int = 0
    stage: str
    done: int
    total: int
    fraction: float


class LogEvent(Struct, frozen=True, kw_only=True):
    """Lines of a build's log, or of what a device began and saved."""

    id: int = 0
    text: str


class StepsEvent(Struct, frozen=True, kw_only=True):
    """Training steps that a device did."""

    id: int = 0
    items: list[Step]


class EvaluationEvent(Struct, frozen=True, kw_only=True):
    """The result of an evaluation. `phase` is "eval_before", "eval_after", or "eval" of one during training, which has
    the step (and epoch) that it came after."""

    id: int = 0
    phase: str
    samples: float | None = None
    loss: float | None = None
    accuracy: float | None = None
    step: float | None = None
    epoch: float | None = None
    perplexity: float | None = None


class OtherEvent(Struct, frozen=True, kw_only=True):
    """Of a kind that this client does not know: a newer service sent it."""

    id: int = 0
    kind: str


Event = StateEvent | ProgressEvent | LogEvent | StepsEvent | EvaluationEvent | OtherEvent
_KINDS: dict[str, type[StateEvent | ProgressEvent | LogEvent | StepsEvent | EvaluationEvent]] = {
    "state": StateEvent,
    "progress": ProgressEvent,
    "log": LogEvent,
    "steps": StepsEvent,
    "eval": EvaluationEvent,
}


def read(sent: Sent) -> Event:
    """The event with its type. Raises Damaged if its data are not those of its kind."""
    kind = _KINDS.get(sent.kind)
    if kind is None:
        return OtherEvent(id=sent.id, kind=sent.kind)
    try:
        return replace(decode(sent.data, kind), id=sent.id)
    except Damaged as error:
        raise Damaged(f"event {sent.id}: {error}") from None
