"""Metrics: who may read them, that processes add up, and that dashboard and alerts name what is there."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from pock_server.runner.claims import Broken
from tests.server.conftest import ServerFactory
from tests.server.harness import Device, Person, Server, assert_problem

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "docker" / "prometheus" / "alerts.yml"
DASHBOARD = ROOT / "docker" / "grafana" / "dashboards" / "pock.json"


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples by name and sorted labels."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(server: Server, name: str, **labels: str) -> float:
    return values(server.client.get("/metrics").text).get((name, tuple(sorted(labels.items()))), 0.0)


def test_without_a_token_only_this_machine_reads_them(server: Server) -> None:
    assert server.client.get("/metrics").status_code == 200
    for name in ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"):
        assert_problem(server.client.get("/metrics", headers={name: "127.0.0.1"}), 401, 1001)
    stranger = TestClient(server.client.app, client=("192.0.2.1", 1234))
    assert_problem(stranger.get("/metrics"), 401, 1001)


def test_with_a_token_whoever_has_it_reads_them(start_server: ServerFactory) -> None:
    server = start_server(metrics_token="a-token")
    stranger = TestClient(server.client.app, client=("192.0.2.1", 1234))
    for client in (server.client, stranger):
        assert client.get("/metrics", headers={"Authorization": "Bearer a-token"}).status_code == 200
        for wrong in ("", "Bearer", "Bearer a-toke", "Basic a-token", "Bearer é"):
            assert_problem(client.get("/metrics", headers={b"Authorization": wrong.encode()}), 401, 1001)


def test_what_happens_is_counted(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    assert person.build(model_id=build["model_id"]).json()["id"] == build["id"]
    person.build(threads=1)
    server.finish_build(Broken(10001, "It took too long."))
    assert value(server, "pock_builds_requested_total", answer="new") == 2
    assert value(server, "pock_builds_requested_total", answer="same") == 1
    assert value(server, "pock_finished_total", kind="build", state="failed", code="10001") == 1
    assert value(server, "pock_sandbox_kills_total", reason="time") == 1
    assert value(server, "pock_uploads_total", end="complete") == 1
    assert value(server, "pock_device_events_total", event="session") == 1
    server.run(person, device, build["id"])
    assert device.take_work() is not None
    device.post("lease")
    failure = {"code": 54_321, "detail": "a code that nobody knows"}
    assert device.post("result", state="failed", failure=failure).status_code == 200
    assert value(server, "pock_finished_total", kind="run", state="failed", code="other") == 1
    assert value(server, "pock_wait_seconds_count", kind="run") == 1
    assert value(server, "pock_work_seconds_count", kind="run", state="failed") == 1
    assert value(server, "pock_problems_total", code="1005") == 0
    person.get("/runs/018f0000-0000-7000-8000-000000000000")
    assert value(server, "pock_problems_total", code="1005") == 1


def test_no_label_is_of_a_clients_choice(server: Server, person: Person) -> None:
    before = {key for key in values(server.client.get("/metrics").text) if key[0].startswith("pock_http")}
    server.client.get("/metrics")
    for number in range(20):
        server.client.request(f"METHOD{number}", f"/path/{number}?{number}", headers={"X-Request-Id": f"id{number}"})
        person.get(f"/builds/018f0000-0000-7000-8000-{number:012d}")
    fresh = {key for key in values(server.client.get("/metrics").text) if key[0].startswith("pock_http")} - before
    assert len({dict(labels).get("operation") for _, labels in fresh}) < 5


def named(expression: str) -> set[str]:
    """The metrics in a PromQL expression: words that are no function, label, keyword or text."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\[[^\]]*\]|\b(by|without|on)\s*\([^)]*\)', " ", expression)
    return {word for word in re.findall(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\()\b", bare) if word.startswith("pock_")}


def labels_of(expression: str) -> set[tuple[str, str]]:
    """(metric, label) pairs that selectors ask for."""
    found = re.findall(r"(pock_\w+)\{([^}]*)\}", expression)
    return {(metric, label) for metric, text in found for label in re.findall(r'(\w+)\s*[=!]~?\s*"', text)}


def expressions() -> list[str]:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return [r["expr"] for r in rules] + [t["expr"] for p in panels for t in p.get("targets", ())]


def test_alerts_and_dashboard_name_what_is_exposed(server: Server, person: Person, device: Device) -> None:
    server.run(person, device)
    device.take_work()
    device.post("lease")
    device.post("result", state="succeeded", report={})
    person.build(threads=1)
    metrics = server.services.metrics
    metrics.stage("compile", 1.0)
    with metrics.loop("sweeper"):
        pass
    with pytest.raises(RuntimeError), metrics.loop("other"):
        raise RuntimeError
    server.client.get("/v1/nothing")
    there: dict[str, set[str]] = {}
    for name, labels in values(server.client.get("/metrics").text):
        there.setdefault(name, set()).update(dict(labels))
    asked = expressions()
    assert len(asked) > 30 and all("pock_" in text or text.startswith("up{") for text in asked)
    missing = sorted({name for text in asked for name in named(text)} - set(there))
    assert missing == []
    assert [pair for text in asked for pair in labels_of(text) if pair[1] not in there[pair[0]]] == []


def test_operations_that_alerts_leave_out_exist(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    known = [operation["operationId"] for path in document["paths"].values() for operation in path.values()]
    for text in expressions():
        for pattern in re.findall(r'operation!?~"([^"]*)"', text):
            for part in pattern.split("|"):
                assert any(re.fullmatch(part, name) for name in known), part


def test_every_alert_and_metric_is_explained() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert [rule["alert"] for rule in rules if f"`{rule['alert']}`" not in page] == []
    assert len({rule["alert"] for rule in rules}) == len(rules)
    plain = {re.sub(r"_(bucket|sum|count)$", "", name) for text in expressions() for name in named(text)}
    assert [name for name in plain if name not in page] == []


_PROCESS = """
import sys
from pathlib import Path
from pock_server.observing.metrics import Metrics
metrics = Metrics()
metrics.count("uploads", "complete", 2)
metrics.lead(sys.argv[1] == "1")
metrics.stage("compile", 0.2)
print(metrics.render().decode())
"""


def test_processes_of_one_service_add_up(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    texts = [
        subprocess.run(
            [sys.executable, "-c", _PROCESS, argument],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for argument in ("1", "0")
    ]
    assert values(texts[-1])[("pock_uploads_total", (("end", "complete"),))] == 4
    assert values(texts[-1])[("pock_build_stage_seconds_count", (("stage", "compile"),))] == 2


def test_a_port_of_their_own(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {
        **os.environ,
        "POCK_METRICS_PORT": str(port),
        "POCK_METRICS_TOKEN": "a-token",
        "POCK_RUNNER": "none",
        "POCK_DATABASE_URL": "",
    }
    arguments = [sys.executable, "-m", "pock_server.cli", "serve", "--port", "0", "--data-dir", str(tmp_path), "--json"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as child:
        try:
            assert child.stdout is not None
            url = json.loads(child.stdout.readline())["url"]
            while b"pock_leader 1.0" not in read(f"http://127.0.0.1:{port}/metrics"):
                time.sleep(0.1)  # the sweeper has just begun
            with socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1]))) as line:
                line.sendall(b"no request\r\n\r\n")
                assert line.recv(100).startswith(b"HTTP/1.1 400")
            assert b'pock_connections_refused_total{code="1007"} 1.0' in read(f"http://127.0.0.1:{port}/metrics")
            with pytest.raises(urllib.error.HTTPError) as caught:
                read(f"{url}/metrics")
            assert caught.value.code == 401
        finally:
            child.terminate()


def read(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=20) as answer:
        return answer.read()
