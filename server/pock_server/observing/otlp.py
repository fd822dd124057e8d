"""Traces for an OpenTelemetry collector, by OTLP over HTTP; imported only where the settings name one."""

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import Headers

from pock_server import __version__
from pock_server.observing.facts import Moved, Stage
from pock_server.observing.middleware import PROBES, Served

_KEPT = 64
_SECONDS = 5.0


class OtlpTraces:
    """Spans leave in batches, from a thread of their own; a collector that is away costs spans and nothing else."""

    def __init__(self, endpoint: str, share: float) -> None:
        resource = Resource.create(
            {"service.name": "pock-server", "service.version": __version__, "process.pid": os.getpid()}
        )
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(share)), resource=resource, shutdown_on_exit=False
        )
        exporter = OTLPSpanExporter(endpoint=endpoint.rstrip("/") + "/v1/traces", timeout=_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=2000))
        self._tracer = self._provider.get_tracer("pock_server", __version__)
        self._propagator = TraceContextTextMapPropagator()
        self._lock = threading.Lock()
        self._stages: OrderedDict[str, Sequence[Stage]] = OrderedDict()

    @contextmanager
    def request(self, served: Served) -> Iterator[None]:
        """A span while the request lasts; what asks for the service's health gets none."""
        if served.scope["path"] in PROBES:
            yield
            return
        parent = self._context(Headers(scope=served.scope).get("traceparent"))
        span = self._tracer.start_span("request", parent, SpanKind.SERVER)
        found = span.get_span_context()
        served.task.trace_id = f"{found.trace_id:032x}"
        served.task.traceparent = self._header(span)
        try:
            yield
        finally:
            span.update_name(f"{served.scope['method'][:20]} {served.route}")
            span.set_attributes(
                {
                    "http.request.method": served.scope["method"][:20],
                    "http.route": served.route,
                    "http.response.status_code": served.status,
                    "pock.request_id": served.task.request_id,
                }
            )
            span.set_attributes({f"pock.{name}": value for name, value in served.task.fields.items()})
            if served.status >= 500:
                span.set_status(Status(StatusCode.ERROR))
            span.end()

    def stages(self, build_id: str, stages: Sequence[Stage]) -> None:
        """Keep them until the build is over; of builds that were taken away the last few are kept in vain."""
        with self._lock:
            self._stages[build_id] = tuple(stages)
            while len(self._stages) > _KEPT:
                self._stages.popitem(last=False)

    def moved(self, moved: Moved) -> None:
        """A span from the request to the end, within it the wait, the work, and the stages of a build."""
        if not moved.over:
            return
        with self._lock:
            stages = self._stages.pop(moved.id, ())
        parent = self._context(moved.traceparent)
        span = self._tracer.start_span(moved.noun, parent, start_time=_nanoseconds(moved.created_at))
        span.set_attributes({f"pock.{moved.noun}_id": moved.id, "pock.state": moved.to, "pock.attempt": moved.attempt})
        span.set_attributes({f"pock.{name}": value for name, value in moved.holder.items()})
        if moved.request_id is not None:
            span.set_attribute("pock.request_id", moved.request_id)
        if moved.failure is not None:
            span.set_attribute("pock.failure_code", int(moved.failure["code"]))
            span.set_status(Status(StatusCode.ERROR, str(moved.failure["detail"])[:500]))
        inside, end = set_span_in_context(span), _nanoseconds(moved.at)
        started = _nanoseconds(moved.started_at) if moved.started_at is not None else end
        self._tracer.start_span("wait", inside, start_time=_nanoseconds(moved.created_at)).end(started)
        if moved.started_at is not None:
            work = self._tracer.start_span("work", inside, start_time=started)
            for stage in stages:
                begun = self._tracer.start_span(
                    stage.name, set_span_in_context(work), start_time=int(stage.began * 1e9)
                )
                begun.end(int(stage.ended * 1e9))
            work.end(end)
        span.end(end)

    def close(self) -> None:
        """Send what is left, for a moment."""
        self._provider.shutdown()

    def _context(self, traceparent: str | None) -> Context:
        return self._propagator.extract({"traceparent": traceparent} if traceparent else {}, Context())

    def _header(self, span: Span) -> str | None:
        carrier: dict[str, str] = {}
        self._propagator.inject(carrier, set_span_in_context(span))
        return carrier.get("traceparent")


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)
