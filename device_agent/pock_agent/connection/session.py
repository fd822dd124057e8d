"""The signed session of an enrolled device: opened with its key and a counter, renewed when the service forgets it."""

from __future__ import annotations

import base64
import threading
import time
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_agent.connection.transport import JSON_BODY, HttpClient, encode
from pock_agent.disk.counters import Counters
from pock_agent.errors import NotWelcome, ServiceCode, ServiceError, Unreachable

_DATE_SECONDS = 2.0
"""What an answer's Date, which has whole seconds, says of the service's clock."""


class Session:
    """One device's session, shared by all threads. `timeout` is that of a request, in seconds."""

    def __init__(
        self, client: HttpClient, device_id: str, key: Ed25519PrivateKey, counters: Counters, timeout: float
    ) -> None:
        self._client, self._device_id, self._key, self._counters = client, device_id, key, counters
        self._timeout = timeout
        self._lock = threading.Lock()
        self._token: str | None = None
        self._behind = 0.0  # seconds that the service's clock is ahead of ours, once it has refused ours

    def token(self, stale: str | None) -> str:
        """The token of the open session, and of a new one when `stale` is what the service no longer knows."""
        with self._lock:
            if self._token is None or self._token == stale:
                self._token = self._open()
            return self._token

    def _open(self) -> str:
        """A new session's token. Where the service finds this device's clock wrong, its own is used from then on."""
        try:
            return self._ask()
        except ServiceError as error:
            if error.failure_code != ServiceCode.SESSION_STALE or error.date is None:
                raise _refused(error, self._device_id) from error
            off = error.date - time.time()
            self._behind = off if abs(off) > _DATE_SECONDS else 0.0
        try:
            return self._ask()
        except ServiceError as error:
            raise _refused(error, self._device_id) from error

    def _ask(self) -> str:
        counter = self._counters.next_session()
        # To the microsecond: of two agents with one key, which is what the service looks for, no two sign alike.
        issued_at = datetime.fromtimestamp(time.time() + self._behind, timezone.utc).isoformat()
        signature = self._key.sign(f"pock-session\n{self._device_id}\n{counter}\n{issued_at}".encode())
        body = {
            "device_id": self._device_id,
            "counter": counter,
            "issued_at": issued_at,
            "signature": base64.b64encode(signature).decode(),
        }
        answer = self._client.request(
            "POST", "/v1/agent/session", body=encode(body), headers=JSON_BODY, timeout=self._timeout
        ).json()
        token = answer.get("session_token")
        if not isinstance(token, str):
            raise Unreachable("the service opened a session without a session_token")
        return token


def _refused(error: ServiceError, device: str) -> Exception:
    if error.failure_code == ServiceCode.QUARANTINED:
        return NotWelcome(
            f"the service quarantined device {device}: {error.detail}. Another agent uses the same key, or an old "
            "copy of the state directory was restored; revoke the device and enrol again"
        )
    if error.expels:
        return NotWelcome(f"the service does not accept device {device}: {error.detail}; enrol it again")
    return error
