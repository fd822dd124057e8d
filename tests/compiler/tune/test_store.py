"""The local store: round trip, damage, and several processes at once."""

from __future__ import annotations

import fcntl
import multiprocessing
import sqlite3
import time
from pathlib import Path
from typing import Any

import pytest

from pockengine.tune import LocalStore, Result
from pockengine.tune.workload import key_of

RESULT = Result([{"rows": 8}], 1.5, 2.0, "fast", 4, 1)


def inputs(number: int = 0, family: str = "matmul", device: str = "here") -> dict[str, str]:
    return {"family": family, "device": device, "body": f"body {number}", "sizes": "1,2"}


@pytest.fixture
def store(tmp_path) -> LocalStore:
    return LocalStore(tmp_path / "new")


def test_round_trip(store):
    assert store.get(inputs()) is None
    store.put(inputs(), RESULT)
    assert store.get(inputs()) == RESULT
    assert store.get(inputs(1)) is None
    later = Result({"lanes": 8}, None, None, "full", 0, 0)
    store.put(inputs(), later)
    assert LocalStore(store.path.parent).get(inputs()) == later


def test_list_and_prune(store):
    for number, (family, device) in enumerate([("matmul", "here"), ("conv2d", "here"), ("matmul", "there")]):
        store.put(inputs(number, family, device), RESULT)
    assert len(store.list()) == 3
    assert [entry.inputs["body"] for entry in store.list("matmul", "here")] == ["body 0"]
    assert store.prune(time.time() - 60) == 0
    assert store.prune(time.time() + 60) == 3
    assert store.list() == []


def test_what_is_used_is_not_pruned(store):
    for number in range(2):
        store.put(inputs(number), RESULT)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE tunings SET used = 1000")
    database.close()
    assert store.get(inputs(1)) == RESULT
    assert store.prune(2000) == 1
    assert store.get(inputs(0)) is None and store.get(inputs(1)) == RESULT


@pytest.mark.parametrize("damage", ["garbage", "torn", "empty"])
def test_a_damaged_file_is_set_aside(store, damage, capsys):
    for number in range(200):
        store.put(inputs(number), RESULT)
    whole = store.path.read_bytes()
    content = {"garbage": b"not a database at all" * 300, "torn": whole[:4096] + b"\xff" * 4096, "empty": b""}[damage]
    store.path.write_bytes(content)
    assert store.get(inputs()) is None
    store.put(inputs(), RESULT)
    assert store.get(inputs()) == RESULT
    aside = list(store.path.parent.glob("tuning.sqlite.damaged-*"))
    if damage == "empty":  # an empty file is a new database
        assert aside == []
    else:
        assert [file.read_bytes() for file in aside] == [content]
        assert "was damaged" in capsys.readouterr().err


@pytest.mark.parametrize("column", ["inputs", "result"])
def test_a_damaged_entry_is_a_miss(store, column):
    store.put(inputs(), RESULT)
    with sqlite3.connect(store.path) as database:
        database.execute(f"UPDATE tunings SET {column} = ?", ('{"rows": ',))
    database.close()
    assert store.get(inputs()) is None
    assert store.list() == []


def test_the_inputs_are_compared_not_only_their_digest(store):
    store.put(inputs(), RESULT)
    with sqlite3.connect(store.path) as database:
        database.execute("UPDATE tunings SET key = ?", (key_of(inputs(1)),))
    database.close()
    assert store.get(inputs(1)) is None


@pytest.mark.parametrize("damaged", [False, True])
def test_whoever_has_the_file_open_is_alone(store, damaged, monkeypatch):
    """Else a process that sets a damaged file aside would take away the journal of one that has begun a new file."""
    if damaged:
        store.path.parent.mkdir()
        store.path.write_bytes(b"x" * 5000)
    connect, opened = sqlite3.connect, []

    def checked(path: Path, **options: Any) -> sqlite3.Connection:
        with store.path.with_name("tuning.lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        opened.append(path)
        return connect(path, **options)

    monkeypatch.setattr(sqlite3, "connect", checked)
    store.put(inputs(), RESULT)
    assert store.get(inputs()) == RESULT and len(store.list()) == 1 and store.prune(time.time() + 60) == 1
    assert opened == [store.path] * (4 + damaged)


def _write(folder: Path, process: int, ready: object) -> None:
    store = LocalStore(folder)
    ready.wait()  # type: ignore[attr-defined]
    for number in range(40):
        store.put(inputs(process * 1000 + number), RESULT)
        store.put(inputs(number), RESULT)  # the same ones from everybody
        assert store.get(inputs(number)) == RESULT


@pytest.mark.parametrize("damaged", [False, True])
def test_several_processes_write_at_once(tmp_path, damaged):
    if damaged:
        (tmp_path / "tuning.sqlite").write_bytes(b"x" * 5000)
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(3)
    writers = [context.Process(target=_write, args=(tmp_path, number + 1, ready)) for number in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(LocalStore(tmp_path).list()) == 4 * 40
    assert len(list(tmp_path.glob("*.damaged-*"))) == damaged
