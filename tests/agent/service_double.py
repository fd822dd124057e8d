"""A small service that speaks the agents' part of docs/reference/api.md over real HTTP, and can be told to misbehave.

`on(route, fault)` puts a function in front of a route; it gets the request and may answer in its place, by returning an
Answer, or wait, or return None to let the double answer properly. `hold(route)` stops requests at a gate.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ROUTES = (
    ("GET", r"/healthz", "healthz"),
    ("POST", r"/v1/enroll", "enroll"),
    ("POST", r"/v1/agent/session", "session"),
    ("POST", r"/v1/agent/heartbeat", "heartbeat"),
    ("GET", r"/v1/agent/work\?wait=([\d.]+)(?:&trust=\d+)?(?:&update=[^&]+)?", "work"),
    ("GET", r"/v1/trust/(\d+)", "trust"),
    ("GET", r"/v1/agent/trust", "introduction"),
    ("PUT", r"/v1/agent/datasets", "datasets"),
    ("POST", r"/v1/agent/runs/([^/]+)/lease", "lease"),
    ("GET", r"/v1/agent/blobs/sha256/([0-9a-f]{64})", "blob"),
    ("POST", r"/v1/agent/runs/([^/]+)/events", "events"),
    ("PUT", r"/v1/agent/blobs/sha256/([0-9a-f]{64})", "upload"),
    ("POST", r"/v1/agent/runs/([^/]+)/(?:result|decline)", "result"),
)


@dataclass
class Answer:
    """What goes back. `length` overrides Content-Length; `cut` closes the connection after that many body bytes,
    and `stall` keeps it open after the body until the event is set."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    cut: int | None = None
    stall: threading.Event | None = None


