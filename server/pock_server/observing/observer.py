"""Tells what has happened, once it is committed: a log line, a count and perhaps a span each."""

import logging

from pock_server.observing.facts import Counted, Fact, Moved
from pock_server.observing.logs import fields
from pock_server.observing.metrics import Metrics
from pock_server.observing.traces import Traces

_log = logging.getLogger("pock_server.facts")


class Observer:
    """What `Database` calls after a commit; nothing that goes wrong here may reach the request."""

    def __init__(self, metrics: Metrics, traces: Traces) -> None:
        self._metrics = metrics
        self._traces = traces

    def __call__(self, fact: Fact) -> None:
        """Log, count, trace."""
        try:
            _write(fact)
            self._metrics.take(fact)
            if isinstance(fact, Moved):
                self._traces.moved(fact)
        except Exception:
            _log.exception("a fact was not told")


def _write(fact: Fact) -> None:
    if isinstance(fact, Counted):
        if fact.detail is not None:
            _log.warning("%s", fact.detail)
        return
    _log.log(_level(fact), "%s %s: %s -> %s", fact.noun, fact.id, fact.origin, fact.to, extra=_words(fact))


def _level(moved: Moved) -> int:
    return logging.WARNING if moved.failure or moved.taken_back else logging.INFO


def _words(moved: Moved) -> dict[str, object]:
    code, detail = (moved.failure["code"], moved.failure["detail"]) if moved.failure else (None, None)
    return fields(
        request_id=moved.request_id,
        **{f"{moved.noun}_id": moved.id},
        attempt=moved.attempt,
        failure_code=code,
        failure=detail,
        **{name: str(value) for name, value in moved.holder.items()},
    )
