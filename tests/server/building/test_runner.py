"""The in-process runner with real child processes (a double of the worker command, which compiles nothing)."""

import asyncio
import fcntl
import io
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from pock_server.runner import background, process
from pock_server.runner.claims import Broken
from pock_server.runner.description import ask_compiler
from pock_server.runner.hearing import Description, Hearing, read_lines
from pock_server.runner.workplace import workspace_cache
from pock_server.sandbox.confinement import Den, Mechanism
from pock_server.services import Services
from pock_server.settings import Settings
from pock_server.worker.lines import Lines
from tests.server.conftest import ServerFactory
from tests.server.harness import FAKE_WORKER, Person, Server, assert_problem, sse

COMMAND = (sys.executable, str(FAKE_WORKER))


def wait_for(probe: Callable[[], Any], seconds: float = 30) -> Any:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = probe()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def finished(person: Person, build_id: str, seconds: float = 60) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        build = person.get(f"/builds/{build_id}").json()
        return build if build["finished_at"] else None

    return dict(wait_for(look, seconds))


@pytest.fixture
def server(start_server: ServerFactory) -> Server:
    return start_server(runner="inprocess", worker_command=COMMAND)


def test_worker_is_listened_to(person: Person) -> None:
    build = finished(person, person.build(name="succeed").json()["id"])
    assert build["state"] == "succeeded" and build["summary"] == {**build["summary"], "kernels": 5}
    assert build["progress"] == {"stage": "codegen", "done": 1, "total": 4, "fraction": 0.25}
    log = person.get(f"/builds/{build['id']}/log").text.splitlines()
    assert log[0] == f"build {build['id']}, attempt 1, request {build['request_id']}"
    assert {"asked to succeed", "a line that is not JSON", "a line on stderr"} <= set(log)
    assert person.get(f"/artifacts/{build['artifact_digest']}").json()["format"] == 1
    kinds = [kind for _, kind, _ in sse(person.get(f"/builds/{build['id']}/events").text)]
    assert kinds[0] == "state" and kinds[-1] == "state" and {"log", "progress"} <= set(kinds)


@pytest.mark.parametrize(
    "behaviour,code,says", [("fail", 3002, "Foo"), ("crash", 2001, "exit status 7"), ("die", 2003, "memory")]
)
def test_failures_of_the_worker(person: Person, behaviour: str, code: int, says: str) -> None:
    build = finished(person, person.build(name=behaviour).json()["id"])
    assert build["state"] == "failed" and build["failure"]["code"] == code
    assert says in build["failure"]["detail"]
    assert "a line on stderr" in person.get(f"/builds/{build['id']}/log").text


def test_cancel_ends_the_child(server: Server, person: Person) -> None:
    build_id = person.build(name="hang").json()["id"]
    pid = _child(server)
    assert person.post(f"/builds/{build_id}/cancel").json()["state"] == "cancelled"
    wait_for(lambda: not _alive(pid))
    model = person.model(b"another")["id"]
    assert finished(person, person.build(model_id=model, name="succeed").json()["id"])["state"] == "succeeded"
    assert person.get(f"/builds/{build_id}").json()["state"] == "cancelled"


def test_child_that_takes_too_long_is_ended(start_server: ServerFactory) -> None:
    server = start_server(runner="inprocess", worker_command=COMMAND, build_timeout_seconds=2.5)
    person = server.person()
    build_id = person.build(name="hang").json()["id"]
    pid = _child(server)
    assert finished(person, build_id)["failure"]["code"] == 10001
    assert not _alive(pid)
    assert not list(server.services.settings.effective_work_dir.iterdir())