@dataclass
class Request:
    """What arrived. `number` counts the requests on this route from 1."""

    route: str
    argument: str
    headers: Any
    body: bytes
    number: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def as_json(value: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json"})


def problem(status: int, detail: str, code: int = 1000) -> Answer:
    return as_json({"title": "refused", "status": status, "detail": detail, "failure_code": code}, status)


class Gate:
    """A place where requests wait."""

    def __init__(self) -> None:
        self.arrived, self.released = threading.Event(), threading.Event()

    def __call__(self, request: Request) -> None:
        self.arrived.set()
        self.released.wait(20)


class ServiceDouble:
    """State of the double; see the module."""

    def __init__(self) -> None:
        self.key = Ed25519PrivateKey.generate()
        self.key_id = "k1"
        self.chain: list[dict[str, Any]] = []  # trust documents; a service of before has none
        self.announced: int | None = None
        self.tokens = {"good-token"}
        self.devices: dict[str, dict[str, Any]] = {}
        self.sessions: dict[str, str] = {}
        self.blobs: dict[str, bytes] = {}
        self.waiting: list[dict[str, Any]] = []
        self.cancelled: set[str] = set()
        self.heartbeats: list[Any] = []
        self.listings, self.received = list[Any](), list[bytes]()  # of local data; request lines, headers, bodies
        self.events: dict[str, list[Any]] = defaultdict(list)
        self.results: dict[str, list[Any]] = defaultdict(list)
        self.uploads: dict[str, bytes] = {}
        self.counts: dict[str, int] = defaultdict(int)
        self.bytes_sent = self.work_counter = 0
        self.faults: dict[str, Callable[[Request], Answer | None]] = {}
        self.lock = threading.Condition()
        double = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                double.serve(self)

            do_GET = do_POST = do_PUT = handle_any

            def log_message(self, *unused: object) -> None:
                pass

        self.answer_healthz = lambda request: as_json({})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *unused: None  # type: ignore[method-assign]  # cut connections
        threading.Thread(target=lambda: self.server.serve_forever(0.02), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def close(self) -> None:
        for fault in self.faults.values():
            if isinstance(fault, Gate):
                fault.released.set()
        self.server.shutdown()
        self.server.server_close()

    # Faults.

    def on(self, route: str, fault: Callable[[Request], Answer | None]) -> None:
        self.faults[route] = fault

    def hold(self, route: str) -> Gate:
        self.faults[route] = gate = Gate()
        return gate

    # Jobs.

    def add_blob(self, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"sha256": digest, "size": len(content)}

    def payload(self, device_id: str, executable: bytes, content: bytes, evaluate: bool = True) -> dict[str, Any]:
        """A proper job; tests change what they want to change."""
        self.work_counter += 1
        data = self.add_blob(content)
        members = {"bin/model": self.add_blob(executable), "params.safetensors": self.add_blob(b"parameters" * 100)}
        now = time.time()
        return {
            "version": 1,
            "job_id": str(uuid.uuid4()),
            "run_id": str(uuid.uuid4()),
            "device_id": device_id,
            "attempt": 1,
            "fence": 7,
            "counter": self.work_counter,
            "issued_at": rfc3339(now),
            "expires_at": rfc3339(now + 600),
            "artifact": {
                "digest": "ab" * 32,
                "name": "fake",
                "target": "host",
                "executable": "bin/model",
                "members": members,
            },
            "data": {"train": data, "eval": data if evaluate else None},
            "run": {"entry": "train", "steps": 5, "threads": 1, "seed": 0, "save_weights": True},
            "limits": {"wall_seconds": 30, "memory_bytes": 256 << 20, "required_bytes": 1 << 20},
        }

    def seal(self, payload: object, key: Ed25519PrivateKey | None = None) -> dict[str, Any]:
        raw = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        signature = (key or self.key).sign(raw)
        return {
            "payload": base64.b64encode(raw).decode(),
            "key_id": self.key_id,
            "signature": base64.b64encode(signature).decode(),
        }

    def give(self, envelope: dict[str, Any]) -> None:
        with self.lock:
            self.waiting.append(envelope)
            self.lock.notify_all()

    def wait_for(self, condition: Callable[[], object], what: str, seconds: float = 10) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
            time.sleep(0.01)

    # Serving.

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.received.append(f"{handler.requestline}\n{handler.headers}".encode() + body)
        found = route_of(handler.command, handler.path)
        if found is None:
            return self.send(handler, problem(404, f"no route {handler.command} {handler.path}"))
        route, argument = found
        with self.lock:
            self.counts[route] += 1
            request = Request(route, argument, handler.headers, body, self.counts[route])
        fault = self.faults.get(route)
        answer = fault(request) if fault else None
        self.send(handler, answer or self.answer(request))

    def send(self, handler: BaseHTTPRequestHandler, answer: Answer) -> None:
        handler.send_response(answer.status)
        for name, value in answer.headers.items():
            handler.send_header(name, value)
        if answer.status != 204:
            handler.send_header("Content-Length", str(len(answer.body) if answer.length is None else answer.length))
        handler.end_headers()
        content = answer.body if answer.cut is None else answer.body[: answer.cut]
        handler.wfile.write(content)
        if answer.stall is not None:
            handler.wfile.flush()
            answer.stall.wait(20)
        if answer.cut is not None or answer.length is not None:
            handler.close_connection = True

    def answer(self, request: Request) -> Answer:
        if request.route not in ("enroll", "healthz", "session", "trust"):
            token = (request.headers.get("Authorization") or "").removeprefix("Bearer ")
            if token not in self.sessions:
                return problem(401, "the session is unknown or has ended", 1023)
        answer: Answer = getattr(self, "answer_" + request.route)(request)
        return answer

    def answer_enroll(self, request: Request) -> Answer:
        if request.json["token"] not in self.tokens:
            return problem(401, "the enrolment token is unknown, used or expired; make a new one", 1001)
        self.tokens.remove(request.json["token"])
        device = str(uuid.uuid4())
        self.devices[device] = {**request.json, "counter": 0}
        return as_json(
            {
                "device_id": device,
                "server_public_key": public_text(self.key),
                "key_id": self.key_id,
                "heartbeat_seconds": 0.1,
                "poll_seconds": 25,
                **({"trust": self.chain[-1]} if self.chain else {}),
            },
            201,
        )

    def answer_session(self, request: Request) -> Answer:
        body = request.json
        device = self.devices.get(body["device_id"])
        if device is None:
            return problem(401, "the device was revoked", 1020)
        message = f"pock-session\n{body['device_id']}\n{body['counter']}\n{body['issued_at']}".encode()
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(device["public_key"]))
        try:
            key.verify(base64.b64decode(body["signature"]), message)
        except InvalidSignature:
            return problem(401, "the signature is wrong", 1018)
        if device.get("quarantined") or body["counter"] <= device["counter"]:
            device["quarantined"] = True  # for good, as in the service: the heartbeat may have been the one refused
            return problem(409, "the session counter went back", 1019)
        device["counter"] = body["counter"]
        token = f"ps_{len(self.sessions)}_{uuid.uuid4().hex}"
        self.sessions[token] = body["device_id"]
        return as_json({"session_token": token, "expires_at": rfc3339(time.time() + 3600), "heartbeat_seconds": 0.1})

    def answer_heartbeat(self, request: Request) -> Answer:
        self.heartbeats.append(request.json)
        wants = request.json.get("data", "") != (self.listings[-1]["digest"] if self.listings else "")
        return as_json({"heartbeat_seconds": 0.1, "cancel": sorted(self.cancelled), "wants_data": wants})

    def answer_datasets(self, request: Request) -> Answer:
        self.listings.append(request.json)
        return Answer(204)

    def answer_work(self, request: Request) -> Answer:
        with self.lock:
            self.lock.wait_for(lambda: bool(self.waiting), min(float(request.argument), 1.0))
            answer = as_json(self.waiting.pop(0)) if self.waiting else Answer(204)
        if self.chain:
            answer.headers["Pock-Trust-Version"] = str(self.announced or len(self.chain))
        return answer

    def answer_trust(self, request: Request) -> Answer:
        version = int(request.argument)
        return as_json(self.chain[version - 1]) if version <= len(self.chain) else problem(404, "no such version", 1005)

    def answer_introduction(self, request: Request) -> Answer:
        if not self.chain:
            return problem(404, "no such address", 1005)
        device = self.sessions[(request.headers.get("Authorization") or "").removeprefix("Bearer ")]
        return as_json(introduce(self.chain[-1], device, self.key_id, self.key))

    def answer_lease(self, request: Request) -> Answer:
        return as_json({"expires_at": rfc3339(time.time() + 300), "cancel": False})

    def answer_blob(self, request: Request) -> Answer:
        content = self.blobs.get(request.argument)
        if content is None:
            return problem(404, "no such blob", 1005)
        start = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").removesuffix("-"))
        if start >= len(content) > 0:
            return problem(416, "no such range", 1022)
        self.bytes_sent += len(content) - start
        if start == 0:
            return Answer(200, content)
        return Answer(206, content[start:], {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"})

    def answer_events(self, request: Request) -> Answer:
        body, seen = request.json, self.events[request.argument]
        with self.lock:
            assert body["first_seq"] <= len(seen), "a gap in the sequence numbers"
            seen.extend(body["events"][len(seen) - body["first_seq"] :])
        return as_json({"next_seq": len(seen)})

    def answer_upload(self, request: Request) -> Answer:
        if hashlib.sha256(request.body).hexdigest() != request.argument:
            return problem(460, "the digest does not match", 1011)
        known = request.argument in self.uploads
        self.uploads[request.argument] = request.body
        return as_json({}, 200 if known else 201)

    def answer_result(self, request: Request) -> Answer:
        self.results[request.argument].append(request.json)
        return as_json({})


def route_of(method: str, path: str) -> tuple[str, str] | None:
    """The name of a route and what its path carries."""
    for expected, pattern, route in ROUTES:
        match = re.fullmatch(pattern, path)
        if match and method == expected:
            return route, (match.groups() or ("",))[0]
    return None


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half in base64 of its 32 bytes."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()


def key_id_of(key: Ed25519PrivateKey) -> str:
    """The id that the service gives a key."""
    return hashlib.sha256(base64.b64decode(public_text(key))).hexdigest()[:16]


def trust_text(
    version: int, roots: Sequence[Ed25519PrivateKey], signing: Sequence[Ed25519PrivateKey]
) -> dict[str, Any]:
    """What a proper trust document says; tests change what they want to change."""
    now = time.time()
    return {
        "type": "pock-trust",
        "format": 1,
        "version": version,
        "issued_at": rfc3339(now),
        "expires_at": rfc3339(now + 3600),
        "root": {"keys": [public_text(key) for key in roots], "threshold": 1},
        "signing": {"keys": [public_text(key) for key in signing]},
    }


def sign_trust(text: object, signers: Sequence[Ed25519PrivateKey]) -> dict[str, Any]:
    """The document with these signatures."""
    raw = text if isinstance(text, bytes) else json.dumps(text).encode()
    signed = {key_id_of(key): base64.b64encode(key.sign(b"pock-trust\n" + raw)).decode() for key in signers}
    signatures = [{"key_id": key_id, "signature": text} for key_id, text in signed.items()]
    return {"payload": base64.b64encode(raw).decode(), "signatures": signatures}


def introduce(document: dict[str, Any], device: str, key_id: str, key: Ed25519PrivateKey) -> dict[str, Any]:
    """The document, vouched for by a signing key."""
    digest = hashlib.sha256(base64.b64decode(document["payload"])).hexdigest()
    signature = key.sign(f"pock-trust-introduction\n{device}\n{digest}".encode())
    return {"document": document, "key_id": key_id, "signature": base64.b64encode(signature).decode()}


def rfc3339(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
