"""What a client sends, when it sends it again, and what it makes of answers that nobody should give."""

from __future__ import annotations

import json
import socket
import time
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from pock_client import (
    Client,
    CredentialsError,
    Damaged,
    KeyRefused,
    PlainTextWarning,
    PockClientError,
    Role,
    ServiceError,
    Unreachable,
)
from pock_client.cli.commands.running import held_out_of
from pock_client.errors import shown
from tests.client.conftest import KEY, Connect
from tests.client.hostile import Answer, Hostile, as_json, hostile_service, problem

ID = "01a206a4-ed0a-72b3-aa3f-0801fe16d4a6"
NAMED = {"id": ID, "name": "x"}
ME = {"name": "me", "member": None, "workspace": NAMED, "key": NAMED, "session_id": None, "scopes": ["read", "fly"]}
ME = {**ME, "expires_at": "2026-11-23T00:00:00Z", "new": {"of": "a newer service"}}
MODEL = {
    "id": ID,
    "name": "net",
    "version": 1,
    "tags": [],
    "digest": "0" * 64,
    "size": 1,
    "external": {},
    "created_at": "2026-11-23T00:00:00Z",
}
MEMBER = {"id": ID, "name": "a", "email": None, "role": "viewer", "created_at": ME["expires_at"], "disabled_at": None}


def test_what_every_request_says(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(as_json(ME))
    me = connect(f"{hostile.url}/behind/a/path/").me()
    assert me.workspace.name == "x" and list(me.scopes) == ["read", "fly"], "what is new is no error"
    (asked,) = hostile.asked
    assert (asked.method, asked.path) == ("GET", "/behind/a/path/v1/me")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.headers["user-agent"].startswith("pock-client/")
    assert asked.headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "refusal",
    [
        problem(429, 1043, retryable=True, Retry_After="0"),
        problem(503, 1042, retryable=True, Retry_After="1"),
        problem(503, 1024, Retry_After=format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)),
        problem(409, 1009, retryable=True),
        problem(408, 1040),
        Answer(502, {"Content-Length": "4"}, [b"oops"]),
    ],
)
def test_what_may_pass_is_tried_again(refusal: Answer, connect: Connect, hostile: Hostile, quick: None) -> None:
    hostile.in_turn(refusal, as_json(ME))
    assert connect(hostile.url, patience=5).me().name == "me"
    assert len(hostile.asked) == 2


