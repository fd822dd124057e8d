"""The log of a run: what happened to it and what its device told, a line each, whatever a device sends."""

import re

import pytest

from pock_server.runs.reporting.log import MOST_ROWS
from tests.server.harness import Device, Person, Server

START = {"event": "start", "entry": "train", "steps": 20, "first_step": 0, "threads": 4, "arena_bytes": 4096}
SAVED = {"event": "saved", "path": "checkpoint.safetensors"}


def _lines(person: Person, run: str) -> list[str]:
    """Without their times."""
    text = person.get(f"/runs/{run}/log").text
    told = text.splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ  ", line) for line in told), text
    return [line.split("Z  ", 1)[1] for line in told]


@pytest.fixture
def run(server: Server, person: Person, device: Device) -> str:
    ident: str = server.run(person, device).json()["id"]
    assert device.take_work() is not None
    assert device.post("lease").status_code == 200
    return ident


def test_states_beginnings_evaluations_and_checkpoints_are_in_order(person: Person, device: Device, run: str) -> None:
    evaluated = {"event": "eval", "phase": "eval_after", "samples": 397, "loss": 0.25, "accuracy": 0.889}
    steps = [{"event": "step", "step": step, "loss": 1.0, "ms": 1.0} for step in range(1, 4)]
    assert device.post("events", first_seq=0, events=[START, *steps, SAVED, evaluated]).status_code == 200
    failure = {"code": 2001, "detail": "it ended\nby a signal"}
    assert device.post("result", state="failed", failure=failure).status_code == 200
    assert _lines(person, run) == [
        "queued",
        "leased",
        "running",
        "train begins: steps 20, first_step 0, threads 4, arena_bytes 4096",
        "the executable saved checkpoint.safetensors",
        "eval_after: samples 397, loss 0.25, accuracy 0.889",
        "failed: failure 2001, it ended",
        "by a signal",
    ]


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ({"event": "start"}, "the executable begins: "),
        ({"event": "start", "entry": ["train"], "steps": "20", "threads": -1}, "the executable begins: "),
        ({"event": "start", "entry": "a\nb\x1b[2J", "steps": 2.5}, "a\ufffdb\ufffd[2J begins: "),
        ({"event": "saved", "path": {"deep": []}}, "the executable saved "),
        ({"event": "agent", "text": "3 files\nare here"}, "agent: 3 files\ufffdare here"),
        ({"event": "agent", "text": ["x"]}, "agent: "),
        ({"event": "saved", "path": "x" * 10_000}, "the executable saved " + "x" * 200),
    ],
)
def test_what_a_device_tells_stays_a_line(
    event: dict[str, object], line: str, person: Person, device: Device, run: str
) -> None:
    assert device.post("events", first_seq=0, events=[event]).status_code == 200
    assert _lines(person, run)[-1] == line


def test_a_device_cannot_fill_the_log(
    person: Person, device: Device, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pock_server.runs.reports.MOST_ROWS", 5)
    for batch in range(8):
        assert device.post("events", first_seq=1000 * batch, events=[SAVED] * 1000).status_code == 200
    text = person.get(f"/runs/{run}/log").text
    assert 0 < text.count("saved") < 5 * 1000 and MOST_ROWS < 1000
    assert len(text) < 5 * 8000


def test_others_do_not_read_it(server: Server, run: str) -> None:
    assert server.person(workspace="another").get(f"/runs/{run}/log").status_code == 404
