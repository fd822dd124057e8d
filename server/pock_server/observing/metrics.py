"""Prometheus metrics of this process: what happens is counted here. `metric_table` says which metrics there are.

With `PROMETHEUS_MULTIPROC_DIR` set before this module is imported, the processes of one service add up: each writes to
files in that folder, and whichever is asked reads them all.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest, multiprocess
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool, event

from pock_server.http.problems import Failure
from pock_server.observing.facts import Counted, Fact, Moved
from pock_server.observing.logs import fields
from pock_server.observing.metric_table import ProcessMetrics, RequestMetrics, WorkMetrics, counters
from pock_server.observing.middleware import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_STAGES = frozenset(
    {"fetch", "resolve", "optimise", "plan", "tune", "compile", "link", "pack", "store"}  # those of progress lines
)
_DEVICE_CODES = frozenset({*range(2001, 2006), *range(3001, 3005), *range(10001, 10006), 20001})
_CODES = frozenset(failure.code for failure in Failure) | _DEVICE_CODES
_KILLS = {2003: "memory", 10001: "time"}
"""Failure codes of builds whose process was ended by force."""


_access = logging.getLogger("pock_server.access")


class Metrics:
    """Each application has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._extra: list[Collector] = []
        self._http, self._work, self._process = (
            RequestMetrics(registry),
            WorkMetrics(registry),
            ProcessMetrics(registry),
        )
        self._counts = counters(registry)
        if MULTIPROCESS not in os.environ:
            ProcessCollector(registry=registry)

    @contextmanager
    def request(self, served: Served) -> Iterator[None]:
        """Measure a request while the block lasts."""
        self._http.in_flight.inc()
        try:
            yield
        finally:
            self._http.in_flight.dec()
            self._http.requests.labels(served.operation, str(served.status)).inc()
            self._http.seconds.labels(served.operation).observe(served.seconds)
            if served.bytes_in:
                self._http.bytes.labels(served.operation, "in").inc(served.bytes_in)
            if served.bytes_out:
                self._http.bytes.labels(served.operation, "out").inc(served.bytes_out)
            if served.task.failure_code is not None:
                self._http.problems.labels(_code(served.task.failure_code)).inc()

    def refused(self, code: int, host: str | None) -> None:
        """A connection was ended before its request was understood."""
        self._http.refused.labels(_code(code)).inc()
        _access.info("connection refused", extra=fields(address=host, failure_code=code))

    def take(self, fact: Fact) -> None:
        """Count what happened."""
        if isinstance(fact, Counted):
            self.count(fact.name, fact.label)
        else:
            self._take_move(fact)

    def count(self, name: str, label: str, by: int = 1) -> None:
        """Count something of `COUNTED`."""
        self._counts[name].labels(label).inc(by)

    def _take_move(self, moved: Moved) -> None:
        if moved.started and moved.attempt == 1:
            self._work.wait.labels(moved.noun).observe(moved.seconds_since(moved.created_at))
        if moved.taken_back:
            self._work.requeued.labels(moved.noun).inc()
        if moved.over:
            code = str(_code(moved.failure["code"])) if moved.failure else "0"
            self._work.finished.labels(moved.noun, moved.to, code).inc()
            if moved.noun == "build" and moved.failure and moved.failure["code"] in _KILLS:
                self.count("sandbox_kills", _KILLS[moved.failure["code"]])
            if moved.started_at is not None:
                self._work.work.labels(moved.noun, moved.to).observe(moved.seconds_since(moved.started_at))

    def stage(self, name: str, seconds: float) -> None:
        """A build's stage is over; names that are not the compiler's count as one."""
        self._work.stage.labels(name if name in _STAGES else "other").observe(seconds)

    def kernels(self, compiled: int, cached: int) -> None:
        """A build is over that needed so many kernels."""
        self._work.kernels.labels("compiled").inc(max(0, compiled))
        self._work.kernels.labels("cached").inc(max(0, cached))

    def workloads(self, known: int, unknown: int) -> None:
        """A build is over that asked for the fleet's knowledge of so many workloads."""
        self._work.workloads.labels("known").inc(max(0, known))
        self._work.workloads.labels("unknown").inc(max(0, unknown))

    @contextmanager
    def loop(self, name: str) -> Iterator[None]:
        """One round of a background loop."""
        try:
            with self._process.loop_seconds.labels(name).time():
                yield
        except Exception:
            self._process.loop_failures.labels(name).inc()
            raise
        self._process.loop_at.labels(name).set_to_current_time()

    def lead(self, leading: bool) -> None:
        """Whether this process sweeps."""
        self._process.leader.set(leading)

    def watch_pool(self, engine: Engine) -> None:
        """Follow the engine's connections."""
        used = self._process.pool.labels("in_use")
        used.set(0)
        event.listen(engine, "checkout", lambda *_: used.inc())
        event.listen(engine, "checkin", lambda *_: used.dec())
        if isinstance(engine.pool, QueuePool):
            self._process.pool.labels("limit").set(engine.pool.size() + max(0, engine.pool._max_overflow))

    def add_collector(self, collector: Collector) -> None:
        """Have something measured whenever the metrics are asked for."""
        self._extra.append(collector)

    def exposed(self) -> CollectorRegistry:
        """Everything, of all processes of this service on this machine."""
        together = CollectorRegistry()
        if MULTIPROCESS in os.environ:
            multiprocess.MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        else:
            together.register(_Registry(self._registry))
        for collector in self._extra:
            together.register(collector)
        return together

    def render(self) -> bytes:
        """The text format."""
        return generate_latest(self.exposed())


class _Registry(Collector):
    """A registry inside of another one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[object]:  # type: ignore[override]
        """Its metrics."""
        yield from self._registry.collect()


def _code(code: int) -> str:
    return str(code) if code in _CODES else "other"
