"""Prometheus metrics of one process, and gauges counted in the database when they are asked for."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Each application has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "pock_http_requests_total", "Requests served.", ("operation", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "pock_http_request_seconds",
            "Time to the end of the response.",
            ("operation",),
            registry=self._registry,
        )
        self._rows = Gauge(
            "pock_rows", "Builds, runs and devices by state.", ("kind", "state"), registry=self._registry
        )

    def observe(self, operation: str, status: int, seconds: float) -> None:
        """Count one request by its operation id of the OpenAPI document: ids in paths must not become labels."""
        self._requests.labels(operation, str(status)).inc()
        self._seconds.labels(operation).observe(seconds)

    def render(self, rows: Mapping[tuple[str, str], int]) -> bytes:
        """The text format, with these counts of rows by (kind, state)."""
        self._rows.clear()
        for labels, count in rows.items():
            self._rows.labels(*labels).set(count)
        return generate_latest(self._registry)
