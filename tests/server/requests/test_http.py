"""What all of HTTP has in common: problems, headers, health, the dashboard's files, and the OpenAPI document."""

import stat
from pathlib import Path

import pytest

from pock_server.http.problems import Failure
from pock_server.signing import create_key, verify
from tests.server.conftest import ServerFactory
from tests.server.harness import Person, Server, assert_problem


def test_errors_are_problems(server: Server, person: Person) -> None:
    assert_problem(person.get("/nothing"), 404, 1005)
    assert_problem(person.call("PUT", "/models"), 405, 1007)
    assert person.call("PUT", "/models").headers["allow"] == "GET, POST"
    assert person.call("GET", "/uploads").headers["allow"] == "POST"
    assert server.client.post("/").headers["allow"] == "GET"
    assert_problem(person.get("/models/not-an-id"), 422, 1006)
    broken = person.call("POST", "/models", content=b"{", headers={"Content-Type": "application/json"})
    assert_problem(broken, 422, 1006)
    missing = person.post("/models", {"name": 3})
    assert_problem(missing, 422, 1006)
    assert [error["where"] for error in missing.json()["errors"]] == ["body.name", "body.digest"]


def test_crash_is_a_problem_without_secrets(server: Server, person: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("password 1234")

    monkeypatch.setattr("pock_server.models.service._describe", crash)
    answer = person.post("/models", {"name": "net", "digest": person.upload(b"graph")})
    assert_problem(answer, 500, 1000)
    assert "1234" not in answer.text
    monkeypatch.undo()
    assert person.get("/models").json()["items"] == []  # the transaction was rolled back


def test_rejected_input_is_not_repeated_in_the_answer(person: Person) -> None:
    assert "hunter2" not in person.post("/models", {"name": 1, "digest": "hunter2"}).text


def test_large_json_is_refused(start_server: ServerFactory) -> None:
    person = start_server(max_json_bytes=1000).person()
    for headers in ({}, {"Idempotency-Key": "k"}):
        answer = person.post("/models", {"name": "x" * 2000, "digest": "0" * 64}, headers=headers)
        assert_problem(answer, 413, 1012)


def test_a_body_is_no_larger_than_its_call_needs(server: Server, person: Person) -> None:
    # The largest bodies that are valid here are read; those that can only be wrong are not parsed.
    models = {"name": "x", "digest": "0" * 64, "external": {f"{n:0>200}": "0" * 64 for n in range(1000)}}
    assert_problem(person.post("/models", models), 404, 1005)
    recipe = {"model_id": "018f0000-0000-7000-8000-000000000000", "recipe": "{}\n" + "# 😀\n" * 20_000, "target": "x"}
    assert_problem(person.post("/builds", recipe), 404, 1005)
    for path, size in (("/models", 600 << 10), ("/builds", 1100 << 10), ("/runs", 70 << 10), ("/api-keys", 70 << 10)):
        assert_problem(person.post(path, {"name": " " * size}), 413, 1012)
    device = server.device(person)
    beat = {"state": "idle", "facts": {"x": "é" * 15_000}}
    assert device.call("POST", "/heartbeat", json=beat).status_code == 200
    assert_problem(device.call("POST", "/heartbeat", json={**beat, "x": " " * 140_000}), 413, 1012)
    report = {"fence": 1, "state": "succeeded", "report": {"x": "x" * 2_900_000}}
    unknown = "/runs/018f0000-0000-7000-8000-000000000000/result"
    assert_problem(device.call("POST", unknown, json=report), 404, 1005)


def test_security_headers(server: Server, person: Person) -> None:
    for answer in (server.client.get("/"), person.get("/models"), server.client.get("/v1/models")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert person.get("/models").headers["cache-control"] == "no-store"


@pytest.mark.in_process("counts what one process did")
def test_metrics(server: Server, person: Person) -> None:
    person.get("/models")
    person.get("/models/018f0000-0000-7000-8000-000000000000")
    server.built(person)
    assert person.build(name="waits", threads=1).status_code == 202
    text = server.client.get("/metrics").text
    assert 'pock_http_requests_total{operation="list_models",status="200"} 1.0' in text
    assert 'operation="get_model",status="404"' in text
    assert 'pock_finished_total{code="0",kind="build",state="succeeded"} 1.0' in text
    assert 'pock_rows{kind="build",state="queued"} 1.0' in text and 'kind="build",state="succeeded"} 1.0' in text


def test_dashboard_files(start_server: ServerFactory, tmp_path: Path) -> None:
    dist = tmp_path / "dist"
    (dist / "assets").mkdir(parents=True)
    (tmp_path / "secret.txt").write_text("secret")
    server = start_server(web_dist=dist)
    empty = server.client.get("/")
    assert empty.status_code == 200 and "make web" in empty.text
    (dist / "index.html").write_text("<p>the dashboard</p>")
    (dist / "assets" / "a-1.js").write_text("1")
    assert "the dashboard" in server.client.get("/").text
    assert "the dashboard" in server.client.get("/runs/123").text
    script = server.client.get("/assets/a-1.js")
    assert script.text == "1" and "javascript" in script.headers["content-type"]
    assert "31536000" in script.headers["cache-control"]
    assert_problem(server.client.get("/assets/b-2.js"), 404, 1005)
    for path in ("/../secret.txt", "/%2e%2e/secret.txt", "/..%2fsecret.txt", "/assets/..%2f..%2fsecret.txt"):
        assert "secret" not in server.client.get(path).text


PACKED = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


def test_texts_are_compressed_and_blobs_are_not(server: Server, person: Person) -> None:
    for n in range(20):
        person.post("/enrollment-tokens", {"name": f"device {n}"})
        person.post("/api-keys", {"name": f"key {n}", "scopes": ["read"]})
    packed, plain = person.get("/api-keys", headers=PACKED), person.get("/api-keys", headers=PLAIN)
    assert packed.headers["content-encoding"] == "gzip" and "content-encoding" not in plain.headers
    assert packed.json() == plain.json()
    assert "accept-encoding" in packed.headers["vary"].lower() and "accept-encoding" in plain.headers["vary"].lower()
    assert int(packed.headers["content-length"]) < int(plain.headers["content-length"])
    assert "content-encoding" not in person.get("/models", headers=PACKED).headers  # too short to be worth it
    digest = person.upload(b"x" * 10_000)
    blob = person.get(f"/blobs/sha256/{digest}", headers=PACKED)
    assert "content-encoding" not in blob.headers and blob.content == b"x" * 10_000
    build = server.built(person)["id"]
    events = person.get(f"/builds/{build}/events", headers=PACKED)
    assert "content-encoding" not in events.headers and "event: state" in events.text


def test_files_of_the_page_are_compressed_once(start_server: ServerFactory, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>" + "the dashboard" * 1000)
    (tmp_path / "logo.png").write_bytes(b"x" * 5000)
    client = start_server(web_dist=tmp_path).client
    packed, plain = client.get("/", headers=PACKED), client.get("/", headers=PLAIN)
    assert packed.headers["content-encoding"] == "gzip" and packed.text == plain.text
    assert int(packed.headers["content-length"]) < 500 and packed.headers["vary"] == plain.headers["vary"]
    assert "content-encoding" not in client.get("/logo.png", headers=PACKED).headers
    (tmp_path / "index.html").write_text("<p>" + "another one" * 1000)
    assert "another one" in client.get("/", headers=PACKED).text


def test_signing_key_is_private_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "signing.pem"
    first, second = create_key(path), create_key(path)
    assert (first.public_key, first.key_id) == (second.public_key, second.key_id)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and [p.name for p in path.parent.iterdir()] == ["signing.pem"]
    assert verify(first.public_key, second.sign(b"message"), b"message")
    assert not verify(first.public_key, second.sign(b"message"), b"another")


def test_document_describes_errors_as_problems(server: Server) -> None:
    document = server.client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert "application/problem+json" in operation["responses"]["4XX"]["content"], path
            assert "422" not in operation["responses"]
    names = [operation["operationId"] for operations in document["paths"].values() for operation in operations.values()]
    assert len(names) == len(set(names))


def test_every_failure_code_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")
    table = page.split("## Failure codes")[1].split("## ")[0]
    assert [kind for kind in Failure if str(kind.code) not in table] == []
    assert len({kind.code for kind in Failure}) == len(Failure)
