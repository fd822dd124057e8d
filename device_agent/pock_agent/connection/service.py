"""The agents' part of the service interface (`docs/reference/api.md`), one method a call, and the signed session."""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_agent import __version__
from pock_agent.connection.transport import MAX_ANSWER_BYTES, HttpClient, Response, retry_after
from pock_agent.disk.counters import Counters
from pock_agent.disk.identity import Identity
from pock_agent.errors import Answer, NotWelcome, ServiceError, Unreachable
from pock_agent.settings import Settings
from pock_agent.values import JsonObject, parse_time

USER_AGENT = f"pock-agent/{__version__}"
T = TypeVar("T")


@dataclass(frozen=True)
class LeaseAnswer:
    """`valid_seconds` from the moment of the request, free of this device's clock; None when the answer had no Date."""

    valid_seconds: float | None
    cancel: bool


@dataclass(frozen=True)
class Work:
    """A signed envelope, and the id by which the service's logs name the request that asked for it."""

    envelope: JsonObject
    request_id: str | None


@dataclass(frozen=True)
class Polled:
    """Work, or None with the pause that the service asks for; the newest trust document that it told of, or 0."""

    work: Work | None
    pause: float | None
    newest_trust: int


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Seconds until the next heartbeat, and the runs to stop."""

    heartbeat_seconds: float
    cancel: tuple[str, ...]


def enroll(
    client: HttpClient, settings: Settings, token: str, name: str, public_key: str, facts: JsonObject
) -> JsonObject:
    """`POST /enroll`: trade the one-time token for a device id and the service's key."""
    body = {"token": token, "name": name, "public_key": public_key, "facts": facts}
    return client.request(
        "POST", "/v1/enroll", body=_encode(body), headers=_JSON, timeout=settings.request_timeout_seconds
    ).json()


