"""Uploads that resume, digests that are checked, downloads in ranges."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pock_server.blobs import service
from pock_server.blobs.download import parse_range
from pock_server.http.problems import Problem
from pock_server.runner.sweeper import sweep_all
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem, digest_of
from tests.server.stores import stored_keys

DATA = bytes(range(256)) * 40


def begin(person: Person, data: bytes = DATA, **changes: object) -> str:
    answer = person.post("/uploads", {"digest": digest_of(data), "size": len(data), **changes})
    assert answer.status_code == 201 and answer.json()["complete"] is False
    return str(answer.json()["id"])


def send(person: Person, upload_id: str, offset: int, data: bytes) -> Any:
    return person.call("PATCH", f"/uploads/{upload_id}", content=data, headers={"Upload-Offset": str(offset)})


def test_upload_in_pieces_becomes_a_blob(person: Person) -> None:
    upload_id = begin(person)
    for start, stop in ((0, 100), (100, 5000), (5000, len(DATA))):
        answer = send(person, upload_id, start, DATA[start:stop])
        assert (answer.status_code, answer.headers["upload-offset"]) == (204, str(stop))
    head = person.call("HEAD", f"/uploads/{upload_id}")
    assert head.headers["upload-offset"] == head.headers["upload-length"] == str(len(DATA))
    found = person.call("HEAD", f"/blobs/sha256/{digest_of(DATA)}")
    assert (found.status_code, found.headers["content-length"]) == (200, str(len(DATA)))
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA
    assert_problem(send(person, upload_id, len(DATA), b"x"), 409, 1014)


def test_truncated_upload_is_no_blob_and_resumes_where_it_ended(person: Person) -> None:
    upload_id = begin(person)
    send(person, upload_id, 0, DATA[:3000])
    assert person.call("HEAD", f"/blobs/sha256/{digest_of(DATA)}").status_code == 404
    assert_problem(person.post("/models", {"name": "m", "digest": digest_of(DATA)}), 404, 1005)
    offset = int(person.call("HEAD", f"/uploads/{upload_id}").headers["upload-offset"])
    assert offset == 3000
    assert send(person, upload_id, offset, DATA[offset:]).status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def test_wrong_offset_tells_the_right_one(person: Person) -> None:
    upload_id = begin(person)
    send(person, upload_id, 0, DATA[:10])
    for offset in (0, 9, 11):
        answer = send(person, upload_id, offset, b"abc")
        assert_problem(answer, 409, 1010)
        assert answer.headers["upload-offset"] == "10"


def test_digest_mismatch_leaves_nothing_behind(server: Server, person: Person) -> None:
    upload_id = begin(person, digest="0" * 64)
    assert_problem(send(person, upload_id, 0, DATA), 460, 1011)
    assert person.call("HEAD", f"/uploads/{upload_id}").status_code == 404
    assert person.call("HEAD", f"/blobs/sha256/{'0' * 64}").status_code == 404
    assert stored_keys(server.services.blobs) == []


def test_body_beyond_the_size_is_refused(person: Person) -> None:
    assert_problem(send(person, begin(person), 0, DATA + b"x"), 413, 1012)


def test_upload_beyond_the_limit_is_refused(start_server: ServerFactory) -> None:
    person = start_server(max_blob_bytes=100).person()
    assert_problem(person.post("/uploads", {"digest": "0" * 64, "size": 101}), 413, 1012)


def test_large_upload_is_stored_part_by_part(start_server: ServerFactory) -> None:
    person = start_server(upload_part_bytes=64).person()
    assert person.get(f"/blobs/sha256/{person.upload(DATA)}").content == DATA


def test_interrupted_check_is_repeated_by_an_empty_body(person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stop(*_: Any) -> None:
        raise RuntimeError("the server stopped here")

    upload_id = begin(person)
    with monkeypatch.context() as patched:
        patched.setattr(service, "finish_upload", stop)
        assert send(person, upload_id, 0, DATA).status_code == 500
    assert person.call("HEAD", f"/uploads/{upload_id}").headers["upload-offset"] == str(len(DATA))
    assert person.call("HEAD", f"/blobs/sha256/{digest_of(DATA)}").status_code == 404
    assert send(person, upload_id, len(DATA), b"").status_code == 204
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def test_of_racing_requests_one_wins(person: Person) -> None:
    upload_id = begin(person)
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(send(person, upload_id, 0, DATA))) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [204, 409, 409, 409, 409]
    assert person.get(f"/blobs/sha256/{digest_of(DATA)}").content == DATA


def test_unfinished_upload_is_dropped_after_a_day(server: Server, person: Person) -> None:
    upload_id = begin(person)
    send(person, upload_id, 0, DATA[:100])
    server.clock.advance(86_000)
    sweep_all(server.services)
    assert person.call("HEAD", f"/uploads/{upload_id}").status_code == 200
    server.clock.advance(1000)
    sweep_all(server.services)
    assert person.call("HEAD", f"/uploads/{upload_id}").status_code == 404
    assert stored_keys(server.services.blobs) == []


def test_known_blob_needs_no_second_upload(person: Person) -> None:
    person.upload(DATA)
    again = person.post("/uploads", {"digest": digest_of(DATA), "size": len(DATA)}).json()
    assert again["complete"] is True and again["offset"] == len(DATA)
    assert_problem(person.post("/uploads", {"digest": digest_of(DATA), "size": 1}), 422, 1006)


def test_completed_bytes_are_cleaned_up(server: Server, person: Person) -> None:
    person.upload(DATA)
    assert [key.rpartition("/")[2] for key in stored_keys(server.services.blobs)] == [digest_of(DATA)]


def test_ranges(person: Person) -> None:
    path = f"/blobs/sha256/{person.upload(DATA)}"
    for header, start, stop in (
        ("bytes=0-0", 0, 1),
        ("bytes=100-", 100, len(DATA)),
        ("bytes=-5", len(DATA) - 5, len(DATA)),
    ):
        answer = person.get(path, headers={"Range": header})
        assert (answer.status_code, answer.content) == (206, DATA[start:stop])
        assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(DATA)}"
    outside = person.get(path, headers={"Range": f"bytes={len(DATA)}-"})
    assert_problem(outside, 416, 1022)
    assert outside.headers["content-range"] == f"bytes */{len(DATA)}"


def test_conditional_requests(person: Person) -> None:
    digest = person.upload(DATA)
    path = f"/blobs/sha256/{digest}"
    assert person.get(path).headers["etag"] == f'"{digest}"'
    assert person.get(path, headers={"If-None-Match": f'"{digest}"'}).status_code == 304
    changed = person.get(path, headers={"Range": "bytes=0-1", "If-Range": '"another"'})
    assert (changed.status_code, changed.content) == (200, DATA)


@given(first=st.integers(0, 40), last=st.integers(0, 40), size=st.integers(1, 30))
def test_range_is_what_slicing_gives(first: int, last: int, size: int) -> None:
    data = bytes(range(size))
    try:
        found = parse_range(f"bytes={first}-{last}", size)
    except Problem:
        assert first >= size
        return
    assert found is None if last < first else found is not None
    if found is not None:
        assert data[found.start : found.stop] == data[first : last + 1] != b""


@pytest.mark.parametrize("header", ["bytes=1-2,4-5", "items=0-1", "bytes=-", "bytes=x-", "", "bytes=5-2"])
def test_what_is_not_one_range_means_everything(header: str) -> None:
    assert parse_range(header, 100) is None
