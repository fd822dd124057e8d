"""Traces arrive at an OpenTelemetry collector, and cost nothing where nobody wants them."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from pock_server.observing.facts import Stage
from tests.server.conftest import ServerFactory

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


class Collector:
    """Receives OTLP over HTTP."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.path == "/v1/traces":
                    for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                        collector.spans += [span for scope in resource.scope_spans for span in scope.spans]
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def named(self, name: str) -> Any:
        [span] = [span for span in self.spans if span.name == name]
        return span


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {pair.key: pair.value.string_value or pair.value.int_value for pair in span.attributes}


def test_a_build_and_a_run_are_in_the_trace_of_their_request(start_server: ServerFactory, collector: Collector) -> None:
    server = start_server(otlp_endpoint=collector.url)
    person = server.person()
    device = server.device(person)
    order = {"model_id": person.model()["id"], "recipe": {"batch": 2}, "target": "host"}
    build = person.post("/builds", order, headers={"traceparent": PARENT, "X-Request-Id": "b-1"}).json()
    server.services.traces.stages(build["id"], [Stage("compile", 1.0, 2.0), Stage("link", 2.0, 2.5)])
    server.finish_build()
    run = server.run(person, device, build["id"]).json()
    device.take_work()
    device.post("lease")
    assert device.post("result", state="failed", failure={"code": 2001, "detail": "it broke"}).status_code == 200
    assert server.client.get("/healthz", headers={"traceparent": PARENT}).status_code == 200
    server.services.traces.close()

    asked, built = collector.named("POST /v1/builds"), collector.named("build")
    assert asked.trace_id.hex() == TRACE and asked.parent_span_id.hex() == "00f067aa0ba902b7"
    assert attributes(asked).items() >= {"http.response.status_code": 202, "pock.request_id": "b-1"}.items()
    assert built.trace_id.hex() == TRACE and built.parent_span_id == asked.span_id
    assert attributes(built)["pock.build_id"] == build["id"]
    compiled = collector.named("compile")
    [work] = [span for span in collector.spans if span.name == "work" and span.parent_span_id == built.span_id]
    assert (
        compiled.parent_span_id == work.span_id and compiled.end_time_unix_nano - compiled.start_time_unix_nano == 1e9
    )
    ran = collector.named("run")
    assert ran.parent_span_id == collector.named("POST /v1/runs").span_id and ran.status.code == 2
    assert attributes(ran).items() >= {"pock.run_id": run["id"], "pock.device_id": device.id}.items()
    assert "GET /healthz" not in {span.name for span in collector.spans}
    assert "hunter2" not in str(collector.spans) and person.key not in str(collector.spans)


def test_a_collector_that_is_away_costs_nothing_but_spans(start_server: ServerFactory, collector: Collector) -> None:
    collector.server.shutdown()
    collector.server.server_close()
    server = start_server(otlp_endpoint=collector.url)
    person = server.person()
    assert person.get("/models").status_code == 200
    assert person.get("/models", headers={"traceparent": "not one"}).status_code == 200


def test_off_means_not_imported(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from pock_server.app import create_app; from pock_server.settings import Settings;"
        "create_app(Settings(data_dir=pathlib.Path(sys.argv[1]), database_url='', store_url=''));"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', 'opentelemetry.exporter'))]"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, timeout=60)
