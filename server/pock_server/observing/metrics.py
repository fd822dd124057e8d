"""Prometheus metrics of this process. Labels come from fixed sets: nothing that a client chooses becomes one.

With `PROMETHEUS_MULTIPROC_DIR` set before this module is imported, the processes of one service add up: each writes to
files in that folder, and whichever is asked reads them all.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    multiprocess,
)
from prometheus_client.registry import Collector
from sqlalchemy import Engine, QueuePool, event

from pock_server.http.problems import Failure
from pock_server.observing.facts import Counted, Fact, Moved
from pock_server.observing.logs import fields
from pock_server.observing.middleware import Served

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
MULTIPROCESS = "PROMETHEUS_MULTIPROC_DIR"
_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WORK_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_STAGES = frozenset(
    {"fetch", "resolve", "optimise", "plan", "tune", "compile", "link", "pack", "store"}  # those of progress lines
)
_DEVICE_CODES = frozenset({*range(2001, 2006), *range(3001, 3005), *range(10001, 10006), 20001})
_CODES = frozenset(failure.code for failure in Failure) | _DEVICE_CODES
_LABELS = {
    "builds_requested": ("new", "same"),
    "uploads": ("known", "complete", "mismatch"),
    "blob_faults": ("damaged", "missing"),
    "devices": ("enrolled", "session", "quarantined"),
    "sandbox_kills": ("memory", "time"),
}
"""Every label of what is counted by name."""
_KILLS = {2003: "memory", 10001: "time"}
"""Failure codes of builds whose process was ended by force."""


_access = logging.getLogger("pock_server.access")


class Metrics:
    """Each application has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        registry = self._registry = CollectorRegistry()
        self._extra: list[Collector] = []
        self._requests = Counter(
            "pock_http_requests",
            "Requests served, by operation and status.",
            ("operation", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "pock_http_request_seconds",
            "Time to the end of the response.",
            ("operation",),
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self._in_flight = Gauge(
            "pock_http_requests_in_flight",
            "Requests being served; long polls and streams are among them.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._bytes = Counter(
            "pock_http_bytes", "Bytes of bodies, by operation and direction.", ("operation", "way"), registry=registry
        )
        self._problems = Counter("pock_problems", "Requests refused, by failure code.", ("code",), registry=registry)
        self._refused = Counter(
            "pock_connections_refused",
            "Connections ended before a request was understood, by failure code.",
            ("code",),
            registry=registry,
        )
        for limit in (Failure.BUSY, Failure.TOO_SLOW, Failure.HEADERS_TOO_LARGE, Failure.REQUEST_REFUSED):
            self._refused.labels(str(limit.code))
        self._finished = Counter(
            "pock_finished", "Builds and runs that ended.", ("kind", "state", "code"), registry=registry
        )
        self._requeued = Counter(
            "pock_requeued", "Builds and runs taken back from whoever had them.", ("kind",), registry=registry
        )
        self._wait = Histogram(
            "pock_wait_seconds",
            "From the request to the first start.",
            ("kind",),
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self._work = Histogram(
            "pock_work_seconds",
            "From the start to the end.",
            ("kind", "state"),
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self._stage = Histogram(
            "pock_build_stage_seconds", "Stages of builds.", ("stage",), buckets=_WORK_SECONDS, registry=registry
        )
        self._kernels = Counter(
            "pock_compiler_kernels", "Kernels compiled, or found in the cache.", ("found",), registry=registry
        )
        self._counts = {
            "builds_requested": Counter(
                "pock_builds_requested", "Builds asked for: new, or the same as before.", ("answer",), registry=registry
            ),
            "uploads": Counter(
                "pock_uploads", "Uploads: known before, completed, or with another digest.", ("end",), registry=registry
            ),
            "blob_faults": Counter(
                "pock_blob_faults", "Stored blobs that were found damaged or missing.", ("fault",), registry=registry
            ),
            "devices": Counter(
                "pock_device_events", "Devices enrolled, sessions opened, quarantines.", ("event",), registry=registry
            ),
            "sandbox_kills": Counter(
                "pock_sandbox_kills", "Build processes ended by force, by reason.", ("reason",), registry=registry
            ),
        }
        self._pool = Gauge(
            "pock_database_connections",
            "Connections in use, and the most there may be.",
            ("state",),
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._loop_at = Gauge(
            "pock_loop_last_success_timestamp_seconds",
            "When a background loop last went round.",
            ("loop",),
            multiprocess_mode="max",
            registry=registry,
        )
        self._loop_seconds = Histogram(
            "pock_loop_seconds", "Time of one round.", ("loop",), buckets=_REQUEST_SECONDS, registry=registry
        )
        self._loop_failures = Counter("pock_loop_failures", "Rounds that failed.", ("loop",), registry=registry)
        self._leader = Gauge(
            "pock_leader", "1 in the process that sweeps.", multiprocess_mode="livesum", registry=registry
        )
        for found in ("compiled", "cached"):
            self._kernels.labels(found)
        for noun in ("build", "run"):
            self._requeued.labels(noun)
        for name, labels in _LABELS.items():  # so that what has not happened is 0, and not absent
            for label in labels:
                self._counts[name].labels(label)
        if MULTIPROCESS not in os.environ:
            ProcessCollector(registry=registry)

    @contextmanager
    def request(self, served: Served) -> Iterator[None]:
        """Measure a request while the block lasts."""
        self._in_flight.inc()
        try:
            yield
        finally:
            self._in_flight.dec()
            self._requests.labels(served.operation, str(served.status)).inc()
            self._seconds.labels(served.operation).observe(served.seconds)
            if served.bytes_in:
                self._bytes.labels(served.operation, "in").inc(served.bytes_in)
            if served.bytes_out:
                self._bytes.labels(served.operation, "out").inc(served.bytes_out)
            if served.task.failure_code is not None:
                self._problems.labels(_code(served.task.failure_code)).inc()

    def refused(self, code: int, host: str | None) -> None:
        """A connection was ended before its request was understood."""
        self._refused.labels(_code(code)).inc()
        _access.info("connection refused", extra=fields(address=host, failure_code=code))

    def take(self, fact: Fact) -> None:
        """Count what happened."""
        if isinstance(fact, Counted):
            self.count(fact.name, fact.label)
        else:
            self._take_move(fact)

    def count(self, name: str, label: str, by: int = 1) -> None:
        """Count something of `_counts`."""
        self._counts[name].labels(label).inc(by)

    def _take_move(self, moved: Moved) -> None:
        if moved.started and moved.attempt == 1:
            self._wait.labels(moved.noun).observe(moved.seconds_since(moved.created_at))
        if moved.to == "queued":
            self._requeued.labels(moved.noun).inc()
        if moved.over:
            code = str(_code(moved.failure["code"])) if moved.failure else "0"
            self._finished.labels(moved.noun, moved.to, code).inc()
            if moved.noun == "build" and moved.failure and moved.failure["code"] in _KILLS:
                self.count("sandbox_kills", _KILLS[moved.failure["code"]])
            if moved.started_at is not None:
                self._work.labels(moved.noun, moved.to).observe(moved.seconds_since(moved.started_at))

    def stage(self, name: str, seconds: float) -> None:
        """A build's stage is over; names that are not the compiler's count as one."""
        self._stage.labels(name if name in _STAGES else "other").observe(seconds)

    def kernels(self, compiled: int, cached: int) -> None:
        """A build is over that needed so many kernels."""
        self._kernels.labels("compiled").inc(max(0, compiled))
        self._kernels.labels("cached").inc(max(0, cached))

    @contextmanager
    def loop(self, name: str) -> Iterator[None]:
        """One round of a background loop."""
        try:
            with self._loop_seconds.labels(name).time():
                yield
        except Exception:
            self._loop_failures.labels(name).inc()
            raise
        self._loop_at.labels(name).set_to_current_time()

    def lead(self, leading: bool) -> None:
        """Whether this process sweeps."""
        self._leader.set(leading)

    def watch_pool(self, engine: Engine) -> None:
        """Follow the engine's connections."""
        used = self._pool.labels("in_use")
        used.set(0)
        event.listen(engine, "checkout", lambda *_: used.inc())
        event.listen(engine, "checkin", lambda *_: used.dec())
        if isinstance(engine.pool, QueuePool):
            self._pool.labels("limit").set(engine.pool.size() + max(0, engine.pool._max_overflow))

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
