"""What a client can do before anybody knows who it is, on a real socket: it costs little, and not for long."""

import hashlib
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.server.sockets import Live, ends, read_answer, request, serving, wait_until

MIB = 1 << 20
SECONDS = {
    "POCK_HEADER_SECONDS": "1",
    "POCK_SLOW_SECONDS": "1",
    "POCK_MIN_BYTES_PER_SECOND": "1000000",
    "POCK_MAX_CONNECTIONS": "2500",
    "POCK_MAX_CONNECTIONS_PER_ADDRESS": "2400",
    "POCK_MAX_BUFFERED_BYTES": str(16 * MIB),
}


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with serving(tmp_path_factory.mktemp("edge"), SECONDS) as found:
        yield found


@pytest.fixture
def honest(live: Live) -> Iterator[httpx.Client]:
    """Someone with a key, who must not notice anything."""
    headers = {"Authorization": f"Bearer {live.key}"}
    with httpx.Client(base_url=live.url, headers=headers, timeout=30) as client:
        yield client


def code(body: bytes) -> int:
    return int(json.loads(body)["failure_code"])


def test_half_sent_bodies_without_a_key_cost_nothing(live: Live, honest: httpx.Client) -> None:
    """200 bodies of 4 MiB but for the last byte, to every kind of call."""
    before = live.rss()
    paths = ["/v1/models", "/v1/enroll", "/v1/agent/session", "/v1/agent/heartbeat", "/healthz", "/v1/nothing"]
    with ExitStack() as stack:
        for n in range(200):
            connection = stack.enter_context(live.connect())
            connection.setblocking(False)
            with suppress(BlockingIOError, ConnectionError):  # it is not read, or was refused already
                connection.sendall(request("POST", paths[n % len(paths)], body=b" " * MIB, length=4 * MIB))
        assert honest.get("/v1/models").status_code == 200
        assert live.rss() - before < 64 * MIB
        wait_until(lambda: live.connections() <= 1)
    assert honest.post("/v1/enrollment-tokens", json={}).status_code == 201


def test_half_sent_heads_end(live: Live, honest: httpx.Client) -> None:
    before = live.rss()
    with ExitStack() as stack:
        for _ in range(1500):
            connection = stack.enter_context(live.connect())
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: test\r\nX-Long: " + b"x" * 8000)
        assert honest.get("/v1/models").status_code == 200
        assert live.rss() - before < 100 * MIB
        wait_until(lambda: live.connections() <= 1)


def test_an_honest_key_cannot_fill_the_memory_either(live: Live, honest: httpx.Client) -> None:
    with ExitStack() as stack:
        answers = []
        for _ in range(24):
            connection = stack.enter_context(live.connect())
            body = b" " * (MIB - 1)
            headers = {"Authorization": f"Bearer {live.key}"}
            connection.sendall(request("POST", "/v1/builds", headers, body, length=len(body) + 1))
            answers.append(connection)
        found = [read_answer(connection) for connection in answers]
    assert {(answer.status, code(answer.body)) for answer in found} == {(503, 1042), (408, 1040)}
    assert honest.post("/v1/enrollment-tokens", json={}).status_code == 201


