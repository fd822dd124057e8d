"""HTTP over the standard library: one request, one connection, no redirects, bounded answers.

Knows nothing of sessions or of what the calls mean; see `service`.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import IO
from urllib.parse import urlsplit

from pock_agent.errors import AgentError, ServiceError, Unreachable
from pock_agent.settings import MIB
from pock_agent.values import JsonObject

MAX_ANSWER_BYTES = 4 * MIB
MAX_RETRY_AFTER = 3600.0
JSON_BODY = {"Content-Type": "application/json"}
"""Headers of a request with a body that `encode` made."""


@dataclass(frozen=True)
class Response:
    """A complete answer with a 2xx status."""

    status: int
    headers: Message
    body: bytes

    def json(self) -> JsonObject:
        """The body as a JSON object; anything else is Unreachable, because it did not come from the service."""
        try:
            value = json.loads(self.body)
        except ValueError as error:
            raise Unreachable(
                f"the answer is not JSON ({error}); is that the address of a PockEngine service?"
            ) from error
        if not isinstance(value, dict):
            raise Unreachable("the answer is not a JSON object; is the address that of a PockEngine service?")
        return value

    @property
    def date(self) -> float | None:
        """The service's clock when it answered, in seconds since the epoch."""
        return http_date(self.headers.get("Date"))


class HttpClient:
    """Requests to one base address."""

    def __init__(self, url: str, user_agent: str) -> None:
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise AgentError(f"{url!r} is not an address of a service; give one like https://pock.example.org")
        self._host, self._tls = parts.hostname, parts.scheme == "https"
        try:
            self._port = parts.port
        except ValueError as error:
            raise AgentError(f"{url!r} has no valid port: {error}") from error
        self._base = parts.path.removesuffix("/v1")
        self._user_agent = user_agent
        self._context = ssl.create_default_context() if self._tls else None

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float,
    ) -> Iterator[http.client.HTTPResponse]:
        """Send one request and yield the answer unread, whatever its status. Network trouble is Unreachable."""
        connection = self._connect(timeout)
        try:
            connection.request(method, self._base + path, body, {"User-Agent": self._user_agent, **(headers or {})})
            yield connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"no answer from {self._host} to {method} {path}: {reason}") from error
        finally:
            connection.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: bytes | IO[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float,
        limit: int = MAX_ANSWER_BYTES,
    ) -> Response:
        """Send one request and read the whole answer, of at most `limit` bytes. An error status is a ServiceError."""
        with self.stream(method, path, body=body, headers=headers, timeout=timeout) as answer:
            content = answer.read(limit + 1)
        if len(content) > limit:
            raise Unreachable(f"the answer to {method} {path} is longer than {limit} bytes")
        raise_for_status(answer, content)
        return Response(answer.status, answer.headers, content)

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._context)
        return http.client.HTTPConnection(self._host, self._port, timeout=timeout)


def raise_for_status(answer: http.client.HTTPResponse, content: bytes) -> None:
    """Turn a status outside 2xx into a ServiceError that carries the problem's own words (RFC 9457)."""
    if 200 <= answer.status < 300:
        return
    detail, code = answer.reason or "no reason given", 0
    try:
        problem = json.loads(content)
        detail = str(problem.get("detail") or problem.get("title") or detail)
        code = int(problem.get("failure_code") or 0)
    except (ValueError, AttributeError, TypeError):
        pass  # a proxy's own page, not a problem document: the status says enough
    pause, date = retry_after(answer.headers.get("Retry-After")), http_date(answer.headers.get("Date"))
    raise ServiceError(answer.status, detail, code, pause, date)


def retry_after(text: str | None) -> float | None:
    """Seconds that a `Retry-After` header (a number or a date) asks for, at most an hour."""
    if text is None:
        return None
    if text.strip().isdigit():
        return min(float(text), MAX_RETRY_AFTER)
    moment = http_date(text)
    return None if moment is None else min(max(0.0, moment - time.time()), MAX_RETRY_AFTER)


def http_date(text: str | None) -> float | None:
    """An HTTP date in seconds since the epoch; None when absent or malformed."""
    if text is None:
        return None
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError):
        return None


def encode(value: JsonObject) -> bytes:
    """The body of a request in JSON; ValueError for NaN and infinities, which JSON lacks."""
    return json.dumps(value, allow_nan=False).encode()
