"""The metrics that the service has: name, meaning and labels of each. What happens to them is `metrics`'s affair.

Labels come from fixed sets: nothing that a client chooses becomes one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from pock_server.http.problems import Failure

_REQUEST_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WORK_SECONDS = (0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)


@dataclass(frozen=True)
class CountedByName:
    """A counter that facts name: its metric, what it means, its one label, and every value that the label takes."""

    metric: str
    meaning: str
    label: str
    values: tuple[str, ...]


COUNTED: Mapping[str, CountedByName] = {
    "builds_requested": CountedByName(
        "pock_builds_requested", "Builds asked for: new, or the same as before.", "answer", ("new", "same")
    ),
    "uploads": CountedByName(
        "pock_uploads",
        "Uploads: known before, completed, or with another digest.",
        "end",
        ("known", "complete", "mismatch"),
    ),
    "blob_faults": CountedByName(
        "pock_blob_faults", "Stored blobs that were found damaged or missing.", "fault", ("damaged", "missing")
    ),
    "devices": CountedByName(
        "pock_device_events",
        "Devices enrolled, sessions opened, quarantines.",
        "event",
        ("enrolled", "session", "quarantined"),
    ),
    "sandbox_kills": CountedByName(
        "pock_sandbox_kills", "Build processes ended by force, by reason.", "reason", ("memory", "time")
    ),
}


def counters(registry: CollectorRegistry) -> dict[str, Counter]:
    """The counters of `COUNTED` by name, each label value at 0: what has not happened is 0, and not absent."""
    made = {}
    for name, counted in COUNTED.items():
        made[name] = Counter(counted.metric, counted.meaning, (counted.label,), registry=registry)
        for value in counted.values:
            made[name].labels(value)
    return made


class RequestMetrics:
    """What is measured of requests; `refused` are connections that never became one."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests = Counter(
            "pock_http_requests",
            "Requests served, by operation and status.",
            ("operation", "status"),
            registry=registry,
        )
        self.seconds = Histogram(
            "pock_http_request_seconds",
            "Time to the end of the response.",
            ("operation",),
            buckets=_REQUEST_SECONDS,
            registry=registry,
        )
        self.in_flight = Gauge(
            "pock_http_requests_in_flight",
            "Requests being served; long polls and streams are among them.",
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.bytes = Counter(
            "pock_http_bytes", "Bytes of bodies, by operation and direction.", ("operation", "way"), registry=registry
        )
        self.problems = Counter("pock_problems", "Requests refused, by failure code.", ("code",), registry=registry)
        self.refused = Counter(
            "pock_connections_refused",
            "Connections ended before a request was understood, by failure code.",
            ("code",),
            registry=registry,
        )
        for limit in (Failure.BUSY, Failure.TOO_SLOW, Failure.HEADERS_TOO_LARGE, Failure.REQUEST_REFUSED):
            self.refused.labels(str(limit.code))


class WorkMetrics:
    """What is measured of builds and runs."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.finished = Counter(
            "pock_finished", "Builds and runs that ended.", ("kind", "state", "code"), registry=registry
        )
        self.requeued = Counter(
            "pock_requeued", "Builds and runs taken back from whoever had them.", ("kind",), registry=registry
        )
        self.wait = Histogram(
            "pock_wait_seconds",
            "From the request to the first start.",
            ("kind",),
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self.work = Histogram(
            "pock_work_seconds",
            "From the start to the end.",
            ("kind", "state"),
            buckets=_WORK_SECONDS,
            registry=registry,
        )
        self.stage = Histogram(
            "pock_build_stage_seconds", "Stages of builds.", ("stage",), buckets=_WORK_SECONDS, registry=registry
        )
        self.kernels = Counter(
            "pock_compiler_kernels", "Kernels compiled, or found in the cache.", ("found",), registry=registry
        )
        for found in ("compiled", "cached"):
            self.kernels.labels(found)
        self.workloads = Counter(
            "pock_tuning_workloads",
            "Workloads of builds that ask the fleet's knowledge: known, or left to the model.",
            ("found",),
            registry=registry,
        )
        for found in ("known", "unknown"):
            self.workloads.labels(found)
        for noun in ("build", "run"):
            self.requeued.labels(noun)


class ProcessMetrics:
    """What is measured of a process: its connections to the database, its loops, and whether it leads."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pool = Gauge(
            "pock_database_connections",
            "Connections in use, and the most there may be.",
            ("state",),
            multiprocess_mode="livesum",
            registry=registry,
        )
        self.loop_at = Gauge(
            "pock_loop_last_success_timestamp_seconds",
            "When a background loop last went round.",
            ("loop",),
            multiprocess_mode="max",
            registry=registry,
        )
        self.loop_seconds = Histogram(
            "pock_loop_seconds", "Time of one round.", ("loop",), buckets=_REQUEST_SECONDS, registry=registry
        )
        self.loop_failures = Counter("pock_loop_failures", "Rounds that failed.", ("loop",), registry=registry)
        self.leader = Gauge(
            "pock_leader", "1 in the process that sweeps.", multiprocess_mode="livesum", registry=registry
        )