@pytest.mark.parametrize("refusal", [problem(500), problem(409, 1014), problem(422, 1006), problem(401, 1001)])
def test_what_will_not_pass_is_not(refusal: Answer, connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(refusal)
    with pytest.raises(KeyRefused if refusal.status == 401 else ServiceError):
        connect(hostile.url).me()
    assert len(hostile.asked) == 1


def test_retry_after_is_kept_or_the_client_gives_up(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(problem(429, 1043, retryable=True, Retry_After="1"), as_json(ME))
    began = time.monotonic()
    connect(hostile.url).me()
    assert time.monotonic() - began >= 1
    hostile.in_turn(problem(503, 1042, "Come back tomorrow.", retryable=True, Retry_After="86400"))
    with pytest.raises(ServiceError, match="Come back tomorrow") as refused:
        connect(hostile.url).me()
    assert refused.value.retry_after == 86400


def test_a_request_that_makes_something_is_repeated_with_its_key(
    connect: Connect, hostile: Hostile, quick: None, tmp_path: Path
) -> None:
    (tmp_path / "net").write_bytes(b"x")
    upload = as_json({"id": ID, "offset": 1, "size": 1, "complete": True}, 201)
    hostile.in_turn(upload, Answer(502), problem(503, 1024, retryable=True), as_json(MODEL, 201))
    assert connect(hostile.url).models.push(tmp_path / "net").name == "net"
    keys = [asked.headers.get("idempotency-key") for asked in hostile.asked]
    assert keys[0] is None and len(keys) == 4 and len(set(keys[1:])) == 1 and keys[1]


@pytest.mark.parametrize(
    ("things", "verbs"),
    [
        *((name, ("cancel",)) for name in ("runs", "builds", "benchmarks", "federations", "searches", "tuning")),
        ("campaigns", ("pause", "resume", "cancel")),
        ("rollouts", ("pause", "resume", "cancel", "roll_back")),
    ],
)
def test_what_brings_into_a_state_is_repeated(
    things: str, verbs: tuple[str, ...], connect: Connect, hostile: Hostile, quick: None
) -> None:
    client = connect(hostile.url, patience=5)
    for verb in verbs:
        hostile.in_turn(Answer(502), problem(503, 1024, retryable=True), problem(409, 1014, "It is over."))
        with pytest.raises(ServiceError, match="It is over"):
            getattr(getattr(client, things), verb)(ID)
        assert len(hostile.asked) == 3
        hostile.asked.clear()


@pytest.mark.parametrize(
    ("refusal", "times"), [(Answer(502), 1), (problem(503, 1024), 2), (problem(409, 1056, retryable=True), 2)]
)
def test_a_request_without_a_key_is_repeated_only_if_nothing_was_done(
    refusal: Answer, times: int, connect: Connect, hostile: Hostile, quick: None
) -> None:
    hostile.in_turn(refusal, as_json(MEMBER, 201))
    client = connect(hostile.url, patience=5)
    if times == 1:
        with pytest.raises(ServiceError):
            client.members.add("a", "viewer")
    else:
        assert client.members.add("a", "viewer").role is Role.viewer
    assert len(hostile.asked) == times


def test_nobody_there_is_told_after_the_patience(connect: Connect, quick: None) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with pytest.raises(Unreachable, match="does not answer") as gone:
        connect(f"http://127.0.0.1:{port}", patience=0.2).me()
    assert not gone.value.sent


def test_a_silent_service_is_told_after_the_timeout(connect: Connect, quick: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Unreachable, match="silent") as silent:
            connect(url, timeout=0.1, patience=0.1).members.add("a", "viewer")
    assert silent.value.sent


def test_a_redirect_does_not_get_the_key(connect: Connect, hostile: Hostile) -> None:
    with hostile_service() as thief:
        hostile.in_turn(Answer(307, {"Location": f"{thief.url}/v1/me", "Content-Length": "0"}))
        with pytest.raises(ServiceError, match=f"redirect to {thief.url}/v1/me, which is not followed"):
            connect(hostile.url).me()
        assert thief.asked == []


def endless() -> Iterator[bytes]:
    while True:
        yield b" " * (1 << 20)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (as_json([1]), "not what its interface says"),
        (as_json({**ME, "workspace": 7}), "workspace"),
        (as_json({**ME, "expires_at": "soon"}), "expires_at"),
        (as_json({**ME, "key": {**NAMED, "id": "../../etc/passwd"}}), "key"),
        (Answer(200, {"Content-Type": "text/html"}, [b"<html>a page of someone else"]), "not what its interface says"),
        (Answer(200, {}, [b'{"name": "\xff"}']), "not what its interface says"),
        (Answer(200, {}, [b"[" * 1_000_000]), "not what its interface says"),
        (Answer(200, {}, endless()), "longer than"),
        (Answer(500, {}, endless()), "longer than"),
        (Answer(200, {"Content-Encoding": "gzip"}, [b"x"]), "compressed"),
    ],
)
def test_answers_that_are_none(
    answer: Answer, sentence: str, connect: Connect, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pock_client.answers.MOST_BYTES", 4 << 20)
    hostile.in_turn(answer)
    with pytest.raises(Damaged, match=sentence):
        connect(hostile.url).me()


def test_an_answer_that_never_ends_is_given_up(
    connect: Connect, hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dribble() -> Iterator[bytes]:
        while True:
            yield b" "
            time.sleep(0.01)

    monkeypatch.setattr("pock_client.answers.MOST_SECONDS", 0.2)
    hostile.in_turn(Answer(200, {}, dribble()))
    with pytest.raises(Damaged, match="not whole after"):
        connect(hostile.url).me()


def test_a_list_that_goes_round_ends(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(as_json({"items": [MODEL], "next_cursor": "again"}))
    found = []
    with pytest.raises(Damaged, match="leads back"):
        for model in connect(hostile.url).models.list():
            found.append(model)
    assert len(found) == 2


def test_a_service_without_references_does_not_give_another_model(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(as_json({"items": [MODEL], "next_cursor": None}))
    client = connect(hostile.url)
    assert client.models.find("net:v1").name == "net"
    with pytest.raises(Damaged, match="another model than 'pets'"):
        client.models.find("pets")


def test_what_a_service_says_cannot_steer_a_terminal(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(problem(422, 1006, "\x1b]0;owned\x07No\nAPI key: \u202egnp.exe " + "x" * 10_000))
    with pytest.raises(ServiceError) as refused:
        connect(hostile.url).me()
    text = str(refused.value)
    assert text.startswith("]0;owned No API key:  gnp.exe xxx") and len(text) < 5000
    assert not any(ord(character) < 32 or character in "\x7f\u202e" for character in text)
    assert shown("a\r\n\x9bb") == "a b"


def test_parts_of_a_path_cannot_leave_it(connect: Connect, hostile: Hostile) -> None:
    for ident in ("../me", "a/b", "", "..", "a?b", "é", "x" * 300):
        with pytest.raises(PockClientError, match="is no id"):
            connect(hostile.url).models.get(ident)
    assert hostile.asked == []


def test_plain_text_to_another_machine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.warns(PlainTextWarning, match="whoever is on the way can read the key"):
        Client("http://pock.example", KEY).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for url in ("http://127.0.0.1:1", "http://[::1]:1", "http://localhost", "https://pock.example"):
            Client(url, KEY).close()


def test_address_and_key_come_from_the_environment(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile.in_turn(as_json(ME))
    monkeypatch.setenv("POCK_URL", hostile.url)
    monkeypatch.setenv("POCK_KEY", KEY)
    with Client() as client:
        assert client.me().name == "me" and client.url == hostile.url
    with pytest.raises(CredentialsError):
        Client(f"{hostile.url}/#key={KEY}", KEY)
    with pytest.raises(CredentialsError):
        Client(hostile.url, "pk_a\r\nX-Evil: 1")


def test_certificates_of_an_authority_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(PockClientError, match=r"ca\.pem has no certificates"):
        Client("https://pock.example", KEY, ca_file=tmp_path / "ca.pem")


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({}, None),
        ({"save_weights": True}, "delta"),
        ({"save_weights": True, "weights_form": "delta"}, "delta"),
        ({"save_weights": True, "weights_form": "safetensors"}, "safetensors"),
        ({"weights_form": "safetensors"}, None),
    ],
    ids=str,
)
def test_the_form_of_weights_is_asked_for_with_them(
    connect: Connect, hostile: Hostile, options: dict[str, Any], form: str | None
) -> None:
    hostile.in_turn(problem(409))
    with pytest.raises(ServiceError):
        connect(hostile.url).runs.create(build=ID, device=ID, dataset=ID, steps=1, **options)
    (asked,) = hostile.asked
    assert json.loads(asked.body).get("weights_form") == form


def test_a_profile_is_asked_for(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(problem(409))
    with pytest.raises(ServiceError):
        connect(hostile.url).runs.create(build=ID, device=ID, dataset=ID, steps=1, profile=True)
    (asked,) = hostile.asked
    assert json.loads(asked.body)["profile"] is True


def test_what_is_held_out_is_asked_for(connect: Connect, hostile: Hostile) -> None:
    hostile.in_turn(problem(409))
    with pytest.raises(ServiceError):
        connect(hostile.url).runs.create(
            build=ID, device=ID, dataset=ID, steps=1, held_out={"share": 0.2, "patience": 3}
        )
    (asked,) = hostile.asked
    told = json.loads(asked.body)["held_out"]
    assert (told["share"], told["patience"], told.get("seed", 0), told.get("every", 0)) == (0.2, 3, 0, 0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [((None, None, None), None), ((0.2, None, 3), {"share": 0.2, "every": 0, "patience": 3})],
)
def test_the_commands_share(given: tuple[Any, ...], expected: dict[str, float] | None) -> None:
    assert held_out_of(*given) == expected


@pytest.mark.parametrize("given", [(None, 5, None), (None, None, 5), (0.0, None, None), (1.0, None, None)])
def test_no_share_for_the_command(given: tuple[Any, ...]) -> None:
    with pytest.raises(typer.BadParameter, match="share|between"):
        held_out_of(*given)
