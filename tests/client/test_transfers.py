"""Files to and from the real service, cut at every interesting place, by one process or two."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from pock_client import Client, Damaged, PockClientError, Unreachable
from tests.client.conftest import Connect
from tests.client.hostile import Answer, Asked, Hostile, as_json, problem
from tests.client.proxy import Cut, Proxy
from tests.client.service import Service

PART = 1 << 18
SIZE = 3 * PART + 12345
ID = "01a206a4-ed0a-72b3-aa3f-0801fe16d4a6"


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    for module in ("asynchronous", "synchronous"):
        monkeypatch.setattr(f"pock_client.{module}.blobs.PART_BYTES", PART)


@pytest.fixture
def content() -> bytes:
    """Bytes that the service does not have."""
    return os.urandom(16) + random.Random(0).randbytes(SIZE - 16)


@pytest.fixture
def file(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


def stored(client: Client, content: bytes, tmp_path: Path) -> str:
    path = tmp_path / "to-store"
    path.write_bytes(content)
    return client.blobs.upload(path)


UPLOAD_CUTS = {
    "before anything": [Cut(up=0)],
    "in a head": [Cut(up=100)],
    "after the announcement, before its answer": [Cut(down=0)],
    "in the answer to the announcement": [Cut(down=60)],
    "in the first part": [Cut(up=PART // 2)],
    "between two parts": [Cut(up=PART + 1200)],
    "in the second part": [Cut(up=PART * 3 // 2)],
    "in the last part": [Cut(up=SIZE)],
    "after the last part, before its answer": [Cut(down=1900)],
    "again and again": [Cut(up=PART // 2), Cut(up=PART // 3), Cut(down=0), Cut(down=10), Cut(up=2 * PART), Cut(up=1)],
}


@pytest.mark.parametrize("cuts", UPLOAD_CUTS.values(), ids=UPLOAD_CUTS)
def test_an_upload_goes_on_after_a_cut(
    cuts: list[Cut], connect: Connect, service: Service, proxy: Proxy, file: Path, content: bytes
) -> None:
    proxy.cuts = list(cuts)
    told: list[int] = []
    digest = connect(proxy.url, service.key).blobs.upload(file, progress=lambda done, total: told.append(done))
    assert digest == hashlib.sha256(content).hexdigest() and told[-1] == SIZE
    assert proxy.connections == len(cuts) + 1, "each cut came to pass"
    assert connect(service.url, service.key).blobs.size(digest) == SIZE


DIES = """
import os, sys
import pock_client.synchronous.blobs as blobs
from pock_client import Client

