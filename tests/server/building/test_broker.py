"""Builds by Celery workers: real processes, a real Redis that is emptied and stopped, on PostgreSQL."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from pock_server.broker.application import QUEUE, TASK, make_application
from pock_server.doctor import Outcome, examine
from pock_server.settings import Settings
from tests.server.databases import Databases
from tests.server.harness import FAKE_WORKER, Person
from tests.server.operating.test_live import COMMAND, command
from tests.server.operating.test_processes import until
from tests.server.redis_servers import RedisServer, has_redis, running_redis

pytestmark = pytest.mark.parametrize("engine_name", ["postgresql"], indirect=True)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RedisServer]:
    if not has_redis():
        pytest.skip("Redis is not installed (Debian: apt-get install redis-server)")
    with running_redis(tmp_path / "redis") as server:
        yield server


@dataclass
class Site:
    """An API process that builds nothing, its broker, and workers as they are wanted."""

    folder: Path
    broker: RedisServer
    database: str
    stack: ExitStack
    client: httpx.Client
    person: Person

    def worker(self, *options: str) -> "subprocess.Popen[bytes]":
        arguments = [*COMMAND, "worker", "--data-dir", str(self.folder), *options]
        path = self.folder / f"worker-{time.monotonic_ns()}.log"
        with path.open("w") as log:
            child = subprocess.Popen(arguments, stdout=log, stderr=log)
        self.stack.callback(child.wait, 60)
        self.stack.callback(child.kill)
        until(lambda: "Connected to redis" in path.read_text())
        return child

    def submit(self, name: str, batch: int) -> str:
        def ask() -> Any:
            answer = self.person.build(name=name, recipe={"batch": batch})
            assert answer.status_code in (202, 503), answer.text
            return answer.json() if answer.status_code == 202 else None  # 503: no worker described the compiler yet

        return str(until(ask)["id"])

    def rows(self) -> dict[str, tuple[str, int]]:
        """State and number of attempts of each build."""
        with psycopg.connect(self.database) as connection:
            found = connection.execute("SELECT id, state, attempt FROM builds").fetchall()
        return {row[0]: (row[1], row[2]) for row in found}

    def settles(self, *builds: str, attempt: int = 1) -> None:
        wanted = dict.fromkeys(builds, ("succeeded", attempt))
        until(lambda: {build_id: self.rows()[build_id] for build_id in builds} == wanted, 40)


@pytest.fixture
def site(tmp_path: Path, databases: Databases, broker: RedisServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    url = databases.make(tmp_path)
    settings = {
        "DATABASE_URL": url,
        "RUNNER": "celery",
        "BROKER_URL": broker.url,
        "WORKER_COMMAND": json.dumps([sys.executable, str(FAKE_WORKER)]),
        "SWEEP_SECONDS": "0.3",
        "BUILD_LEASE_SECONDS": "3",
        "SANDBOX": "off",
        "LOG_FORMAT": "json",
        "COMPILER_CACHE_DIR": str(tmp_path / "compiler"),
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"POCK_{name}", value)
    key = command("create-key", folder=tmp_path).stdout.strip()
    with ExitStack() as stack:
        arguments = [*COMMAND, "serve", "--port", "0", "--data-dir", str(tmp_path), "--json"]
        with (tmp_path / "api.log").open("w") as log:
            child = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=log, text=True)
        stack.callback(child.wait, 60)
        stack.callback(child.terminate)
        assert child.stdout is not None
        line = child.stdout.readline()
        assert line, (tmp_path / "api.log").read_text()
        client = stack.enter_context(httpx.Client(base_url=json.loads(line)["url"], timeout=30))
        yield Site(tmp_path, broker, url, stack, client, Person(client, key))  # type: ignore[arg-type]


def running_children(worker: "subprocess.Popen[bytes]") -> list[psutil.Process]:
    found = []
    for process in psutil.Process(worker.pid).children(True):
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if "fake_worker" in str(process.cmdline()):
                found.append(process)
    return found


def send(site: Site, *builds: str) -> None:
    for build_id in builds:
        make_application(Settings(data_dir=site.folder)).send_task(TASK, args=[build_id])


def assert_broker_is_away(site: Site) -> None:
    ready = site.client.get("/readyz")
    assert ready.status_code == 200, ready.text
    broker = next(check for check in ready.json()["checks"] if check["name"] == "broker")
    assert not broker["ok"] and not broker["needed"]


def test_builds_are_done_once_whatever_becomes_of_messages(site: Site) -> None:
    first = site.worker("--concurrency", "2")
    done = site.submit("succeed", 1)
    second = site.worker()
    builds = [site.submit("succeed", batch) for batch in range(2, 7)]
    send(site, *builds, *builds)  # and again, while they wait
    site.settles(done, *builds)
    send(site, done, "no-such-build")
    until(lambda: site.broker.client.llen(QUEUE) == 0)

    # Redis loses everything, and what was queued is built.
    for worker in (first, second):
        worker.send_signal(signal.SIGSTOP)
    waiting = [site.submit("succeed", batch) for batch in range(10, 13)]
    until(lambda: site.broker.client.llen(QUEUE) > 0)
    site.broker.client.flushall()
    for worker in (first, second):
        worker.send_signal(signal.SIGCONT)
    site.settles(*waiting)

    # Redis hangs, then is gone: requests are answered, and when it is back, what they asked for is built.
    site.broker.pause()
    late = [site.submit("succeed", batch) for batch in range(20, 22)]
    assert_broker_is_away(site)
    site.broker.stop()
    time.sleep(1)  # an answer about its health is kept for so long
    assert_broker_is_away(site)
    assert [state for state, _ in (site.rows()[build_id] for build_id in late)] == ["queued", "queued"]
    site.broker.start()
    site.settles(*late)
    assert all(row == ("succeeded", 1) for row in site.rows().values())
    first.terminate()
    assert first.wait(30) == 0, "\n".join(path.read_text() for path in site.folder.glob("worker-*.log"))

    lines = [json.loads(line) for path in site.folder.glob("worker-*.log") for line in path.read_text().splitlines()]
    assert {line["build_id"] for line in lines if "build_id" in line} >= {done, *builds}
    assert all('"build_id"' in path.read_text() for path in site.folder.glob("worker-*.log"))  # both had some
    findings = {item.item: item.outcome for item in examine(Settings(data_dir=site.folder), os.environ)}
    assert findings["broker"] is findings["workers"] is Outcome.OK


def test_builds_of_workers_that_end(site: Site) -> None:
    first = site.worker()
    lost = site.submit("hang", 1)
    child = until(lambda: running_children(first))[0]
    first.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        child.kill()  # only a sandbox ends it with its worker
    second = site.worker()  # when the lease has run out
    until(lambda: site.rows()[lost] == ("running", 2))
    child = until(lambda: running_children(second))[0]

    second.terminate()  # gives it back, and the attempt does not count
    assert second.wait(30) == 0 and not child.is_running()
    assert site.rows()[lost] == ("queued", 1)

    third = site.worker()
    child = until(lambda: running_children(third))[0]
    assert site.person.post(f"/builds/{lost}/cancel").status_code == 200
    until(lambda: not child.is_running())
    after = site.submit("succeed", 2)
    site.settles(after)


@pytest.mark.parametrize(("missing", "action"), [("POCK_BROKER_URL", "worker"), ("POCK_DATABASE_URL", "serve")])
def test_what_cannot_work_is_refused(
    tmp_path: Path, missing: str, action: str, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"POCK_BROKER_URL": "redis://127.0.0.1:1/0", "POCK_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"}
    monkeypatch.setenv("POCK_RUNNER", "celery")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv(missing)
    refused = command(action, folder=tmp_path)
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1 and missing in refused.stderr


def test_nobody_loads_celery_unasked(engine_name: str) -> None:
    program = "import sys, pock_server.cli; sys.exit('celery' in sys.modules or 'kombu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