class Service:
    """Calls in the name of one enrolled device. Safe to use from several threads.

    `request_id` is sent with every call that is about the job in hand, so that one search finds it in everyone's logs.
    """

    def __init__(self, identity: Identity, key: Ed25519PrivateKey, counters: Counters, settings: Settings) -> None:
        self._client = HttpClient(identity.url, USER_AGENT)
        self._identity, self._key, self._counters, self._settings = identity, key, counters, settings
        self._lock = threading.Lock()
        self._token: str | None = None
        self.request_id: str | None = None
        self._behind = 0.0  # seconds that the service's clock is ahead of ours, once it has refused ours

    def work(self, trust_version: int | None) -> Polled:
        """`GET /agent/work`, with the version of the trust document that this device has."""
        wait = min(self._settings.poll_seconds, self._identity.poll_seconds)
        timeout = wait + self._settings.request_timeout_seconds
        self.request_id = None  # whatever was in hand is over
        trust = "" if trust_version is None else f"&trust={trust_version}"
        answer = self._call("GET", f"/v1/agent/work?wait={wait:g}{trust}", timeout=timeout)
        newest = _version(answer.headers.get(_TRUST_VERSION))
        if answer.status == 204:
            return Polled(None, retry_after(answer.headers.get("Retry-After")), newest)
        return Polled(Work(answer.json(), _harmless(answer.headers.get(_REQUEST_ID))), None, newest)

    def trust_document(self, version: int) -> JsonObject:
        """`GET /trust/{version}`, which needs no session."""
        timeout = self._settings.request_timeout_seconds
        return self._client.request("GET", f"/v1/trust/{version}", timeout=timeout, limit=_MAX_TRUST_BYTES).json()

    def introduction(self) -> JsonObject:
        """`GET /agent/trust`: the newest document, and the signature of the key that this device pinned."""
        return self._call("GET", "/v1/agent/trust", limit=_MAX_TRUST_BYTES).json()

    def heartbeat(self, state: str, run_id: str | None, fence: int | None, facts: JsonObject | None) -> HeartbeatAnswer:
        """`POST /agent/heartbeat`."""
        body: JsonObject = {"state": state}
        if run_id is not None:
            body.update(run_id=run_id, fence=fence)
        if facts is not None:
            body["facts"] = facts
        answer = self._call("POST", "/v1/agent/heartbeat", body=_encode(body), headers=_JSON).json()
        seconds, cancel = answer.get("heartbeat_seconds"), answer.get("cancel")
        return HeartbeatAnswer(
            float(seconds) if isinstance(seconds, (int, float)) else self._identity.heartbeat_seconds,
            tuple(str(run) for run in cancel) if isinstance(cancel, list) else (),
        )

    def renew_lease(self, run_id: str, fence: int) -> LeaseAnswer:
        """`POST /agent/runs/{id}/lease`; 409 when the lease is lost."""
        answer = self._call("POST", f"/v1/agent/runs/{run_id}/lease", body=_encode({"fence": fence}), headers=_JSON)
        body = answer.json()
        expires = _moment(body.get("expires_at"))
        valid = None if expires is None or answer.date is None else expires - answer.date
        return LeaseAnswer(valid, body.get("cancel") is True)

    def send_events(self, run_id: str, fence: int, first_seq: int, events: Sequence[JsonObject]) -> int:
        """`POST /agent/runs/{id}/events`; the next sequence number that the service expects."""
        body = {"fence": fence, "first_seq": first_seq, "events": list(events)}
        answer = self._call("POST", f"/v1/agent/runs/{run_id}/events", body=_encode(body), headers=_JSON).json()
        following = answer.get("next_seq")
        if not isinstance(following, int) or following < 0:
            raise Unreachable(f"the service answered next_seq {following!r} where a number from 0 was expected")
        return following

    def upload(self, digest: str, path: Path) -> None:
        """`PUT /agent/blobs/sha256/{digest}`: the file's raw bytes."""
        size = path.stat().st_size
        headers = {"Content-Length": str(size), "Content-Type": "application/octet-stream"}
        timeout = self._settings.request_timeout_seconds

        def send(token: str) -> Response:
            with path.open("rb") as file:
                return self._request(token, "PUT", f"/v1/agent/blobs/sha256/{digest}", file, headers, timeout)

        self._with_session(send)

    def decline(self, run_id: str, fence: int, reason: str) -> None:
        """`POST /agent/runs/{id}/decline`: the run waits again, and this attempt does not count."""
        self._call(
            "POST", f"/v1/agent/runs/{run_id}/decline", body=_encode({"fence": fence, "reason": reason}), headers=_JSON
        )

    def send_result(self, run_id: str, body: JsonObject) -> None:
        """`POST /agent/runs/{id}/result`; repeating it is harmless."""
        self._call("POST", f"/v1/agent/runs/{run_id}/result", body=_encode(body), headers=_JSON)

    def download(self, digest: str, headers: Mapping[str, str], receive: Callable[..., T]) -> T:
        """`GET /agent/blobs/sha256/{digest}`; `receive` gets the unread answer, whatever its status but 401."""

        def fetch(token: str) -> T:
            path = f"/v1/agent/blobs/sha256/{digest}"
            everything = self._about(token, headers)
            timeout = self._settings.request_timeout_seconds
            with self._client.stream("GET", path, headers=everything, timeout=timeout) as answer:
                if answer.status == 401:
                    raise ServiceError(401, "the session ended")
                return receive(answer)

        return self._with_session(fetch)

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        limit: int = MAX_ANSWER_BYTES,
    ) -> Response:
        seconds = timeout or self._settings.request_timeout_seconds
        return self._with_session(lambda token: self._request(token, method, path, body, headers or {}, seconds, limit))

    def _request(
        self,
        token: str,
        method: str,
        path: str,
        body: bytes | IO[bytes] | None,
        headers: Mapping[str, str],
        timeout: float,
        limit: int = MAX_ANSWER_BYTES,
    ) -> Response:
        everything = self._about(token, headers)
        return self._client.request(method, path, body=body, headers=everything, timeout=timeout, limit=limit)

    def _about(self, token: str, headers: Mapping[str, str]) -> dict[str, str]:
        known = {} if self.request_id is None else {_REQUEST_ID: self.request_id}
        return {**headers, **known, "Authorization": f"Bearer {token}"}

    def _with_session(self, act: Callable[[str], T]) -> T:
        """Run `act` with a session token, with a new one when the service no longer knows the first."""
        token = self._session(stale=None)
        try:
            return act(token)
        except ServiceError as error:
            if error.status != 401:
                raise
        return act(self._session(stale=token))

    def _session(self, stale: str | None) -> str:
        with self._lock:
            if self._token is None or self._token == stale:
                self._token = self._open_session()
            return self._token

    def _open_session(self) -> str:
        """A new session's token. Where the service finds this device's clock wrong, its own is used from then on."""
        device = self._identity.device_id
        try:
            return self._ask_for_session(device)
        except ServiceError as error:
            if error.failure_code != Answer.SESSION_STALE or error.date is None:
                raise _session_refused(error, device) from error
            off = error.date - time.time()
            self._behind = off if abs(off) > _DATE_SECONDS else 0.0
        try:
            return self._ask_for_session(device)
        except ServiceError as error:
            raise _session_refused(error, device) from error

    def _ask_for_session(self, device: str) -> str:
        counter = self._counters.next_session()
        # To the microsecond: of two agents with one key, which is what the service looks for, no two sign alike.
        issued_at = datetime.fromtimestamp(time.time() + self._behind, timezone.utc).isoformat()
        signature = self._key.sign(f"pock-session\n{device}\n{counter}\n{issued_at}".encode())
        body = {
            "device_id": device,
            "counter": counter,
            "issued_at": issued_at,
            "signature": base64.b64encode(signature).decode(),
        }
        timeout = self._settings.request_timeout_seconds
        answer = self._client.request(
            "POST", "/v1/agent/session", body=_encode(body), headers=_JSON, timeout=timeout
        ).json()
        token = answer.get("session_token")
        if not isinstance(token, str):
            raise Unreachable("the service opened a session without a session_token")
        return token


_DATE_SECONDS = 2.0
"""What an answer's Date, which has whole seconds, says of the service's clock."""


def _session_refused(error: ServiceError, device: str) -> Exception:
    if error.failure_code == Answer.QUARANTINED:
        return NotWelcome(
            f"the service quarantined device {device}: {error.detail}. Another agent uses the same key, or an old "
            "copy of the state directory was restored; revoke the device and enrol again"
        )
    if error.expels:
        return NotWelcome(f"the service does not accept device {device}: {error.detail}; enrol it again")
    return error


_REQUEST_ID = "X-Request-Id"
_TRUST_VERSION = "Pock-Trust-Version"
_MAX_TRUST_BYTES = 128 * 1024
"""A trust document in base64, its signatures, and an introduction around it."""


def _version(text: str | None) -> int:
    """A version that the service told of; 0 for none, and for anything that is not one."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else 0


def _harmless(text: str | None) -> str | None:
    """The id, unless a log or a header could not hold it."""
    return text if text is not None and re.fullmatch(r"[A-Za-z0-9._:/+=@-]{1,128}", text, re.ASCII) else None


_JSON = {"Content-Type": "application/json"}


def _encode(value: JsonObject) -> bytes:
    return json.dumps(value, allow_nan=False).encode()


def _moment(text: object) -> float | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