url, key, file, part = sys.argv[1:]
blobs.PART_BYTES = int(part)
Client(url, key).blobs.upload(file, lambda done, total: os._exit(9) if done == 2 * int(part) else None)
"""


def test_an_upload_goes_on_in_another_process(connect: Connect, service: Service, proxy: Proxy, file: Path) -> None:
    died = subprocess.run([sys.executable, "-c", DIES, proxy.url, service.key, file, str(PART)], timeout=60)
    assert died.returncode == 9
    told: list[int] = []
    connect(proxy.url, service.key).blobs.upload(file, progress=lambda done, total: told.append(done))
    assert told[0] == 2 * PART, "what had arrived is not sent again"


def test_what_the_service_has_is_not_sent(client: Client, file: Path) -> None:
    client.blobs.upload(file)
    told: list[tuple[int, int]] = []
    client.blobs.upload(file, progress=lambda done, total: told.append((done, total)))
    assert told == [(SIZE, SIZE)]


def test_an_upload_that_the_service_forgot_begins_anew(
    connect: Connect, service: Service, file: Path, tmp_path: Path
) -> None:
    client = connect(service.url, service.key)
    remembered = tmp_path / "cache" / "pock" / "uploads"
    name = hashlib.sha256(f"{service.url}\n{hashlib.sha256(file.read_bytes()).hexdigest()}".encode()).hexdigest()
    remembered.mkdir(parents=True)
    (remembered / name).write_text(ID)
    assert client.blobs.size(client.blobs.upload(file)) == SIZE
    assert not (remembered / name).exists()


@pytest.mark.parametrize("then", ["shorter", "longer", "other"])
def test_a_file_that_changes_while_it_is_sent_is_refused(client: Client, file: Path, content: bytes, then: str) -> None:
    changed = {"shorter": content[:-5], "longer": content + b"more", "other": content[:-5] + b"other"}[then]

    def progress(done: int, total: int) -> None:
        file.write_bytes(changed)

    with pytest.raises(Damaged, match="changed while it was sent"):
        client.blobs.upload(file, progress)


def test_files_that_cannot_be_sent_say_why(client: Client, tmp_path: Path) -> None:
    with pytest.raises(PockClientError, match="cannot be read: No such file"):
        client.blobs.upload(tmp_path / "missing")
    (tmp_path / "empty").touch()
    with pytest.raises(PockClientError, match="is empty"):
        client.blobs.upload(tmp_path / "empty")


DOWNLOAD_CUTS = {
    "before anything": [Cut(up=0)],
    "in the head": [Cut(down=50)],
    "after the head": [Cut(down=1000)],
    "in the middle": [Cut(down=SIZE // 2)],
    "before the last byte": [Cut(down=SIZE + 500)],
    "again and again": [Cut(down=SIZE // 4), Cut(down=SIZE // 4), Cut(down=0), Cut(down=PART), Cut(up=1)],
}


@pytest.mark.parametrize("cuts", DOWNLOAD_CUTS.values(), ids=DOWNLOAD_CUTS)
def test_a_download_goes_on_after_a_cut(
    cuts: list[Cut], connect: Connect, service: Service, proxy: Proxy, content: bytes, tmp_path: Path
) -> None:
    digest = stored(connect(service.url, service.key), content, tmp_path)
    proxy.cuts = list(cuts)
    told: list[int] = []
    path = tmp_path / "got"
    client = connect(proxy.url, service.key)
    assert client.blobs.download(digest, path, lambda done, total: told.append(done)) == path
    assert path.read_bytes() == content and not path.with_name("got.part").exists()
    assert told == sorted(told) and told[-1] == SIZE, "nothing came twice"
    assert proxy.connections == len(cuts) + 1


@pytest.mark.parametrize("left", ["a beginning", "all of it", "too much", "something else", "as long, but other"])
def test_a_download_goes_on_from_what_an_earlier_one_left(
    left: str, client: Client, content: bytes, tmp_path: Path
) -> None:
    digest = stored(client, content, tmp_path)
    there = {
        "a beginning": content[:PART],
        "all of it": content,
        "too much": content + b"more",
        "something else": b"something else",
        "as long, but other": bytes(SIZE),
    }[left]
    (tmp_path / "got.part").write_bytes(there)
    told: list[int] = []
    client.blobs.download(digest, tmp_path / "got", lambda done, total: told.append(done))
    assert (tmp_path / "got").read_bytes() == content
    assert left != "a beginning" or told[0] == PART


def test_two_downloads_do_not_write_one_file(client: Client, content: bytes, tmp_path: Path) -> None:
    digest = stored(client, content, tmp_path)
    path = tmp_path / "got"

    def progress(done: int, total: int) -> None:
        with pytest.raises(PockClientError, match="another download"):
            Client(client.url, "pk_other").blobs.download(digest, path)

    client.blobs.download(digest, path, progress)
    assert path.read_bytes() == content


def test_what_cannot_be_written_says_why(client: Client, content: bytes, tmp_path: Path) -> None:
    digest = stored(client, content, tmp_path)
    with pytest.raises(PockClientError, match="cannot be written: No such file"):
        client.blobs.download(digest, tmp_path / "missing" / "got")
    (tmp_path / "elsewhere").write_text("not to be touched")
    (tmp_path / "got.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PockClientError, match="cannot be written"):
        client.blobs.download(digest, tmp_path / "got")
    assert (tmp_path / "elsewhere").read_text() == "not to be touched"


def blob(content: bytes, **headers: str) -> Answer:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(206 if "Content-Range" in named else 200, {"Content-Length": str(len(content)), **named}, [content])


DIGEST = hashlib.sha256(b"0123456789").hexdigest()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (blob(b"01234x6789"), "SHA-256"),
        (blob(b"56789", Content_Range="bytes 4-8/10"), "another range"),
        (blob(b"56", Content_Range="bytes 5-6/10"), "another range"),
        (blob(b"56789", Content_Range="bytes 5-9/*"), "another range"),
        (blob(b"56789", Content_Range=f"bytes 5-{10**30}/{10**30 + 1}"), "another range"),
        (Answer(200, {}, [b"0123456789"]), "no useful Content-Length"),
        (Answer(200, {"Content-Length": "10", "Content-Encoding": "gzip"}, [b"0123456789"]), "compressed"),
        (Answer(200, {"Content-Length": str(1 << 60)}, [b"0123456789"]), "are free there"),
    ],
)
def test_a_download_believes_only_the_digest(
    answer: Answer, sentence: str, connect: Connect, hostile: Hostile, tmp_path: Path
) -> None:
    hostile.in_turn(answer)
    if answer.status == 206:
        (tmp_path / "got.part").write_bytes(b"01234")
    with pytest.raises(PockClientError, match=sentence):
        connect(hostile.url, patience=0.2).blobs.download(DIGEST, tmp_path / "got")
    assert not (tmp_path / "got").exists()
    assert all(asked.headers["range"] == "bytes=5-" for asked in hostile.asked if answer.status == 206)


def test_a_service_that_sends_the_whole_instead_of_the_rest_is_fine(
    connect: Connect, hostile: Hostile, tmp_path: Path
) -> None:
    hostile.in_turn(blob(b"0123456789"))
    (tmp_path / "got.part").write_bytes(b"01234")
    connect(hostile.url).blobs.download(DIGEST, tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == b"0123456789"


def test_a_download_that_never_gets_further_ends(connect: Connect, hostile: Hostile, tmp_path: Path) -> None:
    hostile.in_turn(Answer(200, {"Content-Length": "10"}, []))
    hostile.answers = lambda asked: Answer(200, {"Content-Length": "10", "Connection": "close"}, [])
    with pytest.raises(Unreachable):
        connect(hostile.url, patience=0.2).blobs.download(DIGEST, tmp_path / "got")
    assert not list(tmp_path.glob("got*")), "an empty part is of no use"


def test_an_upload_to_a_service_that_lies_ends(connect: Connect, hostile: Hostile, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    def answers(asked: Asked) -> Answer:
        if asked.method == "POST":
            return as_json({"id": ID, "offset": 0, "size": 10, "complete": False}, 201)
        if asked.method == "HEAD":
            return Answer(200, {"Upload-Offset": "99", "Content-Length": "0"})
        return problem(409, 1010, "Upload-Offset is 0, but 99 bytes were received.")

    hostile.answers = answers
    with pytest.raises(Damaged, match="Upload-Offset"):
        connect(hostile.url, patience=5).blobs.upload(path)
