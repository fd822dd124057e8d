"""Log lines: whole, harmless, without credentials, and findable by request."""

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import text

from pock_server.auth import secrets
from pock_server.clock import SystemClock, new_id
from pock_server.observing.context import about
from pock_server.observing.logs import JsonLines, PatientHandler, TextLines, fields
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem

HOSTILE = (
    "a\nb",
    "a\r\nINFO forged: line",
    "\x1b[31mred\x1b[0m\x9b2J",
    "\x00\x07\x7f",
    "\u2028next\u2029\u202eright to left",
    "\ud800 lone",
)


def written(formatter: logging.Formatter, message: str, *arguments: object, **words: object) -> str:
    record = logging.LogRecord("pock_server.test", logging.INFO, "", 0, message, arguments, None)
    record.__dict__.update(fields(**words))
    return formatter.format(record)


@pytest.mark.parametrize("hostile", HOSTILE, ids=ascii)
@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()], ids=["json", "text"])
def test_a_line_stays_one_line_that_steers_nothing(formatter: logging.Formatter, hostile: str) -> None:
    with about("r", device=hostile):
        line = written(formatter, "sent %s", hostile, name=hostile)
    assert line.isprintable() and len(line.splitlines()) == 1
    line.encode()  # a terminal, a file and a collector can take it
    if isinstance(formatter, JsonLines):
        assert json.loads(line)["name"] == hostile


def test_the_lines_of_a_trace_cannot_pass_for_lines_of_the_log() -> None:
    try:
        raise ValueError("bad\n2030-01-01T00:00:00.000Z ERROR forged: line")
    except ValueError:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", None, sys.exc_info())
    lines = TextLines().format(record).splitlines()
    assert len(lines) > 2 and all(line.startswith("    | ") for line in lines[1:])
    assert "forged" in json.loads(JsonLines().format(record))["trace"]


@pytest.mark.parametrize("formatter", [JsonLines(), TextLines()], ids=["json", "text"])
def test_credentials_are_blotted_out(formatter: logging.Formatter) -> None:
    for kind in secrets.Kind:
        made = secrets.generate(kind, new_id(SystemClock().now()))
        assert made.secret[:8] not in written(formatter, f"got {made.text}", given=f"x={made.text}&")
    for secret in (
        "postgresql+psycopg://pock:hunter2@db/pock",
        "Authorization: Bearer hunter2",
        "s3://b/k?X-Amz-Signature=hunter2&x=1",
        "password=hunter2",
    ):
        assert "hunter2" not in written(formatter, secret, where=secret)


def test_long_lines_are_cut() -> None:
    line = json.loads(written(JsonLines(), "x" * 100_000, value="y" * 100_000))
    assert len(line["message"]) < 5_000 and len(line["value"]) < 1_000


def test_a_reader_that_stalls_does_not_stall_the_service() -> None:
    gate, stream = threading.Event(), io.StringIO()

    class Stalling(io.StringIO):
        def write(self, text: str) -> int:
            gate.wait(20)
            return stream.write(text)

    handler = PatientHandler(Stalling(), room=5)
    handler.setFormatter(JsonLines())
    for number in range(100):
        handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "%d", (number,), None))
    gate.set()
    handler.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert 5 <= len(lines) < 20 and lines[0]["message"] == "0"
    assert sum(line.get("lost", 0) for line in lines) + len([x for x in lines if "lost" not in x]) == 100


