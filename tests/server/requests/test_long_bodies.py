"""What devices report may be long: it is read beside other requests, and means what a short body means."""

import json
import math
import sys
import threading
from types import FrameType
from typing import Any

import pytest

from pock_server import json_texts
from tests.server.harness import Device, Person, Server, assert_problem

STEPS = 6000
LOSSES = [1 / (step + 1) for step in range(STEPS)]
PADDING = " " * json_texts.LONG


@pytest.fixture
def at_work(server: Server, person: Person, device: Device) -> Device:
    """A device whose run has begun."""
    run_id = server.run(person, device).json()["id"]
    assert device.take_work() is not None and device.post("lease").status_code == 200
    assert device.work["run_id"] == run_id
    return device


def send(device: Device, path: str, text: str) -> Any:
    """POST a text as it is, with blanks behind it, so that it is long."""
    headers = {"Content-Type": "application/json"}
    return device.call("POST", f"/runs/{device.work['run_id']}/{path}", content=text + PADDING, headers=headers)


def test_nobody_waits_for_the_reader_of_a_long_body(
    server: Server, at_work: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on, read = threading.Event(), threading.Event(), json_texts.read

    def slowly(text: str | bytes) -> Any:
        reading.set()
        assert go_on.wait(30)
        return read(text)

    answers: list[Any] = []
    for path, body in (("events", {"first_seq": 0, "events": []}), ("result", {"state": "succeeded", "report": {}})):
        reading.clear()
        go_on.clear()
        monkeypatch.setattr(json_texts, "read", slowly)
        text = json.dumps({"fence": at_work.work["fence"], **body})
        sender = threading.Thread(target=lambda path=path, text=text: answers.append(send(at_work, path, text)))
        sender.start()
        try:
            assert reading.wait(30)
            assert server.client.get("/healthz").json() == {"status": "ok"}
        finally:
            monkeypatch.undo()
            go_on.set()
            sender.join()
    assert [answer.status_code for answer in answers] == [200, 200]


def test_long_events_and_reports_are_kept(person: Person, at_work: Device) -> None:
    run_id = at_work.work["run_id"]
    lines = [{"event": "step", "step": step, "loss": loss, "ms": 1.5} for step, loss in enumerate(LOSSES)]
    assert at_work.post("events", first_seq=0, events=lines).json() == {"next_seq": STEPS}
    steps = person.get(f"/runs/{run_id}/steps").json()["items"]
    assert [step["loss"] for step in steps] == LOSSES
    report = {"train": {"loss": LOSSES, "entry": "träin"}, "health": {"z": [1, None, True, "ü\n"], "a": {}}}
    assert at_work.post("result", state="succeeded", report=report).json() == {"state": "succeeded"}
    shown = person.get(f"/runs/{run_id}").json()["report"]
    assert shown["train"]["loss"] == LOSSES and shown["train"]["entry"] == "träin"
    assert json.dumps(shown["health"]) == json.dumps(report["health"])  # in its order


WRONG = (
    ("events", '{"fence": 1', "body"),
    ("events", '{"fence": 1, "first_seq": 0, "events": [{}, 1]}', "body.events.1"),
    ("events", '{"fence": 1, "first_seq": 0, "events": [{"a": "\\u0000"}]}', "text that cannot be stored"),
    ("events", '{"fence": 1, "first_seq": 0, "events": [{"a": 99999999999999999999}]}', "beyond 64 bits"),
    ("events", '{"fence": 1, "first_seq": 0, "events": [{"a": [' + "[]," * 200_000 + "1]}]}", "more than 200000"),
    ("events", '{"fence": 1, "first_seq": 0, "events": [' + "1," * 9000 + "1]}", "body.events.0"),
    ("result", '{"fence": 1, "state": "succeeded", "report": {"a": NaN}}', "not finite"),
    ("result", '{"fence": 1, "state": "succeeded", "report": {"a": [' + "1.5," * 800_000 + "1]}}", "3000000"),
    ("result", '{"fence": 1, "state": "succeeded", "report": ' + '{"a":' * 40 + "1" + "}" * 41, "deeper"),
)


def test_what_is_wrong_with_a_long_body_is_said(at_work: Device) -> None:
    for path, body, said in WRONG:
        answer = send(at_work, path, body)
        assert_problem(answer, 422, 1006)
        assert said in answer.json()["detail"], said
        assert len(answer.content) < 20_000


def test_whoever_reads_and_writes_long_texts_lets_others_in() -> None:
    value = {"floats": LOSSES, "integers": list(range(STEPS)), "objects": [{}] * STEPS, "text": 'ä"\n\\'}
    text = json.dumps(value)
    assert len(text) > json_texts.LONG
    assert calls(lambda: json_texts.read(text)) >= 3 * STEPS
    assert calls(lambda: json_texts.written(value, 2 * len(text))) >= 3 * STEPS
    for encoding in ("utf-8", "utf-16"):
        assert json_texts.read(text.encode(encoding)) == value
    known = json_texts.written(value, len(text))
    assert known == value and json.loads(known.text) == value
    assert json_texts.write(known) is known.text and json_texts.write({"a": 1}) == '{"a": 1}'


def test_what_is_written_is_neither_too_long_nor_no_json() -> None:
    assert json_texts.written({"a": "ä"}, 9).text == '{"a":"ä"}'
    with pytest.raises(ValueError, match="more than 8 characters"):
        json_texts.written({"a": "ä"}, 8)
    with pytest.raises(ValueError, match="JSON compliant"):
        json_texts.written({"a": math.inf}, 100)


def calls(work: Any) -> int:
    """How often Python code is called, or a generator of it goes on, meanwhile: there others get the interpreter."""
    count = 0

    def heard(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(heard)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
