"""Data, agents and their state go from the landed release to this one and back; each release speaks with the other."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pock_server.db.engine import make_engine
from pock_server.migrations.runner import downgrade
from pock_server.settings import Settings
from tests.server.databases import Databases
from tests.server.releases import LANDED_REVISION, PRESENT, Person, Release, device_of, landed

_LISTS = ("models", "datasets", "builds", "devices", "runs", "api-keys")


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return landed(tmp_path_factory.mktemp("landed"))


@dataclass(frozen=True)
class Scene:
    """Data that a service was stopped on: one run done, one waiting for each of two devices."""

    key: str
    build: str
    states: tuple[Path, Path]
    runs: tuple[str, str, str]
    answers: dict[str, Any]


def test_data_and_agents_of_the_landed_release(old: Release, tmp_path: Path, databases: Databases) -> None:
    variables = {"POCK_DATA_DIR": str(tmp_path / "data"), **_database(databases, tmp_path)}
    scene = _fill(old, variables, tmp_path)
    with PRESENT.serving({**variables, "POCK_RUNNER": "none"}) as url:
        person = Person(url, scene.key)
        _assert_covers(_answers(person), scene.answers)
        _move(scene.states, scene.answers["url"], url)
        old.work_once(scene.states[0])
        PRESENT.work_once(scene.states[1])
        for run in scene.runs:
            assert person.get(f"/runs/{run}")["state"] == "succeeded"
        answers = {**_answers(person), "url": url}
    engine = make_engine(_settings(variables))
    downgrade(engine, LANDED_REVISION)
    engine.dispose()
    with old.serving({**variables, "POCK_RUNNER": "none"}) as url:
        person = Person(url, scene.key)
        _assert_covers(answers, _answers(person))
        _move(scene.states[:1], answers["url"], url)
        run = person.run(scene.build, device_of(old, scene.states[0]))
        old.work_once(scene.states[0])
        assert person.get(f"/runs/{run}")["state"] == "succeeded"


def test_keys_rotate_under_agents_of_both_releases(old: Release, tmp_path: Path) -> None:
    """That of before goes on with the key that it pinned; one that is upgraded is told of the new one."""
    variables = {"POCK_DATA_DIR": str(tmp_path / "data")}
    scene = _fill(old, variables, tmp_path)
    with PRESENT.serving({**variables, "POCK_RUNNER": "none"}) as url:
        person = Person(url, scene.key)
        _move(scene.states, scene.answers["url"], url)
        rotated = json.loads(PRESENT.command(variables, "pock-server", "rotate-keys", "--json"))
        assert list(rotated["pinned"].values()) == [2]
        old.work_once(scene.states[0])
        PRESENT.work_once(scene.states[1])
        for run in scene.runs:
            assert person.get(f"/runs/{run}")["state"] == "succeeded"
        shown = json.loads(PRESENT.command(variables, "pock-server", "trust", "show", "--json"))
        assert shown["devices"] == {"2": 1} and list(shown["pinned"].values()) == [1]


def test_agents_of_this_release_work_for_the_landed_service(old: Release, tmp_path: Path) -> None:
    variables = {"POCK_DATA_DIR": str(tmp_path / "data"), **_worker()}
    key = old.command(variables, "pock-server", "create-key")
    with old.serving(variables) as url:
        person = Person(url, key)
        state = tmp_path / "device"
        PRESENT.enrol(url, person.token(), state)
        run = person.run(person.build(), device_of(PRESENT, state))
        PRESENT.work_once(state)
        assert person.get(f"/runs/{run}")["state"] == "succeeded"


def _fill(old: Release, variables: dict[str, str], folder: Path) -> Scene:
    variables = {**variables, **_worker()}
    key = old.command(variables, "pock-server", "create-key")
    with old.serving(variables) as url:
        person = Person(url, key)
        build = person.build()
        states = (folder / "first", folder / "second")
        for state in states:
            old.enrol(url, person.token(), state)
        devices = [device_of(old, state) for state in states]
        done = person.run(build, devices[0])
        old.work_once(states[0])
        first, second = (person.run(build, device) for device in devices)
        return Scene(key, build, states, (done, first, second), {**_answers(person), "url": url})


def _answers(person: Person) -> dict[str, Any]:
    """What the service says about everything in it."""
    found: dict[str, Any] = {}
    for name in _LISTS:
        items = person.get(f"/{name}?limit=200")["items"]
        found[name] = [item["id"] for item in items]
        for item in items if name != "api-keys" else ():
            found[f"/{name}/{item['id']}"] = person.get(f"/{name}/{item['id']}")
    for run in found["runs"]:
        found[f"{run} steps"] = person.get(f"/runs/{run}/steps")
        weights = found[f"/runs/{run}"]["weights_digest"]
        if weights:
            found[weights] = len(person.get(f"/blobs/sha256/{weights}"))
    for build in found["builds"]:
        found[f"{build} log"] = person.get(f"/builds/{build}/log")
        artifact = found[f"/builds/{build}"]["artifact_digest"]
        found[artifact] = person.get(f"/artifacts/{artifact}")
    return found


def _assert_covers(new: Any, old: Any, where: str = "") -> None:
    """Everything that the old answers said is still said; new fields are fine."""
    if isinstance(old, dict):
        for name, value in old.items():
            if name in ("last_seen_at", "facts", "url") or (name == "state" and "/devices/" in where):
                continue
            assert name in new, f"{where}.{name} is gone"
            _assert_covers(new[name], value, f"{where}.{name}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for place, (mine, theirs) in enumerate(zip(new, old, strict=True)):
            _assert_covers(mine, theirs, f"{where}[{place}]")
    else:
        assert new == old, where


def _move(states: tuple[Path, ...], before: str, now: str) -> None:
    """The service listens elsewhere after each start of a test; a deployed one keeps its address."""
    for state in states:
        for file in state.rglob("*.json"):
            file.write_text(file.read_text().replace(before, now))


def _database(databases: Databases, folder: Path) -> dict[str, str]:
    """The variable that names an empty database, as the landed release understands it."""
    url = databases.make_empty(folder)
    return {"POCK_DATABASE_URL": url.replace("postgresql://", "postgresql+psycopg://")}


def _settings(variables: dict[str, str]) -> Settings:
    return Settings(data_dir=Path(variables["POCK_DATA_DIR"]), database_url=variables["POCK_DATABASE_URL"])


def _worker() -> dict[str, str]:
    return {"POCK_WORKER_COMMAND": json.dumps([sys.executable, "-m", "tests.agent.fake_build_worker"])}
