"""One stream for many subjects: each has its own place in it, and lists tell what changed."""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pock_server.actor import Source
from pock_server.auth.requests import by_key
from pock_server.following import lists
from pock_server.following.course import Course
from pock_server.following.endpoints import MAX_FOLLOWED, follow_events
from tests.server.harness import Device, Person, Server, assert_problem

UNKNOWN = "01900000-0000-7000-8000-000000000000"
Event = tuple[str, str, dict[str, Any]]


def follow(person: Person, *names: str, after: str = "") -> list[Event]:
    """Ids, kinds and data of all events, of subjects that are over."""
    answer = person.get("/events", params={"follow": list(names)}, headers={"Last-Event-ID": after})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert "content-encoding" not in answer.headers, "what is compressed is held back"
    found = []
    for block in answer.text.strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["id"], fields["event"], json.loads(fields["data"])))
    return found


def of(events: list[Event], name: str) -> list[tuple[str, Any]]:
    """Kinds and data of one subject's events, without its end."""
    return [(kind, data["data"]) for _, kind, data in events if data["subject"] == name and kind != "end"]


def states(events: list[Event], name: str) -> list[str]:
    return [data["state"] for kind, data in of(events, name) if kind == "state"]


def ends(events: list[Event]) -> dict[str, str]:
    return {data["subject"]: data["why"] for _, kind, data in events if kind == "end"}


@pytest.fixture
def two(server: Server, person: Person, device: Device) -> tuple[str, str]:
    """A build and a run of it that are over."""
    build = server.built(person)
    run = server.run(person, device, build_id=build["id"]).json()
    assert person.post(f"/runs/{run['id']}/cancel").status_code == 200
    return f"builds/{build['id']}", f"runs/{run['id']}"


def test_each_subject_has_what_its_own_stream_has(person: Person, two: tuple[str, str]) -> None:
    build, run = two
    events = follow(person, build, run)
    assert states(events, build) == ["queued", "running", "succeeded"]
    assert states(events, run) == ["queued", "cancelled"]
    assert ends(events) == {build: "over", run: "over"}
    for name in two:
        alone = person.get(f"/{name}/events").text
        assert [json.dumps(data) for _, data in of(events, name)] == [
            json.dumps(json.loads(line.removeprefix("data: "))) for line in alone.splitlines() if line[:5] == "data:"
        ]


def test_a_stream_goes_on_where_it_was_cut_for_each_subject(person: Person, two: tuple[str, str]) -> None:
    whole = follow(person, *two)
    for cut, (position, _, _) in enumerate(whole, start=1):
        rest = [event for event in follow(person, *two, after=position) if event[1] != "end"]
        assert rest == [event for event in whole[cut:] if event[1] != "end"]
    first, second = whole[-1][0].split(".")
    assert of(follow(person, *reversed(two), after=f"{second}.{first}"), two[0]) == []
    assert of(follow(person, *reversed(two), after=f"0.{first}"), two[1]) == of(whole, two[1])


def test_what_is_not_there_is_told_and_cuts_nothing(server: Server, person: Person, two: tuple[str, str]) -> None:
    build, run = two
    stranger = server.person(workspace="others")
    assert ends(follow(stranger, build, run)) == {build: "missing", run: "missing"}
    assert of(follow(stranger, build, run), build) == []
    events = follow(person, f"runs/{UNKNOWN}", build, f"campaigns/{UNKNOWN}")
    assert ends(events) == {f"runs/{UNKNOWN}": "missing", build: "over", f"campaigns/{UNKNOWN}": "missing"}
    assert states(events, build) == ["queued", "running", "succeeded"]
    detail = next(data["detail"] for _, kind, data in events if kind == "end")
    assert detail == f"There is no run {UNKNOWN}."


