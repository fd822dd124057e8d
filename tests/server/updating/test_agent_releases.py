"""Releases of the agent: only what root keys signed, whose files are here and are what the document says."""

import base64
import io
import json
import struct
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pock_server.agent_releases.archive import BadArchive, read_archive
from pock_server.agent_releases.document import read
from pock_server.agent_releases.schemas import ReleaseDocument
from pock_server.blobs.collect import collect
from pock_server.signing import Signer, create_key
from pock_server.trust.documents import BadDocument
from tests.server.harness import Person, Server, assert_problem, command, digest_of
from tests.server.updating.agent_files import agent_file, document, released, root_key

FILE = agent_file("0.2.0")


def test_a_release_is_kept_listed_and_forgotten(server: Server, person: Person) -> None:
    order = released(server, person, FILE)
    made = person.post("/agent-releases", order)
    assert made.status_code == 201, made.text
    release = made.json()
    assert (release["version"], release["notes"], release["downgrade"]) == ("0.2.0", "what is new", False)
    assert release["files"]["linux-aarch64"] == {"sha256": digest_of(FILE), "size": len(FILE)}
    assert person.post("/agent-releases", order).json() == release
    assert person.get("/agent-releases").json()["items"] == [release]
    assert person.get(f"/agent-releases/{release['id']}").json() == release
    assert person.call("DELETE", f"/agent-releases/{release['id']}").status_code == 204
    assert_problem(person.get(f"/agent-releases/{release['id']}"), 404, 1005)


def test_its_file_is_not_collected(server: Server, person: Person) -> None:
    made = person.post("/agent-releases", released(server, person, FILE)).json()
    server.clock.advance(200 * 3600)
    collect(server.services)
    assert person.call("HEAD", f"/blobs/sha256/{digest_of(FILE)}").status_code == 200
    person.call("DELETE", f"/agent-releases/{made['id']}")
    server.clock.advance(200 * 3600)
    collect(server.services)
    assert person.call("HEAD", f"/blobs/sha256/{digest_of(FILE)}").status_code == 404


@pytest.mark.parametrize(
    "changes,says",
    [
        ({"version": "0.3.0"}, "is version 0.2.0, and the document says 0.3.0"),
        ({"expires_at": "2029-12-31T00:00:00Z", "issued_at": "2029-12-01T00:00:00Z"}, "expired"),
        ({"files": {"linux-riscv64": {"sha256": digest_of(FILE), "size": len(FILE)}}}, "has nothing for linux-riscv64"),
        ({"files": {"linux-x86_64": {"sha256": digest_of(FILE), "size": 5}}}, "and the document says 5"),
        ({"files": {"linux-x86_64": {"sha256": "0" * 64, "size": 5}}}, "There is no blob"),
    ],
)
def test_what_the_document_says_has_to_be_so(
    server: Server, person: Person, changes: dict[str, Any], says: str
) -> None:
    changes = {"version": "0.2.0", **changes}
    answer = person.post("/agent-releases", released(server, person, FILE, **changes))
    assert answer.status_code in (404, 422) and says in answer.json()["detail"], answer.text


def test_the_online_key_and_strangers_cannot_release(server: Server, person: Person) -> None:
    person.upload(FILE)
    with server.services.database.read() as session:
        online = server.services.keys.current(session).signer
    for signers in ((), (online,), (Signer.generate(), Signer.generate())):
        signed = document(FILE, "0.2.0", server.clock.now(), *signers)
        answer = person.post("/agent-releases", {"document": signed.model_dump()})
        assert_problem(answer, 422, 1006)
        assert "0 root keys of trust document 1" in answer.json()["detail"]


def test_a_trust_document_is_no_release(server: Server, person: Person) -> None:
    """The same keys sign both: a text of one type must not pass for one of the other."""
    trust = server.client.get("/v1/trust").json()
    assert_problem(person.post("/agent-releases", {"document": trust}), 422, 1006)


def test_a_version_names_one_content(server: Server, person: Person) -> None:
    assert person.post("/agent-releases", released(server, person, FILE)).status_code == 201
    server.clock.advance(60)
    assert person.post("/agent-releases", released(server, person, FILE)).status_code == 201  # signed anew
    other = agent_file("0.2.0", members={"any/more.py": b""})
    answer = person.post("/agent-releases", released(server, person, other))
    assert_problem(answer, 409, 1014)
    assert "released with another file" in answer.json()["detail"]


def test_another_workspace_sees_nothing_of_it(server: Server, person: Person) -> None:
    made = person.post("/agent-releases", released(server, person, FILE)).json()
    stranger = server.person(workspace="another")
    assert stranger.get("/agent-releases").json()["items"] == []
    assert_problem(stranger.get(f"/agent-releases/{made['id']}"), 404, 1005)
    assert_problem(stranger.call("DELETE", f"/agent-releases/{made['id']}"), 404, 1005)
    assert_problem(stranger.post("/agent-releases", {"document": made["document"]}), 404, 1005)  # not its blob


