"""The agents' part of the service interface (`docs/reference/api.md`), one method a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_agent import __version__
from pock_agent.connection.session import Session
from pock_agent.connection.transport import JSON_BODY, MAX_ANSWER_BYTES, HttpClient, Response, encode, retry_after
from pock_agent.disk.counters import Counters
from pock_agent.disk.identity import Identity
from pock_agent.errors import ServiceError, Unreachable
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
    """Work, or None with the pause that the service asks for; the newest trust document that it told of, or 0; whether
    it offers another version of the agent."""

    work: Work | None
    pause: float | None
    newest_trust: int
    offers_update: bool = False


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Seconds until the next heartbeat, the runs to stop, and the whole of it."""

    heartbeat_seconds: float
    cancel: tuple[str, ...]
    whole: JsonObject


def enroll(
    client: HttpClient, settings: Settings, token: str, name: str, public_key: str, facts: JsonObject
) -> JsonObject:
    """`POST /enroll`: trade the one-time token for a device id and the service's key."""
    body = {"token": token, "name": name, "public_key": public_key, "facts": facts}
    return client.request(
        "POST", "/v1/enroll", body=encode(body), headers=JSON_BODY, timeout=settings.request_timeout_seconds
    ).json()


class Service:
    """Calls in the name of one enrolled device. Safe to use from several threads.

    `request_id` is sent with every call that is about the job in hand, so that one search finds it in everyone's logs.
    """

    def __init__(self, identity: Identity, key: Ed25519PrivateKey, counters: Counters, settings: Settings) -> None:
        self._client = HttpClient(identity.url, USER_AGENT)
        self._identity, self._settings = identity, settings
        self._session = Session(self._client, identity.device_id, key, counters, settings.request_timeout_seconds)
        self.request_id: str | None = None

    def work(self, trust_version: int | None, update: str = "none") -> Polled:
        """`GET /agent/work`, with the version of the trust document that this device has, and the rollout whose offer
        it considered last."""
        wait = min(self._settings.poll_seconds, self._identity.poll_seconds)
        timeout = wait + self._settings.request_timeout_seconds
        self.request_id = None  # whatever was in hand is over
        trust = "" if trust_version is None else f"&trust={trust_version}"
        answer = self._call("GET", f"/v1/agent/work?wait={wait:g}{trust}&update={update}", timeout=timeout)
        newest = _version(answer.headers.get(_TRUST_VERSION))
        if answer.status == 204:
            pause, offers = retry_after(answer.headers.get("Retry-After")), _UPDATE in answer.headers
            return Polled(None, pause, newest, offers)
        return Polled(Work(answer.json(), _harmless(answer.headers.get(_REQUEST_ID))), None, newest)

    def update_offer(self) -> JsonObject | None:
        """`GET /agent/update`: the signed offer of another version of the agent, or None."""
        answer = self._call("GET", "/v1/agent/update", limit=_MAX_TRUST_BYTES)
        return None if answer.status == 204 else answer.json()

    def tell_update(self, body: JsonObject) -> None:
        """`POST /agent/update`: how it went; repeating it is harmless."""
        self._post("/v1/agent/update", body)

    def trust_document(self, version: int) -> JsonObject:
        """`GET /trust/{version}`, which needs no session."""
        timeout = self._settings.request_timeout_seconds
        return self._client.request("GET", f"/v1/trust/{version}", timeout=timeout, limit=_MAX_TRUST_BYTES).json()

    def introduction(self) -> JsonObject:
        """`GET /agent/trust`: the newest document, and the signature of the key that this device pinned."""
        return self._call("GET", "/v1/agent/trust", limit=_MAX_TRUST_BYTES).json()

    def heartbeat(
        self, run_id: str | None, fence: int | None, facts: JsonObject | None, said: JsonObject | None = None
    ) -> HeartbeatAnswer:
        """`POST /agent/heartbeat`: busy with this run, or idle; `said` is what topics have to say."""
        body: JsonObject = {**(said or {}), "state": "idle" if run_id is None else "busy"}
        if run_id is not None:
            body.update(run_id=run_id, fence=fence)
        if facts is not None:
            body["facts"] = facts
        answer = self._post("/v1/agent/heartbeat", body).json()
        seconds, cancel = answer.get("heartbeat_seconds"), answer.get("cancel")
        return HeartbeatAnswer(
            float(seconds) if isinstance(seconds, (int, float)) else self._identity.heartbeat_seconds,
            tuple(str(run) for run in cancel) if isinstance(cancel, list) else (),
            answer,
        )

    def tell_data(self, listing: list[JsonObject], digest: str) -> None:
        """`PUT /agent/datasets`: all data that stays on this device, in place of what was told before."""
        body = encode({"datasets": listing, "digest": digest})
        self._call("PUT", "/v1/agent/datasets", body=body, headers=JSON_BODY)

    def renew_lease(self, run_id: str, fence: int, paused: JsonObject | None = None) -> LeaseAnswer:
        """`POST /agent/runs/{id}/lease`; `paused` has the reason, and until when. 409 when the lease is lost."""
        answer = self._post(f"/v1/agent/runs/{run_id}/lease", {"fence": fence, "paused": paused})
        body = answer.json()
        expires = _moment(body.get("expires_at"))
        valid = None if expires is None or answer.date is None else expires - answer.date
        return LeaseAnswer(valid, body.get("cancel") is True)

    def send_events(self, run_id: str, fence: int, first_seq: int, events: Sequence[JsonObject]) -> int:
        """`POST /agent/runs/{id}/events`; the next sequence number that the service expects."""
        body = {"fence": fence, "first_seq": first_seq, "events": list(events)}
        answer = self._post(f"/v1/agent/runs/{run_id}/events", body).json()
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
        self._post(f"/v1/agent/runs/{run_id}/decline", {"fence": fence, "reason": reason})

    def send_result(self, run_id: str, body: JsonObject) -> None:
        """`POST /agent/runs/{id}/result`; repeating it is harmless."""
        self._post(f"/v1/agent/runs/{run_id}/result", body)

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

    def _post(self, path: str, value: JsonObject) -> Response:
        return self._call("POST", path, body=encode(value), headers=JSON_BODY)

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
        token = self._session.token(stale=None)
        try:
            return act(token)
        except ServiceError as error:
            if error.status != 401:
                raise
        return act(self._session.token(stale=token))


_REQUEST_ID = "X-Request-Id"
_TRUST_VERSION = "Pock-Trust-Version"
_UPDATE = "Pock-Update"
_MAX_TRUST_BYTES = 128 * 1024
"""A trust document in base64, its signatures, and an introduction around it."""


def _version(text: str | None) -> int:
    """A version that the service told of; 0 for none, and for anything that is not one."""
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,10}", text, re.ASCII) else 0


def _harmless(text: str | None) -> str | None:
    """The id, unless a log or a header could not hold it."""
    return text if text is not None and re.fullmatch(r"[A-Za-z0-9._:/+=@-]{1,128}", text, re.ASCII) else None


def _moment(text: object) -> float | None:
    try:
        return parse_time(text)
    except ValueError:
        return None