@pytest.mark.parametrize(
    ("names", "after", "says"),
    [
        ([f"runs/{UNKNOWN[:-3]}{number:03}" for number in range(MAX_FOLLOWED + 1)], "", "at most 100"),
        ([], "", "follow"),
        (["models/" + UNKNOWN], "", "models cannot be followed"),
        (["runs/1"], "", "follow"),
        (["models"], "", "follow"),
        (["runs", "runs"], "", "twice"),
        (["runs", "builds"], "3", "1 positions for the 2"),
        (["runs"], "x", "Last-Event-ID"),
        (["runs"], "99999999999", "Last-Event-ID"),
    ],
    ids=["101", "none", "not followed", "no id", "no list", "twice", "positions", "no number", "large number"],
)
def test_what_cannot_be_followed_is_refused(person: Person, names: list[str], after: str, says: str) -> None:
    answer = person.get("/events", params={"follow": names}, headers={"Last-Event-ID": after})
    assert_problem(answer, 422, 1006)
    assert says in answer.json()["detail"]


def test_a_hundred_can_be_followed(person: Person) -> None:
    names = [f"runs/{UNKNOWN[:-3]}{number:03}" for number in range(MAX_FOLLOWED)]
    assert ends(follow(person, *names)) == dict.fromkeys(names, "missing")
    assert ends(follow(person, *names, after=".".join(["999999999"] * MAX_FOLLOWED))).keys() == set(names)


def course(server: Server, person: Person, *names: str) -> Course:
    caller = by_key(server.services, person.key, Source())
    made = Course(server.services, caller.workspace_id, names, [0] * len(names))
    made.note_lists()
    return made


def told(stream: Course) -> list[tuple[str, Any]]:
    """Kinds and data of what is new."""
    return [(event.kind, event.data.get("data", event.data)) for event in stream.look()]


def test_a_subject_that_is_deleted_ends_and_the_others_go_on(server: Server, person: Person, device: Device) -> None:
    build = server.built(person)
    kept, gone = (server.run(person, device, build_id=build["id"]).json()["id"] for _ in range(2))
    stream = course(server, person, f"runs/{gone}", f"runs/{kept}")
    assert [data["state"] for _, data in told(stream)] == ["queued", "queued"]
    assert told(stream) == [] and not stream.over
    assert person.post(f"/runs/{gone}/cancel").status_code == 200
    assert person.call("DELETE", f"/runs/{gone}").status_code == 204
    assert told(stream) == [("end", {"subject": f"runs/{gone}", "why": "missing"})]
    assert person.post(f"/runs/{kept}/cancel").status_code == 200
    assert [kind for kind, _ in told(stream)] == ["state", "end"]
    assert stream.over


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at a list looks again."""
    monkeypatch.setattr(lists, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(lists, "_SHARE", 0)


def notice(stream: Course) -> dict[str, Any] | None:
    """What the lists say that is new."""
    found = told(stream)
    assert len(found) < 2
    return dict(found[0][1]) if found else None


@pytest.mark.usefixtures("at_once")
def test_the_list_of_runs_tells_what_changed(server: Server, person: Person, device: Device) -> None:
    stream, others = course(server, person, "runs"), course(server, server.person(workspace="others"), "runs")
    assert notice(stream) is None and notice(others) is None
    run = server.run(person, device).json()["id"]
    assert notice(stream) == {"changed": [{"id": run, "state": "queued"}], "advanced": [], "more": False}
    assert device.take_work() is not None
    device.post("lease")
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": run, "state": "running"}]
    device.post("events", first_seq=0, events=[{"event": "step", "phase": "train", "step": 1, "loss": 1.0, "ms": 2.0}])
    assert notice(stream) == {"changed": [], "advanced": [run], "more": False}
    assert notice(stream) is None
    device.post("result", state="succeeded", report=None)
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": run, "state": "succeeded"}]
    assert person.call("DELETE", f"/runs/{run}").status_code == 204
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": run, "state": None}]
    assert notice(others) is None


@pytest.mark.usefixtures("at_once")
def test_the_lists_of_builds_and_devices_tell_what_changed(server: Server, person: Person) -> None:
    stream = course(server, person, "builds", "devices")
    assert told(stream) == []
    build = person.build().json()["id"]
    assert notice(stream) == {"changed": [{"id": build, "state": "queued"}], "advanced": [], "more": False}
    device = server.device(person)
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": device.id, "state": "online"}]
    server.clock.advance(3600)
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": device.id, "state": "offline"}]
    assert person.call("DELETE", f"/devices/{device.id}").status_code == 204
    found = notice(stream)
    assert found is not None and found["changed"] == [{"id": device.id, "state": "revoked"}]


@pytest.mark.usefixtures("at_once")
def test_a_notice_names_a_hundred_rows_and_says_that_there_are_more(server: Server, person: Person) -> None:
    stream = course(server, person, "builds")
    assert told(stream) == []
    model = person.model()["id"]
    for number in range(101):
        assert person.build(model_id=model, recipe={"batch": number + 1}).status_code == 202
    found = notice(stream)
    assert found is not None and len(found["changed"]) == 100 and found["more"]


def test_one_look_a_second_serves_all_who_follow_a_list(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists, "LOOK_SECONDS", 3600.0)
    streams = [course(server, person, "builds") for _ in range(5)]
    person.build()
    seen = {id(server.services.lists.look(stream.workspace_id, lists.Topic.BUILDS)) for stream in streams}
    assert len(seen) == 1


def test_a_stream_is_not_told_what_changed_before_it_began(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the last look, of another stream, is older and still good."""
    monkeypatch.setattr(lists, "LOOK_SECONDS", 3600.0)
    first = course(server, person, "builds")
    earlier = person.build().json()["id"]
    stream = course(server, person, "builds")
    later = person.build(recipe={"batch": 99}).json()["id"]
    course(server, person, "builds")
    found = notice(stream)
    assert found is not None and [row["id"] for row in found["changed"]] == [later]
    found = notice(first)
    assert found is not None and {row["id"] for row in found["changed"]} == {earlier, later}


