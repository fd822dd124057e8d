"""The metrics on a port of their own, for networks where only the monitoring reaches it, and `/healthz` beside them."""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from prometheus_client import multiprocess, start_http_server
from prometheus_client.registry import Collector, CollectorRegistry

from pock_server.observing.metrics import MULTIPROCESS, Metrics
from pock_server.settings import Settings, UnusableSetting


@contextmanager
def metrics_server(settings: Settings, metrics: Metrics, lives: Callable[[], bool] = lambda: True) -> Iterator[None]:
    """Serve `/metrics` on the port of the settings while the block runs; nothing happens if they name none.

    `/healthz` there is 200 while the process `lives`, and 503 otherwise. Raises `UnusableSetting` if the port is taken.
    """
    if settings.metrics_port is None:
        yield
        return
    registry = CollectorRegistry()
    registry.register(_Everything(metrics))
    try:
        server, thread = start_http_server(settings.metrics_port, settings.metrics_address, registry)
    except OSError as error:
        raise UnusableSetting(
            f"cannot serve metrics at {settings.metrics_address} port {settings.metrics_port}: {error.strerror}; "
            "correct POCK_METRICS_ADDRESS, or choose another POCK_METRICS_PORT"
        ) from None
    server.set_app(_with_health(server.get_app(), lives))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def shared_metrics() -> Iterator[None]:
    """Have the metrics of the processes that are started in this block add up, in a folder that goes with it."""
    if os.environ.get(MULTIPROCESS):
        yield
        return
    with tempfile.TemporaryDirectory(prefix="pock-metrics-") as folder:
        os.environ[MULTIPROCESS] = folder
        try:
            yield
        finally:
            del os.environ[MULTIPROCESS]


def forget_process(pid: int | None) -> None:
    """A process died: what it had in hand is no more; what it counted stays."""
    if pid is not None and os.environ.get(MULTIPROCESS):
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]


def _with_health(others: WSGIApplication | None, lives: Callable[[], bool]) -> WSGIApplication:
    assert others is not None

    def answer(environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/healthz":
            return others(environ, start)
        well = lives()
        start("200 OK" if well else "503 Service Unavailable", [("Content-Type", "application/json")])
        return [b'{"status":"ok"}' if well else b'{"status":"stuck"}']

    return answer


class _Everything(Collector):
    """What `Metrics` exposes at the moment of asking."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self):  # type: ignore[no-untyped-def]
        """All metrics."""
        return self._metrics.exposed().collect()

    def describe(self):  # type: ignore[no-untyped-def]
        """Nothing in advance: registering must not count rows."""
        return ()
