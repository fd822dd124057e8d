"""Models and datasets: registration, pages, and what a dataset must be."""

import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pock_server.datasets.safetensors_header import MalformedSafetensors, read_header
from tests.server.harness import Person, Server, assert_problem, digest_of, safetensors

GOOD = {"input": ("F32", (6, 1, 8, 8)), "labels": ("I64", (6,))}


def test_model_keeps_its_external_files(person: Person) -> None:
    weights = person.upload(b"weights")
    body = {"name": "net", "digest": person.upload(b"graph"), "external": {"data/weights.bin": weights}}
    made = person.post("/models", body)
    assert made.status_code == 201
    assert made.json()["size"] == 5 and made.json()["external"] == {"data/weights.bin": weights}
    assert person.get(f"/models/{made.json()['id']}").json() == made.json()


@pytest.mark.parametrize("file", ["../up", "/etc/passwd", "a/../b", ".hidden", "a//b", "", "a\\..\\b", "a/"])
def test_external_file_names_cannot_leave_the_model_folder(reader: Person, file: str) -> None:
    digest = reader.upload(b"graph")
    assert_problem(reader.post("/models", {"name": "net", "digest": digest, "external": {file: digest}}), 422, 1006)


def test_model_needs_uploaded_bytes(reader: Person) -> None:
    assert_problem(reader.post("/models", {"name": "net", "digest": "0" * 64}), 404, 1005)
    external = {"w": "0" * 64}
    assert_problem(
        reader.post("/models", {"name": "n", "digest": reader.upload(b"g"), "external": external}), 404, 1005
    )


def test_dataset_shows_what_its_header_declares(person: Person) -> None:
    made = person.post("/datasets", {"name": "digits", "digest": person.upload(safetensors(GOOD))})
    assert made.status_code == 201
    body = made.json()
    assert body["samples"] == 6
    assert body["tensors"] == [
        {"name": "input", "dtype": "f32", "shape": [6, 1, 8, 8]},
        {"name": "labels", "dtype": "i64", "shape": [6]},
    ]
    assert person.get(f"/datasets/{body['id']}").json() == body
    assert person.get("/datasets").json() == {"items": [body], "next_cursor": None}


@pytest.mark.parametrize(
    "data,says",
    [
        (b"PK\x03\x04 this is a zip", "header claims"),
        (b"tiny", "too few"),
        (safetensors(GOOD)[:-1], "cover"),
        (safetensors({"input": ("F32", (6, 2)), "labels": ("I64", (5,))}), "5 samples"),
        (safetensors({"input": ("F32", (0, 2)), "labels": ("I64", (0,))}), "zero samples"),
        (safetensors({"input": ("F32", ())}), "no dimension"),
        (safetensors({}), "no tensors"),
    ],
)
def test_what_is_no_dataset_is_bad_data(reader: Person, data: bytes, says: str) -> None:
    answer = reader.post("/datasets", {"name": "d", "digest": reader.upload(data)})
    assert_problem(answer, 422, 10004)
    assert says in answer.json()["detail"]
    assert reader.get("/datasets").json()["items"] == []


def file_with(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4], **changes}}


@pytest.mark.parametrize(
    "file,says",
    [
        (file_with(b"[]"), "start with"),
        (file_with(b"{nonsense"), "not JSON"),
        (file_with(b'{"x":1,"x":2}'), "twice"),
        (file_with({"x": 3}), "not described"),
        (file_with(tensor(dtype="F31"), bytes(4)), "unknown dtype"),
        (file_with(tensor(shape=[-1]), bytes(4)), "shape"),
        (file_with(tensor(shape=[True]), bytes(4)), "shape"),
        (file_with(tensor(data_offsets=[4, 0]), bytes(4)), "data_offsets"),
        (file_with(tensor(data_offsets=[0]), bytes(4)), "data_offsets"),
        (file_with(tensor(shape=[2]), bytes(4)), "fit"),
        (file_with(tensor(data_offsets=[4, 8]), bytes(8)), "hole"),
        (file_with({**tensor(), "y": tensor()["x"]}, bytes(4)), "overlaps"),
        (file_with(tensor(), bytes(5)), "cover"),
        (struct.pack("<Q", 1 << 40), "allowed"),
    ],
)
def test_each_broken_rule_of_the_format_is_named(file: bytes, says: str) -> None:
    with pytest.raises(MalformedSafetensors, match=says):
        read_header(lambda start, length: file[start : start + length], len(file))


@given(st.binary(max_size=200))
def test_any_bytes_are_either_read_or_malformed(data: bytes) -> None:
    file = struct.pack("<Q", max(0, len(data) - 3)) + data
    with contextlib.suppress(MalformedSafetensors):
        read_header(lambda start, length: file[start : start + length], len(file))


def test_pages_are_newest_first_and_complete(server: Server, person: Person) -> None:
    digest = person.upload(b"graph")
    names = []
    for number in range(7):
        server.clock.advance(number % 2)  # some share their time of creation
        names.append(f"net {number}")
        person.post("/models", {"name": names[-1], "digest": digest})
    seen, cursor = [], None
    for expected in (3, 3, 1):
        page = person.get("/models", params={"limit": 3, **({"cursor": cursor} if cursor else {})}).json()
        assert len(page["items"]) == expected
        seen += [row["name"] for row in page["items"]]
        cursor = page["next_cursor"]
    assert cursor is None and seen == names[::-1]


def test_new_rows_do_not_shift_later_pages(person: Person) -> None:
    digest = person.upload(b"graph")
    for name in "abcd":
        person.post("/models", {"name": name, "digest": digest})
    first = person.get("/models?limit=2").json()
    person.post("/models", {"name": "e", "digest": digest})
    second = person.get("/models", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [row["name"] for row in second["items"]] == ["b", "a"]


@pytest.mark.parametrize("cursor", ["nonsense", "bm8=", "WzEsMl0", "ImEi", "%00", "eyJ9"])
def test_foreign_cursor_is_refused(reader: Person, cursor: str) -> None:
    assert_problem(reader.get("/models", params={"cursor": cursor}), 422, 1013)


@pytest.mark.parametrize("limit", ["0", "201", "many"])
def test_page_size_is_limited(reader: Person, limit: str) -> None:
    assert_problem(reader.get("/models", params={"limit": limit}), 422, 1006)


def test_workspaces_do_not_see_each_other(server: Server, person: Person) -> None:
    model, dataset = person.model(), person.dataset()
    stranger = server.person(workspace="other")
    for path in (f"/models/{model['id']}", f"/datasets/{dataset['id']}", f"/blobs/sha256/{model['digest']}"):
        assert person.get(path).status_code == 200
        assert_problem(stranger.get(path), 404, 1005)
    assert stranger.get("/models").json()["items"] == stranger.get("/datasets").json()["items"] == []
    assert_problem(stranger.post("/models", {"name": "stolen", "digest": model["digest"]}), 404, 1005)
    # The same bytes must be sent again: knowing a digest is not possessing the bytes.
    assert stranger.post("/uploads", {"digest": model["digest"], "size": model["size"]}).json()["complete"] is False
    upload = person.post("/uploads", {"digest": digest_of(b"more"), "size": 4}).json()["id"]
    assert stranger.call("HEAD", f"/uploads/{upload}").status_code == 404