@pytest.fixture
def lines() -> Iterator[list[dict[str, Any]]]:
    """Every line that is logged."""
    found: list[dict[str, Any]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(json.loads(JsonLines().format(record)))

    handler = Keep()
    logging.getLogger().addHandler(handler)
    yield found
    logging.getLogger().removeHandler(handler)


def access(lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The latest access line."""
    return [line for line in lines if line["logger"] == "pock_server.access"][-1]


@pytest.mark.in_process("reads the process's log")
def test_every_answer_and_its_line_have_the_requests_id(server: Server, lines: list[dict[str, Any]]) -> None:
    for headers in ({}, {"X-Request-Id": "mine-1"}, {"X-Request-Id": "two words"}, {"X-Request-Id": "x" * 129}):
        for path, status in (("/healthz", 200), ("/nothing/at.all?key=hunter2", 404), ("/v1/models", 401)):
            answer = server.client.get(path, headers=headers)
            used = answer.headers["X-Request-Id"]
            assert answer.status_code == status
            assert (used == "mine-1") == (headers.get("X-Request-Id") == "mine-1") and " " not in used
            if status == 401:
                assert answer.json()["request_id"] == used
                assert access(lines)["failure_code"] == 1001
            if path != "/healthz":
                assert access(lines)["request_id"] == used
    assert "hunter2" not in json.dumps([line for line in lines if line["logger"].startswith("pock_server")])


@pytest.mark.in_process("reads the process's log")
def test_an_access_line_names_route_and_caller(person: Person, lines: list[dict[str, Any]]) -> None:
    assert_problem(person.get("/runs/018f0000-0000-7000-8000-000000000000?secret=hunter2"), 404, 1005)
    line = access(lines)
    assert (line["method"], line["route"], line["status"]) == ("GET", "/v1/runs/{run_id}", 404)
    assert line["run_id"] == "018f0000-0000-7000-8000-000000000000" and line["address"] == "127.0.0.1"
    assert line["principal"].replace("-", "") == person.key.split("_")[1]
    assert line["bytes_out"] > 100 and line["ms"] >= 0


def test_a_crash_is_logged_once_with_its_trace(
    server: Server, person: Person, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("something broke")

    monkeypatch.setattr("pock_server.builds.service.queue_positions", crash)
    answer = person.get("/builds", headers={"X-Request-Id": "broken"})
    assert_problem(answer, 500, 1000)
    assert answer.headers["X-Request-Id"] == answer.json()["request_id"] == "broken"
    traces = [line for line in lines if "something broke" in line.get("trace", "")]
    assert [line["request_id"] for line in traces] == ["broken"]
    assert (access(lines)["status"], access(lines)["level"]) == (500, "info")


def test_a_statement_that_fails_is_logged_without_its_values(
    server: Server, person: Person, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(session: Any, *_: object) -> None:
        session.execute(text("SELECT * FROM lacking WHERE a = :a"), {"a": "hunter" + str(2)})

    monkeypatch.setattr("pock_server.builds.service.queue_positions", crash)
    assert person.get("/builds").status_code in (500, 503)  # SQLite and PostgreSQL call it by different names
    assert "hunter2" not in json.dumps(lines) and "lacking" in json.dumps(lines)


def test_a_build_keeps_the_id_of_its_request(server: Server, person: Person, lines: list[dict[str, Any]]) -> None:
    build = person.post(
        "/builds",
        {"model_id": person.model()["id"], "recipe": {"batch": 2}, "target": "host"},
        headers={"X-Request-Id": "b-1"},
    ).json()
    assert build["request_id"] == "b-1" == person.get(f"/builds/{build['id']}").json()["request_id"]
    server.finish_build()
    moves = [line for line in lines if line["logger"] == "pock_server.facts"]
    assert [line["message"].split(": ")[1] for line in moves] == ["queued -> running", "running -> succeeded"]
    assert all((line["request_id"], line["build_id"]) == ("b-1", build["id"]) for line in moves)


def test_nothing_is_told_of_work_that_was_rolled_back(
    start_server: ServerFactory, lines: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    person = server.person()
    build = person.build().json()["id"]

    def crash(*_: object) -> None:
        raise RuntimeError("after the move")

    monkeypatch.setattr("pock_server.builds.service._describe", crash)
    assert_problem(person.post(f"/builds/{build}/cancel"), 500, 1000)
    assert [line for line in lines if line["logger"] == "pock_server.facts"] == []
    assert 'pock_finished_total{code="0",kind="build"' not in server.client.get("/metrics").text
