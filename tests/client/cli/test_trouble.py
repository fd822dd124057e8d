"""What goes wrong: keys, services that are away or hostile, and a person who loses patience."""

import json
import os
import signal
import stat
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from pock_client import Client, ServiceError
from pock_client.cli import console
from pock_client.credentials import path
from pock_server.auth.schemas import Scope
from tests.client.cli.conftest import Person, Pock

ROOT = Path(__file__).parents[3]
NOTHING = {"POCK_URL": None, "POCK_KEY": None}


def test_signing_in_keeps_a_key_that_works_and_tells_it_to_nobody(person: Person, pock: Pock) -> None:
    said = pock("login", person.service.url, "--profile", "work", say=f"{person.key}\n", **NOTHING)
    assert said.status == 0 and f"workspace {person.workspace}" in said.out
    assert stat.S_IMODE(path().stat().st_mode) == 0o600 and person.key in path().read_text()
    file = person.folder / "key"
    file.write_text(f"{person.key}\nmore")
    told = pock("login", f"{person.service.url}/", "--key-file", file, "--json", **NOTHING)
    assert told.json["profile"] == "default" and told.json["url"] == person.service.url
    for words in (("whoami",), ("whoami", "--profile", "work")):
        assert person.workspace in pock(*words, **NOTHING).out
    assert person.key not in said.out + said.err + told.out + told.err
    assert pock("logout", "--profile", "work", **NOTHING).status == 0
    again = pock("logout", "--profile", "work", **NOTHING)
    assert again.status == 1 and "there is no profile 'work' (there are: default)" in again.err
    assert pock("whoami", "--profile", "work", **NOTHING).status == 1
    assert pock("whoami", POCK_PROFILE="default", **NOTHING).status == 0


def test_a_key_that_does_not_work_is_not_kept(person: Person, pock: Pock) -> None:
    wrong = person.key[:-4] + ("aaaa" if person.key[-4:] != "aaaa" else "bbbb")
    said = pock("login", person.service.url, "--key", "-", say=f"{wrong}\n", **NOTHING)
    assert said.status == 1 and wrong not in said.out + said.err and not path().exists()
    assert pock("login", person.service.url, say="\n", **NOTHING).status == 1
    assert pock("login", "pock.example", say="pk_x\n", **NOTHING).status == 1
    said = pock("whoami", **NOTHING)
    assert said.status == 1 and "sign in with" in said.err


def test_a_key_that_may_only_read_reads(person: Person, pock: Pock) -> None:
    person.built()
    key = person.service.key(person.workspace, Scope.READ)
    assert pock("builds", POCK_KEY=key).status == 0
    said = pock("push", person.model("other"), POCK_KEY=key)
    assert said.status == 1 and "models:write" in said.err and said.out == ""


def test_a_service_that_is_away_is_4(pock: Pock, monkeypatch) -> None:
    monkeypatch.setattr("pock_client.cli.session._ANSWER_SECONDS", 0.1)
    said = pock("builds", "--json", POCK_URL="http://127.0.0.1:9")
    assert said.status == 4 and said.out == ""
    assert "http://127.0.0.1:9" in said.err and said.err.count("\n") == 1


def test_names_can_neither_steer_a_terminal_nor_mark_up(person: Person, pock: Pock) -> None:
    names = ["[red]x[/red]", "[link=http://evil]y", "a b", "*", ":smile:"]
    for name in names:
        assert pock("push", person.dataset("data"), "--name", name).status == 0
    table = pock("datasets")
    assert all(name in table.out for name in names) and table.status == 0
    assert {one["name"] for one in person.json("datasets", "a *")["items"]} == {"a b"}
    assert console.visible("\x1b]0;t\x07\u202e\u200b\u0085\n[b]") == "\\x1b]0;t\\x07\\u202e\\u200b\\x85\\x0a[b]"


