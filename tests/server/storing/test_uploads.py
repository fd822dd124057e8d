"""Uploads between several processes, a store without room or without answer, and where its settings come from."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pock_server.actor import SERVICE
from pock_server.blobs import service
from pock_server.blobs.faults import DigestMismatch
from pock_server.blobs.finishing import finish_upload
from pock_server.blobs.opening import open_store
from pock_server.blobs.store import BlobStore
from pock_server.http.problems import Problem
from pock_server.hub import Hub
from pock_server.runner.sweeper import sweep_all
from pock_server.settings import Settings
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem, digest_of
from tests.server.stores import S3Server, stored_keys
from tests.server.storing.test_blobs import DATA, begin, send

LARGE = bytes(range(256)) * (1 << 16)
"""16 MiB: several parts in the store."""


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.fixture
def arrived(person: Person, monkeypatch: pytest.MonkeyPatch) -> str:
    """An upload whose bytes are all there, and whose server died before it looked at them."""

    async def die(*_: Any) -> None:
        raise RuntimeError("the server died here")

    upload_id = begin(person)
    with monkeypatch.context() as patched:
        patched.setattr(service, "finish_upload", die)
        assert send(person, upload_id, 0, DATA).status_code == 500
    return upload_id


def workspace_of(person: Person) -> str:

    return str(person.get("/me").json()["workspace"]["id"])


def test_two_finishes_at_once_have_one_outcome(server: Server, person: Person, arrived: str) -> None:
    async def race() -> list[Any]:
        turns = [finish_upload(server.services, workspace_of(person), arrived, SERVICE) for _ in range(6)]
        return await asyncio.gather(*turns, return_exceptions=True)

    outcomes = asyncio.run(race())
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert all(isinstance(outcome, Problem) and outcome.failure.code == 1030 for outcome in refused), outcomes
    assert len(refused) < len(outcomes)
    assert send(person, arrived, len(DATA), b"").status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA
    assert len(stored_keys(server.services.blobs)) == 1


def test_a_finish_that_died_is_taken_over(
    server: Server, person: Person, arrived: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("pock_server.blobs.finishing._Turn.give_back", lambda turn: None)
        patched.setattr(BlobStore, "write", _die)
        assert send(person, arrived, len(DATA), b"").status_code == 500
    busy = send(person, arrived, len(DATA), b"")
    assert_problem(busy, 409, 1030)
    assert busy.json()["retryable"] is True and busy.headers["retry-after"]
    server.clock.advance(121)
    assert send(person, arrived, len(DATA), b"").status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def test_a_finish_of_a_dead_process_is_taken_over_at_once(
    server: Server, person: Person, arrived: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(server.services, hub=Hub())
    with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="killed"):
        patched.setattr("pock_server.blobs.finishing._Turn.give_back", lambda turn: None)
        patched.setattr(BlobStore, "write", _die)
        asyncio.run(finish_upload(other, workspace_of(person), arrived, SERVICE))
    assert send(person, arrived, len(DATA), b"").status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


async def _die(*_: Any) -> None:
    raise RuntimeError("killed")


def test_a_finish_that_nobody_repeats_is_dropped(server: Server, person: Person, arrived: str) -> None:
    server.clock.advance(90_000)
    sweep_all(server.services)
    assert person.call("HEAD", f"/uploads/{arrived}").status_code == 404
    assert stored_keys(server.services.blobs) == []


def test_the_sweeper_leaves_an_upload_that_is_being_finished(
    server: Server, person: Person, arrived: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = BlobStore.write

    async def sweep_meanwhile(store: BlobStore, *arguments: Any) -> None:
        await asyncio.to_thread(sweep_all, server.services)
        await write(store, *arguments)

    server.clock.advance(90_000)
    monkeypatch.setattr(BlobStore, "write", sweep_meanwhile)
    assert send(person, arrived, len(DATA), b"").status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def test_bytes_with_another_digest_are_never_visible(server: Server) -> None:
    store = server.services.blobs
    digest = digest_of(LARGE)
    wrong = (
        chunks(LARGE[:-1], b"x"),
        chunks(LARGE[:-1]),
        chunks(LARGE, b"x"),
    )
    for stream in wrong:
        with pytest.raises(DigestMismatch):
            asyncio.run(store.write(digest, len(LARGE), stream))
    assert stored_keys(store) == []
    asyncio.run(store.write(digest, len(LARGE), chunks(LARGE[:1000], LARGE[1000:])))
    assert store.read(digest) == LARGE


def test_an_upload_in_endless_pieces_is_refused(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pock_server.blobs.repository.MAX_PARTS", 3)
    upload_id = begin(person)
    for offset in range(3):
        assert send(person, upload_id, offset, DATA[offset : offset + 1]).status_code == 204
    assert_problem(send(person, upload_id, 3, DATA[3:]), 413, 1012)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 6 MiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a small disk")
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_full_disk_is_said_and_leaves_nothing(start_server: ServerFactory, small_disk: Path) -> None:
    server = start_server(store_url=f"file://{small_disk}", store_endpoint="")
    person = server.person()
    upload_id = begin(person, LARGE)
    full = send(person, upload_id, 0, LARGE)
    assert_problem(full, 507, 1032)
    assert full.json()["retryable"] is True
    offset = int(person.call("HEAD", f"/uploads/{upload_id}").headers["upload-offset"])
    assert len(stored_keys(server.services.blobs)) == (1 if offset else 0)
    assert_problem(person.get(f"/blobs/sha256/{digest_of(LARGE)}"), 404, 1005)
    subprocess.run(["mount", "-o", "remount,size=64m", small_disk], check=True)
    assert send(person, upload_id, offset, LARGE[offset:]).status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(LARGE)}").content == LARGE


@pytest.mark.parametrize("engine_name", ["sqlite"], indirect=True)
def test_a_store_that_does_not_answer_is_said(start_server: ServerFactory, s3: S3Server) -> None:
    server = start_server(**{**s3.options(), "store_endpoint": "http://127.0.0.1:9"})
    person = server.person()
    silent = send(person, begin(person), 0, DATA)
    assert_problem(silent, 503, 1031)
    assert "127.0.0.1" not in silent.text
    assert_problem(person.client.get("/readyz"), 503, 1024)


def test_settings_that_describe_no_store_are_refused() -> None:
    with pytest.raises(ValueError, match="POCK_STORE_URL"):
        open_store(Settings(store_url="ftp://somewhere"))
