"""Numbers that only grow: sessions opened, work accepted, the time vouched for. No replay gets past them."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import known, read_json, write_json
from pock_agent.errors import AgentError
from pock_agent.values import JsonObject


@dataclass(frozen=True)
class CounterValues:
    """Highest session counter used, highest work counter accepted, latest time the service's key vouched for."""

    session: int = 0
    work: int = 0
    signed_time: float = 0.0


class Counters:
    """The counters on disk. A number is durable before anything is done with it, so it is never used twice."""

    def __init__(self, directory: StateDirectory) -> None:
        self._path = directory.counters
        self._lock = threading.Lock()
        self._values = _parse_counters(read_json(self._path) or {}, self._path)

    @property
    def values(self) -> CounterValues:
        """The present values."""
        return self._values

    def next_session(self) -> int:
        """Reserve the next session counter."""
        with self._lock:
            self._store(replace(self._values, session=self._values.session + 1))
            return self._values.session

    def accept_work(self, counter: int, signed_time: float) -> None:
        """Remember an accepted work counter; repeating an older one changes nothing."""
        with self._lock:
            work = max(counter, self._values.work)
            self._store(replace(self._values, work=work, signed_time=max(signed_time, self._values.signed_time)))

    def _store(self, values: CounterValues) -> None:
        write_json(self._path, asdict(values))
        self._values = values


def _parse_counters(stored: JsonObject, path: Path) -> CounterValues:
    try:
        return CounterValues(**known(CounterValues, stored))
    except TypeError as error:
        raise AgentError(f"{path} is damaged ({error}); enrol again in a new state directory") from error
