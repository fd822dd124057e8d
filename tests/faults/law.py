"""What must hold after every fault, written once."""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import text

from pock_server.blobs.collect import collect
from pock_server.db.engine import make_engine
from pock_server.runner.sweeper import sweep_all
from pock_server.settings import Settings
from tests.faults.actor import FINAL, WAIT, Person
from tests.faults.deployment import Deployment
from tests.server.harness import MovableClock
from tests.server.stores import stored_keys

STALE = {
    "a build beyond its lease": "SELECT id FROM builds WHERE state = 'running'",
    "a run beyond its lease": "SELECT id FROM runs WHERE state IN ('leased', 'running')",
    "a build nobody takes": "SELECT id FROM builds WHERE state = 'queued'",
    "a run nobody takes": "SELECT id FROM runs WHERE state = 'queued'",
    "a device that is taken": "SELECT id FROM devices WHERE current_run_id IS NOT NULL",
}
_SETTLE_SECONDS = 60.0
_LEFT = {
    "an upload": "SELECT id FROM uploads",
    "a part": "SELECT object_key FROM upload_parts",
    "a request that is being served": "SELECT key FROM idempotency_keys WHERE status IS NULL",
}


def hold(deployment: Deployment, person: Person) -> None:
    """Everything accepted has one outcome, and nothing is stuck or orphaned."""
    for request in person.accepted:
        again = person.ask("POST", request.path, json=request.body, headers={"Idempotency-Key": request.key})
        assert (again.status_code, again.json()) == (request.status, request.answer), request
        if request.path in ("/builds", "/runs"):
            person.until(f"{request.path}/{request.answer['id']}", *FINAL)
    builds = [item.answer["id"] for item in person.accepted if item.path == "/builds"]
    runs = [item.answer["id"] for item in person.accepted if item.path == "/runs"]
    _one_outcome(deployment, person, builds, runs)
    for what, query in STALE.items():
        assert settled(partial(ask, deployment, query)) == [], what
    assert settled(deployment.children) == [], "builds, or their folders, that belong to nobody"
    _nothing_orphaned(deployment)
    for digest, data in person.uploaded.items():
        assert person.get(f"/blobs/sha256/{digest}") == data
    for run in runs:
        found = person.get(f"/runs/{run}")
        assert len(person.get(f"/blobs/sha256/{found['weights_digest']}")) > 0
    for build in builds:
        if digest := person.get(f"/builds/{build}").get("artifact_digest"):
            assert len(person.get(f"/blobs/sha256/{digest}")) > 0


def _one_outcome(deployment: Deployment, person: Person, builds: Iterable[str], runs: Iterable[str]) -> None:
    """One final state in the row, in the history and on the device; one artifact, one series of steps."""
    for build in builds:
        found = person.get(f"/builds/{build}")
        artifacts = ask(deployment, "SELECT digest FROM artifacts WHERE build_id = :it", build)
        _ended_once(deployment, build, found["state"])
        if found["state"] == "succeeded":
            assert artifacts == [found["artifact_digest"]]
        else:
            assert artifacts == [] and found["failure"]["code"] and found["failure"]["detail"]
    for run in runs:
        found = person.get(f"/runs/{run}")
        _ended_once(deployment, run, found["state"])
        assert found["state"] == "succeeded", found
        assert len(found["report"]["train"]["loss"]) == 5
        steps = [step["step"] for step in person.get(f"/runs/{run}/steps")["items"]]
        assert steps == [1, 2, 3, 4, 5], steps
        told = _last_job(deployment, run)
        assert told["outcome"] == found["state"]


def _ended_once(deployment: Deployment, subject: str, state: str) -> None:
    query = "SELECT data ->> 'state' FROM events WHERE subject_id = :it AND kind = 'state' ORDER BY seq"
    states = Counter(ask(deployment, query, subject))
    assert {name: count for name, count in states.items() if name in FINAL} == {state: 1}, states


def _last_job(deployment: Deployment, run: str) -> dict[str, Any]:
    """What the device remembers of the run; it writes that down when the service has answered."""
    path, ends = deployment.state / "last_job.json", time.monotonic() + WAIT
    while True:
        found = json.loads(path.read_text()) if path.exists() else {}
        if found.get("run_id") == run:
            return dict(found)
        assert time.monotonic() < ends, f"the device does not know the end of {run}: {found}"
        time.sleep(0.05)


def _nothing_orphaned(deployment: Deployment) -> None:
    """Two days later, when the sweeper and the collector have been there, the store has what is claimed, no more."""
    clock = MovableClock()
    clock.moment = datetime.now(UTC) + timedelta(days=2)
    services = deployment.services(clock)
    try:
        sweep_all(services)
        collect(services)
        keys = stored_keys(services.blobs)
    finally:
        services.database.engine.dispose()
    claimed = ask(deployment, "SELECT DISTINCT digest FROM blobs")
    assert sorted(key.rpartition("/")[2] for key in keys) == sorted(claimed)
    for what, query in _LEFT.items():
        assert ask(deployment, query) == [], what


def settled(find: Callable[[], list[Any]]) -> list[Any]:
    """What is found for good: what goes within some time is not counted."""
    ends = time.monotonic() + _SETTLE_SECONDS
    while (found := find()) and time.monotonic() < ends:
        time.sleep(0.1)
    return found


def ask(deployment: Deployment, query: str, it: str = "") -> list[Any]:
    """The first column of what a query finds, past the proxies."""
    engine = make_engine(Settings(data_dir=deployment.folder / "data", **deployment.around.direct))
    try:
        with engine.connect() as connection:
            return list(connection.scalars(text(query), {"it": it} if it else {}))
    finally:
        engine.dispose()
