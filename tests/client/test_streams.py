"""Events of builds and runs: each once and in order, whatever happens to connection and service."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_client import (
    AsyncClient,
    Client,
    Damaged,
    EvaluationEvent,
    OtherEvent,
    ServiceError,
    StateEvent,
    StepsEvent,
    Unreachable,
    WaitTimeout,
)
from pock_client.events import Event
from tests.client.conftest import Connect
from tests.client.hostile import Answer, Asked, Hostile, as_json, problem
from tests.client.proxy import Cut, Proxy
from tests.client.service import Service
from tests.server.harness import Device, safetensors

ID = "01a206a4-ed0a-72b3-aa3f-0801fe16d4a6"
DATA = safetensors({"input": ("F32", (8, 4)), "labels": ("I64", (8,))})
_number = itertools.count()


def until(condition: Callable[[], object]) -> None:
    ends = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


class OneRun:
    """A run on a device that does what it is told."""

    def __init__(self, client: Client, http: httpx.Client, folder: Path) -> None:
        self.device = Device(http, Ed25519PrivateKey.generate())  # type: ignore[arg-type]
        assert self.device.enrol(client.enrolment_tokens.create(name="board").token).status_code == 201
        assert self.device.open_session().status_code == 200
        (folder / "net.onnx").write_bytes(b"net %d" % next(_number))
        (folder / "data").write_bytes(DATA)
        build = client.builds.create(model=client.models.push(folder / "net.onnx"), recipe={}, target="host", name="x")
        client.builds.wait(build.id, timeout=60)
        dataset = client.datasets.push(folder / "data")
        self.id = client.runs.create(build=build, device=self.device.id, dataset=dataset, steps=5).id
        assert self.device.take_work() is not None and self.device.post("lease").status_code == 200
        self.told = 0

    def step(self) -> None:
        event = {"event": "step", "step": self.told + 1, "loss": 1.0, "ms": 1.0}
        assert self.device.post("events", first_seq=self.told, events=[event]).status_code == 200
        self.told += 1

    def end(self) -> None:
        assert self.device.post("result", state="succeeded", report={}).status_code == 200


@pytest.fixture
def run(client: Client, service: Service, tmp_path: Path) -> Iterator[OneRun]:
    with httpx.Client(base_url=service.url, timeout=30, trust_env=False) as http:
        yield OneRun(client, http, tmp_path)


class Following(threading.Thread):
    """Takes the events of a run as they come."""

    def __init__(self, events: Iterator[Event]) -> None:
        super().__init__(daemon=True)
        self._events = events
        self.seen: list[Event] = []
        self.start()

    def run(self) -> None:
        for event in self._events:
            self.seen.append(event)

    def steps(self) -> list[int]:
        return [step.step for event in self.seen if isinstance(event, StepsEvent) for step in event.items]


def test_a_service_that_is_killed_and_started_again_loses_and_doubles_nothing(
    connect: Connect, service: Service, run: OneRun, quick: None
) -> None:
    following = Following(iter(connect(service.url, service.key).runs.events(run.id)))
    run.step()
    until(lambda: following.steps() == [1])
    service.kill()
    time.sleep(0.2)
    service.start()
    run.step()
    run.step()
    until(lambda: following.steps() == [1, 2, 3])
    run.end()
    following.join(60)
    assert following.seen == list(Client(service.url, service.key).runs.events(run.id))
    assert isinstance(following.seen[-1], StateEvent) and following.seen[-1].state == "succeeded"


def test_cut_streams_go_on_where_they_were(
    connect: Connect, service: Service, proxy: Proxy, run: OneRun, quick: None
) -> None:
    for _ in range(4):
        run.step()
    run.end()
    whole = list(Client(service.url, service.key).runs.events(run.id))
    proxy.cuts = [Cut(down=size) for size in (0, 300, 900, 1000, 1100)] + [Cut(up=20)]
    assert list(connect(proxy.url, service.key).runs.events(run.id)) == whole
    assert proxy.connections >= 4


def sse(*events: tuple[int, str, Any]) -> bytes:
    return b"".join(b"id: %d\nevent: %s\ndata: %s\n\n" % (n, k.encode(), json.dumps(d).encode()) for n, k, d in events)


def stream(*chunks: bytes) -> Answer:
    return Answer(200, {"Content-Type": "text/event-stream; charset=utf-8"}, chunks)


OVER = (9, "state", {"state": "succeeded"})


def test_each_kind_of_event_has_its_type(connect: Connect, hostile: Hostile) -> None:
    evaluation = {"phase": "eval_after", "samples": 8, "loss": 0.5, "accuracy": None, "of": "a newer service"}
    steps = {"items": [{"step": 1, "loss": None, "ms": 2}]}
    events: tuple[Any, ...] = ((1, "steps", steps), (2, "eval", evaluation), (3, "weather", {}), OVER)
    hostile.in_turn(stream(b": ping\n\n", sse(*events)))
    first, second, third, last = connect(hostile.url).runs.events(ID)
    assert isinstance(first, StepsEvent) and first.items[0].loss is None
    assert isinstance(second, EvaluationEvent) and (second.loss, second.accuracy) == (0.5, None)
    assert third == OtherEvent(id=3, kind="weather")
    assert isinstance(last, StateEvent) and last.id == 9


def test_what_comes_again_is_told_once(connect: Connect, hostile: Hostile, quick: None) -> None:
    step: dict[str, Any] = {"items": []}
    hostile.in_turn(
        stream(sse((1, "steps", step), (2, "steps", step))),
        problem(503, 1024, retryable=True),
        stream(sse((1, "steps", step), (2, "steps", step), (3, "steps", step), OVER, (10, "steps", step))),
    )
    taken = hostile.answers
    hostile.answers = lambda asked: taken(asked) if asked.path.endswith("events") else as_json(RUN)
    assert [event.id for event in connect(hostile.url).runs.events(ID)] == [1, 2, 3, 9]
    assert [one.headers["last-event-id"] for one in hostile.asked if one.path.endswith("events")][-1] == "2"


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (stream(*[b"x" * (1 << 20)] * 20), "longer than"),
        (stream(*[b"data: " + b"x" * (1 << 20) + b"\n"] * 20), "longer than"),
        (stream(b"id: many\ndata: 1\n\n"), "a number that is none"),
        (stream(sse((1, "state", {"state": 7}))), "event 1"),
        (stream(b"id: 1\nevent: steps\ndata: {\xff}\n\n"), "event 1"),
        (stream(b"id: 1\nevent: steps\ndata: " + b"[" * 100_000 + b"\n\n"), "event 1"),
        (as_json({"id": 1}), "something else than events"),
        (Answer(200, {"Content-Type": "text/event-stream", "Content-Encoding": "gzip"}, [b"x"]), "compressed"),
    ],
)
def test_events_that_are_none_end_it(answer: Answer, sentence: str, connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(answer)
    with pytest.raises(Damaged, match=sentence):
        list(connect(hostile.url).runs.events(ID))


def test_a_stream_that_ends_at_once_for_ever_is_given_up(connect: Connect, hostile: Hostile, quick: None) -> None:
    def answers(asked: Asked) -> Answer:
        if asked.path.endswith("/events"):
            return stream(b": ping\n\n")
        return as_json(RUN)

    hostile.answers = answers
    with pytest.raises(Unreachable, match="early"):
        list(connect(hostile.url, patience=0.1).runs.events(ID))


RUN = {
    **dict.fromkeys(("id", "build_id", "device_id", "dataset_id"), ID),
    **{key: {"id": ID, "name": "x", "version": 1} for key in ("model", "build", "dataset")},
    **dict.fromkeys(("recipe", "eval_dataset"), None),
    **dict.fromkeys(("eval_dataset_id", "queue_position", "progress", "report", "weights_digest", "failure"), None),
    **dict.fromkeys(("request_id", "started_at", "finished_at", "not_before", "part_of", "after", "paused"), None),
    **dict.fromkeys(("retry_of", "retried_by"), None),
    **dict.fromkeys(("steps", "threads", "seed", "attempt", "priority", "retry"), 1),
    "retries": {},
    "device_name": "d",
    "target": "host",
    "entry": "train",
    "save_weights": False,
    "state": "paused",
    "created_at": "2026-11-23T00:00:00Z",
}
"""A run of a newer service, in a state that this client does not know."""
OVER_RUN = {**RUN, "state": "succeeded"}


def test_the_last_event_is_not_lost_to_a_stream_that_ends_just_before_it(connect: Connect, hostile: Hostile) -> None:
    streams = [stream(sse((1, "steps", {"items": []}))), stream(sse(OVER))]
    hostile.answers = lambda asked: streams.pop(0) if asked.path.endswith("/events") else as_json(OVER_RUN)
    assert [event.id for event in connect(hostile.url).runs.events(ID)] == [1, 9]


def test_a_run_that_is_gone_ends_its_events(connect: Connect, service: Service) -> None:
    with pytest.raises(ServiceError) as refused:
        list(connect(service.url, service.key).runs.events(ID))
    assert refused.value.status == 404


def test_a_wait_ends_in_time_though_the_service_is_silent(connect: Connect, hostile: Hostile) -> None:
    released = threading.Event()

    def silent() -> Iterator[bytes]:
        yield b": ping\n\n"
        released.wait(60)

    hostile.answers = lambda asked: stream(*()) if released.is_set() else Answer(200, EVENTS, silent())
    try:
        with pytest.raises(WaitTimeout):
            connect(hostile.url).runs.wait(ID, timeout=0.3)
        with pytest.raises(WaitTimeout):
            connect("http://127.0.0.1:9", patience=60).runs.wait(ID, timeout=0.3)
    finally:
        released.set()


EVENTS = {"Content-Type": "text/event-stream"}


def test_who_stops_taking_events_closes_the_connection(connect: Connect, service: Service, run: OneRun) -> None:
    run.step()

    class StopError(Exception):
        pass

    def stop(event: Event) -> None:
        raise StopError

    client = connect(service.url, service.key)
    with pytest.raises(StopError):
        client.runs.wait(run.id, on_event=stop)
    run.end()
    assert client.runs.wait(run.id).state == "succeeded"


def test_a_wait_that_is_cancelled_leaves_the_client_of_use(service: Service, run: OneRun) -> None:
    async def main() -> None:
        async with AsyncClient(service.url, service.key) as client:
            waiting = asyncio.create_task(client.runs.wait(run.id))
            await asyncio.sleep(0.3)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            run.end()
            assert (await client.runs.wait(run.id, timeout=30)).state == "succeeded"

    asyncio.run(main())