@pytest.mark.parametrize(
    ("sent", "status", "failure"),
    [
        (b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431, 1041),
        (b"GET / HTTP/1.1\r\nHost: t\r\nX: " + b"x" * 20_000, 431, 1041),
        (b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\nHost: t\r\n\r\n", 431, 1041),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000 + b"\r\n", 431, 1041),
        (b"X" * 20_000, 400, 1007),
        (b"GET / HTTP/9.9\r\n\r\n", 400, 1007),
        (b"GET \xff\xfe HTTP/1.1\r\nHost: t\r\n\r\n", 400, 1007),
        (b"GET / HTTP/1.1\r\nHost: t", 408, 1040),
        (b"\r\n\r\n", 408, 1040),
        (b"POST /v1/enroll HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n{", 408, 1040),
        (b"POST /v1/enroll HTTP/1.1\r\nHost: t\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0", 400, 1007),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_what_is_no_request(live: Live, sent: bytes, status: int, failure: int) -> None:
    with live.connect() as connection:
        connection.sendall(sent)
        answer = read_answer(connection)
        assert (answer.status, code(answer.body)) == (status, failure)
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.headers["connection"] == "close"
        assert ends(connection)


def test_a_connection_that_says_nothing_is_closed_without_a_word(live: Live) -> None:
    with live.connect() as connection:
        assert connection.recv(10) == b""


def test_trailers_and_chunks_of_one_byte_end(live: Live) -> None:
    head = b"POST /healthz HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n"
    for rest in (b"0\r\n" + b"a: b\r\n" * 10_000, b"0\r\na: " + b"x" * 300_000):
        with live.connect() as connection:
            with suppress(ConnectionError):
                connection.sendall(head + rest)
            assert ends(connection)


def test_pipelined_requests_are_few(live: Live) -> None:
    with live.connect() as connection:
        connection.sendall(b"GET /readyz HTTP/1.1\r\nHost: t\r\n\r\n" * 5000)
        assert ends(connection)
    with live.connect() as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: t\r\n\r\n" * 3)
        assert [read_answer(connection).status for _ in range(3)] == [200] * 3


def stray(live: Live, key: bool) -> dict[str, str]:
    return {"Authorization": f"Bearer {live.key}"} if key else {}


@pytest.mark.parametrize(
    ("method", "path", "key", "body", "extra", "status"),
    [
        ("POST", "/v1/models", False, b"{" * 1000, {}, 401),
        ("POST", "/v1/models", True, b"{" * 1000, {}, 422),
        ("POST", "/v1/models", True, b" " * (5 * MIB), {}, 413),
        ("POST", "/v1/enroll", False, b" " * (65 << 10), {}, 413),
        ("POST", "/v1/models", True, b"\xff" * 1000, {}, 422),
        ("POST", "/v1/models", True, b"{}", {"Content-Encoding": "gzip"}, 415),
        ("POST", "/v1/models/x/y", True, b"{}" * 1000, {}, 404),
        ("PUT", "/v1/models", True, b"{}" * 1000, {}, 405),
        ("POST", "/healthz", False, b" " * (5 * MIB), {}, 405),
        ("PATCH", "/v1/uploads/018f0000-0000-7000-8000-000000000000", True, b" " * MIB, {"Upload-Offset": "0"}, 404),
        ("PATCH", "/v1/uploads/018f0000-0000-7000-8000-000000000000", False, b" " * MIB, {"Upload-Offset": "0"}, 401),
        ("PATCH", "/v1/uploads/nonsense", True, b" " * MIB, {}, 422),
        ("PUT", f"/v1/agent/blobs/sha256/{'0' * 64}", False, b" " * MIB, {}, 401),
        ("GET", "/v1/models", True, b" " * MIB, {}, 200),
        ("GET", "/v1/models?cursor=x", True, b"", {}, 422),
        ("GET", "/v1/" + "a" * 5000, True, b"", {}, 404),
        ("GET", "/nothing.txt", False, b"", {"Host": "["}, 404),
        ("GET", "/v1/models", False, b"", {"Host": "["}, 401),
        ("GET", "/v1/models", False, b"", {"Host": "[", "Cookie": "pock_session=x"}, 401),
        ("DELETE", "/v1/models", True, b" " * 1000, {}, 405),
    ],
    ids=lambda value: str(value)[:24],
)
def test_the_connection_works_after_an_error(
    live: Live, method: str, path: str, key: bool, body: bytes, extra: dict[str, str], status: int
) -> None:
    """An answer in the middle of a body neither breaks the next request, nor is taken for a part of it."""
    with live.connect() as connection:
        connection.sendall(request(method, path, {**stray(live, key), **extra}, body))
        answer = read_answer(connection)
        assert answer.status == status, answer
        connection.sendall(request("GET", "/v1/models", stray(live, True)))
        following = read_answer(connection)
        assert (following.status, set(json.loads(following.body))) == (200, {"items", "next_cursor"})


def test_a_body_that_nobody_asked_for_is_not_awaited(live: Live) -> None:
    with live.connect() as connection:
        headers = {"Expect": "100-continue"}
        connection.sendall(request("POST", "/v1/models", headers, length=4 * MIB))
        assert read_answer(connection).status == 401
        assert ends(connection)


def test_who_does_not_read_is_let_go(live: Live, honest: httpx.Client) -> None:
    """32 MiB asked for by each of a hundred who never read: little of it is kept for them, and not for long."""
    data = b"x" * (32 * MIB)
    digest = upload(honest, data)
    before = live.rss()
    with ExitStack() as stack:
        for _ in range(20):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            host, port = live.url.removeprefix("http://").split(":")
            connection.connect((host, int(port)))
            connection.sendall(request("GET", f"/v1/blobs/sha256/{digest}", stray(live, True)))
        assert honest.get("/v1/models").status_code == 200
        wait_until(lambda: live.connections() <= 1)
        assert live.rss() - before < 20 * 6 * MIB
    assert honest.get(f"/v1/blobs/sha256/{digest}").content == data


def upload(client: httpx.Client, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    made = client.post("/v1/uploads", json={"digest": digest, "size": len(data)}).json()
    sent = client.patch(f"/v1/uploads/{made['id']}", content=data, headers={"Upload-Offset": "0"})
    assert sent.status_code == 204, sent.text
    return digest


def test_who_was_fast_may_not_stop_for_long(tmp_path: Path) -> None:
    """What came in time is no credit for a pause, before the answer or after it."""
    with serving(tmp_path, {"POCK_SLOW_SECONDS": "1", "POCK_MIN_BYTES_PER_SECOND": "1"}) as slow:
        for headers in ({"Authorization": f"Bearer {slow.key}"}, {}):
            with slow.connect() as connection:
                connection.sendall(request("POST", "/v1/models", headers, b" " * 1000, length=2000))
                assert read_answer(connection).status == (408 if headers else 401)
                assert ends(connection)


def test_more_connections_than_allowed_are_told_so(live: Live, honest: httpx.Client) -> None:
    assert honest.get("/v1/models").status_code == 200
    with ExitStack() as stack:
        held = [stack.enter_context(live.connect()) for _ in range(2420)]
        assert honest.get("/v1/models").status_code == 200
        answer = read_answer(held[-1])
        assert (answer.status, code(answer.body)) == (503, 1042)
        assert answer.headers["retry-after"]
    wait_until(lambda: live.connections() <= 1)
    with live.connect() as connection:
        connection.sendall(request("GET", "/healthz"))
        assert read_answer(connection).status == 200
