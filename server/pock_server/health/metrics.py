"""Prometheus metrics of one process, and gauges counted in the database when they are asked for."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Each application has its own registry, so that several can live in one process."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "pock_http_requests_total", "Requests served.", ("method", "route", "status"), registry=self._registry
        )
        self._seconds = Histogram(
            "pock_http_request_seconds",
            "Time to the end of the response.",
            ("method", "route"),
            registry=self._registry,
        )
        self._rows = Gauge(
            "pock_rows", "Builds, runs and devices by state.", ("kind", "state"), registry=self._registry
        )

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request; `route` is its path template, so that ids do not become labels."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def render(self, rows: Mapping[tuple[str, str], int]) -> bytes:
        """The text format, with these counts of rows by (kind, state)."""
        self._rows.clear()
        for labels, count in rows.items():
            self._rows.labels(*labels).set(count)
        return generate_latest(self._registry)