def _many_entries() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for number in range(5000):
            archive.writestr(str(number), b"")
    return content.getvalue()


def _long_directory() -> bytes:
    content = bytearray(FILE)
    struct.pack_into("<I", content, len(content) - 10, 2 << 20)
    return bytes(content)


def _zip64() -> bytes:
    return FILE[:-22] + b"PK\x06\x07" + bytes(16) + FILE[-22:]


@pytest.mark.parametrize(
    "content,says",
    [
        (b"", "no zip archive"),
        (b"\x7fELF" * 100, "no zip archive"),
        (_many_entries(), "directory is too long"),
        (_long_directory(), "directory is too long"),
        (_zip64(), "directory is too long"),
        (FILE[: len(FILE) // 2] + bytes(30) + FILE[len(FILE) // 2 + 30 :], "damaged|no pock-agent"),
        (agent_file("2"), "states no version"),
        (agent_file("0.2.0", "riscv64"), "no libraries"),
    ],
)
def test_hostile_files_are_one_sentence(content: bytes, says: str) -> None:
    with pytest.raises(BadArchive, match=says):
        read_archive(content)


PAYLOADS: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda said: {**said, "more": 1}, "more"),
    (lambda said: {name: value for name, value in said.items() if name != "revert"}, "revert"),
    (lambda said: {**said, "downgrade": 1}, "downgrade"),
    (lambda said: {**said, "version": "0.2"}, "version"),
    (lambda said: {**said, "version": "0.02.0"}, "version"),
    (lambda said: {**said, "files": {}}, "files"),
    (lambda said: {**said, "files": {"../x": said["files"]["linux-x86_64"]}}, "files"),
    (lambda said: {**said, "type": "pock-trust"}, "type"),
    (lambda said: {**said, "format": 2}, "format"),
    (lambda said: {**said, "expires_at": said["issued_at"]}, "expires before"),
    (lambda said: {**said, "expires_at": "2030-13-01T00:00:00Z"}, "is no time"),
]


@pytest.mark.parametrize("change,says", PAYLOADS)
def test_malformed_documents_are_refused(server: Server, change: Callable[[dict[str, Any]], Any], says: str) -> None:
    said = json.loads(base64.b64decode(document(FILE, "0.2.0", server.clock.now()).payload))
    text = json.dumps(change(said), sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(BadDocument, match=says):
        read(ReleaseDocument(payload=base64.b64encode(text).decode(), signatures=[]))


def test_a_field_given_twice_is_refused(server: Server) -> None:
    text = base64.b64decode(document(FILE, "0.2.0", server.clock.now()).payload)
    twice = text.replace(b'"revert":true', b'"revert":false,"revert":true')
    with pytest.raises(BadDocument, match="one form"):
        read(ReleaseDocument(payload=base64.b64encode(twice).decode(), signatures=[]))


def test_the_command_signs_what_the_service_takes(server: Server, person: Person, tmp_path: Path) -> None:
    file = tmp_path / "pock-agent.pyz"
    file.write_bytes(FILE)
    server.clock.moment = datetime.now(UTC)
    done = command(server, "agent-release", "sign", file, "--json")
    assert done.exit_code == 0, done.output
    account = json.loads(done.stdout)
    assert account["version"] == "0.2.0" and account["platforms"] == ["linux-aarch64", "linux-x86_64"]
    assert account["signed_by"] == [root_key(server).key_id]
    signed = json.loads((tmp_path / "pock-agent.pyz.release.json").read_text())
    person.upload(FILE)
    assert person.post("/agent-releases", {"document": signed}).status_code == 201


def test_several_keys_sign_one_after_the_other_and_only_the_same_file(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "agent.pyz"
    file.write_bytes(FILE)
    keys = [create_key(tmp_path / name) for name in ("first.pem", "second.pem")]
    for name in ("first.pem", "second.pem"):
        done = command(server, "agent-release", "sign", file, "--root-key", tmp_path / name, "--json")
    assert json.loads(done.stdout)["signed_by"] == [key.key_id for key in keys]
    file.write_bytes(agent_file("0.3.0"))
    done = command(server, "agent-release", "sign", file, "--root-key", tmp_path / "first.pem")
    assert done.exit_code == 2 and "is of another file" in done.stderr


def test_the_command_refuses_in_a_sentence(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "agent.pyz"
    file.write_bytes(b"nothing")
    done = command(server, "agent-release", "sign", file)
    assert done.exit_code == 2 and "no zip archive" in done.stderr and not list(tmp_path.glob("*.json"))
    done = command(server, "agent-release", "sign", file, "--root-key", tmp_path / "none")
    assert done.exit_code == 2 and "there is no root key" in done.stderr