def test_a_hostile_service_steers_no_terminal(person: Person, pock: Pock, monkeypatch) -> None:
    evil = "\x1b[2J\u202e\x9b31m[bold]"
    moment = datetime.now(UTC).isoformat()
    model = {
        "id": "01a206b3-f783-72d6-ba18-67d47015616b",
        "name": evil,
        "digest": "a" * 64,
        "size": 1,
        "external": {},
        "created_at": moment,
    }
    model |= {"version": 1, "tags": [evil], "total": 1}

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/models"):
            page = {"items": [model], "next_cursor": None}
            return httpx.Response(200, content=iter([json.dumps(page).encode()]))
        problem = {"type": "x", "title": evil, "status": 409, "detail": evil, "failure_code": 1, "retryable": False}
        said = iter([json.dumps(problem).encode()])
        return httpx.Response(409, content=said, headers={"content-type": "application/problem+json"})

    def client(**options: object) -> Client:
        return Client("http://127.0.0.1:1", "pk_x", transport=httpx.MockTransport(answer))

    monkeypatch.setattr("pock_client.cli.session.Client", client)
    shown = [pock("models"), pock("models", "--json"), pock("datasets"), pock("logs", "x")]
    assert [one.status for one in shown] == [0, 0, 1, 1], shown
    assert not set("\x1b\u202e\x9b") & set("".join(one.out + one.err for one in shown))
    assert "[bold]" in shown[0].out and json.loads(shown[1].out)["items"][0]["name"] == evil


def test_an_interrupted_wait_says_how_to_go_on_and_ends_nothing(person: Person) -> None:
    command = [sys.executable, "-m", "pock_client.cli", "build", str(person.model("slow")), "--target", "host"]
    waiting = subprocess.Popen(
        [*command, "--recipe", str(person.recipe())],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with Client(person.service.url, person.key) as client:
        ends = time.monotonic() + 60
        while not list(client.builds.list(state="running")):
            assert time.monotonic() < ends
            time.sleep(0.1)
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("slow for host: ")
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=60)
        assert waiting.returncode == 130 and out == ""
        assert "interrupted; the builds go on" in err and "Traceback" not in err
        (build,) = client.builds.list()
        assert build.state == "running"
        assert client.builds.cancel(build.id).state == "cancelled"


def test_many_devices_are_asked_about(person: Person, pock: Pock, monkeypatch) -> None:
    person.built()
    pock("push", person.dataset())
    monkeypatch.setattr("pock_client.cli.commands.running._MANY", 1)
    run = ("run", "net", "--on", "*", "--data", "digits", "--steps", "2", "--no-wait")
    with person.device("one", stalls=True), person.device("two", stalls=True):
        refused = pock(*run, say="n\n")
        assert refused.status == 130 and "ask for 2 runs?" in refused.err and person.json("runs")["items"] == []
        assert pock(*run, say="y\n").status == 0
        assert pock(*run, "--yes").status == 0
    monkeypatch.setattr("pock_client.cli.commands.running._MOST", 1)
    said = pock(*run)
    assert said.status == 1 and "'*' matches 2 devices, and at most 1 are asked at once" in said.err


def test_what_one_device_refuses_keeps_no_other_from_its_run(person: Person, pock: Pock) -> None:
    person.built("net", "host")
    person.built("net", "raspberry-pi-4")
    pock("push", person.dataset())
    key = person.service.key(person.workspace, Scope.READ)
    with person.device("one", stalls=True), person.device("two", "raspberry-pi-4", stalls=True):
        run = ("run", "net", "--data", "digits", "--steps", "2", "--no-wait", "--json")
        said = pock(*run, "--on", "*", POCK_KEY=key)
        assert said.status == 1 and said.err.count(" is refused: ") == 2 and said.json == {"runs": []}
        said = pock(*run, "--on", "*", "--threads", "256")
        assert said.status == 0 and len(said.json["runs"]) == 2


def test_a_reader_that_goes_away_is_no_error(person: Person) -> None:
    for number in range(3):
        assert person.pock("push", person.dataset(f"d{number}")).status == 0
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "pock_client.cli", "datasets"]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert done.stderr == "" and done.returncode == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s ago"), (125, "2 min ago"), (7300, "2 h ago"), (200_000, "2 d ago")]
)
def test_ages_are_in_the_largest_unit(seconds: int, text: str) -> None:
    moment = datetime.fromtimestamp(time.time() - seconds, UTC)
    assert console.ago(moment) == text and console.ago(None) == "never"


def test_only_what_the_library_raises_on_purpose_becomes_a_sentence(person: Person, pock: Pock, monkeypatch) -> None:
    def broken(*unused: object, **more: object) -> Client:
        raise ServiceError(503, "away", "the database is away", 1042, request_id="abc")

    monkeypatch.setattr("pock_client.cli.session.Client", broken)
    assert pock("builds").err == "pock-client: the database is away (request abc)\n"
    monkeypatch.setattr("pock_client.cli.session.Client", lambda **options: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        pock("builds")