def test_streams_that_begin_during_a_look_share_the_next(
    server: Server, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = server.services.lists
    find, read, together = watched._of, watched._read, 5
    asked = threading.Semaphore(0)
    looks: list[lists.Look] = []

    def note(*of: Any) -> Any:
        asked.release()
        return find(*of)

    def look_slowly(*of: Any) -> lists.Look:
        if not looks:
            for _ in range(together):
                assert asked.acquire(timeout=30)
        looks.append(read(*of))
        return looks[-1]

    monkeypatch.setattr(watched, "_of", note)
    monkeypatch.setattr(watched, "_read", look_slowly)
    with ThreadPoolExecutor(together) as pool:
        began = [pool.submit(course, server, person, "builds") for _ in range(together)]
    for one in began:
        one.result()
    assert len(looks) <= 2


def test_older_rows_that_newer_ones_push_out_are_no_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "_NEWEST", 2)
    over, still = lists.Seen("succeeded"), lists.Seen("running")

    def is_final(state: str) -> bool:
        return state == "succeeded"

    found = lists.difference({"a": over, "b": over}, {"b": over, "c": over}, is_final)
    assert found.changed == (("c", "succeeded"),)
    found = lists.difference({"a": still, "b": over}, {"b": over, "c": over}, is_final)
    assert found.changed == (("c", "succeeded"), ("a", None))


def revoke(server: Server, person: Person) -> None:
    key_id = person.get("/me").json()["key"]["id"]
    assert server.person().call("DELETE", f"/api-keys/{key_id}").status_code == 204


def stop(server: Server, person: Person) -> None:
    server.services.hub.close()


@pytest.mark.parametrize("end", [revoke, stop], ids=lambda end: end.__name__)
def test_the_stream_ends_with_the_key_and_with_the_server(
    server: Server, monkeypatch: pytest.MonkeyPatch, end: Callable[[Server, Person], None]
) -> None:
    monkeypatch.setattr("pock_server.following.endpoints.CHECK_SECONDS", 0.0)
    person = server.person()
    build = person.build().json()["id"]
    stream = course(server, person, f"builds/{build}", "runs")
    caller = by_key(server.services, person.key, Source())

    async def listen() -> list[str | None]:
        kinds = []
        async for event in follow_events(stream, caller, server.services):
            kinds.append(event.event)
            if event.event == "state":
                await asyncio.to_thread(end, server, person)
        return kinds

    assert asyncio.run(asyncio.wait_for(listen(), 30)) == [None, "state"]