_SLOW = """
import runpy, sys, time
from pathlib import Path
here = Path(__file__).parent
if sys.argv[1] == "prepare":
    while not (here / "go").exists():
        time.sleep(0.05)
else:
    sys.argv[0] = str({worker!r})
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_preparing_the_target_is_not_the_builds_time(start_server: ServerFactory, tmp_path: Path) -> None:
    """A second build that waits for it says so."""
    (tmp_path / "slow.py").write_text(_SLOW.format(worker=str(FAKE_WORKER)))
    command = (sys.executable, str(tmp_path / "slow.py"))
    server = start_server(runner="inprocess", worker_command=command, build_timeout_seconds=2.5, parallel_builds=2)
    wait_for(lambda: server.services.compiler.load().version == "fake")
    person = server.person()
    builds = [person.build(name="succeed").json()["id"], person.build(name="fail", recipe={"batch": 3}).json()["id"]]
    wait_for(lambda: sorted(_stages(person, builds)) == ["prepare", "wait for the preparation"])
    time.sleep(3)  # longer than a build may take
    assert [person.get(f"/builds/{build}").json()["state"] for build in builds] == ["running", "running"]
    (tmp_path / "go").touch()
    assert [finished(person, build)["state"] for build in builds] == ["succeeded", "failed"]
    assert finished(person, builds[1])["failure"]["code"] == 3002
    logs = sorted(person.get(f"/builds/{build}/log").text.count("this one waits for it") for build in builds)
    assert logs == [0, 1]


def _stages(person: Person, builds: list[str]) -> list[str]:
    found = [person.get(f"/builds/{build}").json()["progress"] for build in builds]
    return [progress["stage"] for progress in found if progress]


def test_stopping_the_server_gives_the_build_back(server: Server, person: Person) -> None:
    build_id = person.build(name="hang").json()["id"]
    pid = _child(server)
    server.client.__exit__(None, None, None)
    assert not _alive(pid)
    try:
        build = person.get(f"/builds/{build_id}").json()
        assert build["state"] == "queued" and build["started_at"] is None
    finally:
        server.client.__enter__()  # the fixture leaves it again


def test_describes_the_compiler_when_it_starts(server: Server, person: Person) -> None:
    wait_for(lambda: server.services.compiler.load().version == "fake")
    assert [target["name"] for target in person.get("/targets").json()["items"]] == ["host"]
    assert_problem(person.build(target="raspberry-pi-4"), 422, 10003)


def test_the_compiler_is_asked_until_it_is_described(
    start_server: ServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    troubles = iter([OSError(28, "No space left on device"), OperationalError("COMMIT", {}, Exception("away"))])

    async def ask(services: Services) -> Description:
        for trouble in troubles:
            raise trouble
        return await ask_compiler(services)

    monkeypatch.setattr(background, "ask_compiler", ask)
    monkeypatch.setattr(background, "_RETRY_SECONDS", 0.01)
    server = start_server(runner="inprocess", worker_command=COMMAND)
    wait_for(lambda: server.services.compiler.load().version == "fake")


def test_a_child_whose_runner_goes_before_it_was_let_in_does_nothing(tmp_path: Path) -> None:
    for told, begins in ((b"", False), (b"\n", True)):
        subprocess.run([*process._GATE, "touch", str(tmp_path / "begun")], input=told, timeout=30)
        assert (tmp_path / "begun").exists() is begins


def test_a_child_that_cannot_be_bounded_leaves_no_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    def refuse(_pid: int) -> None:
        raise OSError(16, "Device or resource busy")

    group = SimpleNamespace(add=refuse, close=lambda: closed.append(True))
    monkeypatch.setattr(process, "prepare", lambda *_: None)
    monkeypatch.setattr(process, "command_line", lambda *_: (["/bin/true"], {}))
    monkeypatch.setattr(process, "make_group", lambda _: group)
    sandbox: Any = SimpleNamespace(mechanism=Mechanism.NAMESPACES, limits=SimpleNamespace(memory=1))
    with pytest.raises(OSError, match="busy"):
        asyncio.run(process.start(Settings(data_dir=tmp_path), sandbox, Den(tmp_path), "build"))
    assert closed == [True]


def test_a_cache_that_is_dropped_at_this_moment_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, real, times = Settings(data_dir=tmp_path), fcntl.flock, iter(range(2))

    def drop_first(held: int, how: int) -> None:
        if next(times, None) is not None:
            shutil.rmtree(settings.effective_build_cache_dir)
        real(held, how)

    monkeypatch.setattr(fcntl, "flock", drop_first)
    with workspace_cache(settings, "mine") as folder:
        (folder / "compiled").write_text("it is there")


def test_of_lines_too_long_the_beginning_is_heard() -> None:
    stream = io.StringIO()
    Lines(stream).failed(3002, "ä" * 3_000_000)
    stream.write("[" * 300_000 + "\nand this\n")

    async def hear() -> Hearing:
        reader, hearing = asyncio.StreamReader(), Hearing()
        reader.feed_data(stream.getvalue().encode())
        reader.feed_eof()
        async for line in read_lines(reader):
            assert len(line) < 140_000
            hearing.line(line)
        return hearing

    hearing = asyncio.run(hear())
    assert hearing.failed == Broken(3002, "ä" * 4000)
    assert [line[:10] for line in hearing.journal.lines] == ["[" * 10, "and this"]


def _child(server: Server) -> int:
    work = server.services.settings.effective_work_dir
    return int(wait_for(lambda: "".join(file.read_text() for file in work.glob("*/build/worker.pid"))))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
