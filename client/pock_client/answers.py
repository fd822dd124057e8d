"""Reads what a service answers, which may be anything: bounded, checked against the types, told in one sentence."""

from __future__ import annotations

import time
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
import msgspec

from pock_client.errors import Damaged, KeyRefused, ServiceError, shown
from pock_client.retry import TRANSIENT
from pock_client.schema import Problem

MOST_BYTES = 64 << 20
"""Of an answer that is read whole."""
MOST_SECONDS = 300.0
"""For an answer that is read whole to arrive."""
_MOST_PROBLEM_BYTES = 1 << 20
_MOST_RETRY_SECONDS = 86400.0

T = TypeVar("T")


class Body:
    """Collects the chunks of an answer that is read whole. Raises Damaged where it is too long or too slow."""

    def __init__(self, response: httpx.Response) -> None:
        self._limit = MOST_BYTES if response.is_success else _MOST_PROBLEM_BYTES
        self._ends = time.monotonic() + MOST_SECONDS
        self._data = bytearray()
        check_encoding(response)

    def add(self, chunk: bytes) -> None:
        """The next bytes."""
        self._data += chunk
        if len(self._data) > self._limit:
            raise Damaged(f"the service's answer is longer than {self._limit} bytes; it is not read any further")
        if time.monotonic() > self._ends:
            raise Damaged(f"the service's answer is not whole after {MOST_SECONDS:.0f} s; it is not read any further")

    def whole(self) -> bytes:
        """All of it."""
        return bytes(self._data)


def check_encoding(response: httpx.Response) -> None:
    """Damaged if the answer is compressed: nobody asked for that, and few bytes could become very many."""
    if response.headers.get("content-encoding", "identity").lower() != "identity":
        raise Damaged("the service's answer is compressed, which was not asked for")


def decode(data: bytes, kind: type[T]) -> T:
    """The JSON text as a value of the type. Raises Damaged if it is none."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Damaged(f"the service's answer is not what its interface says: {error}") from None


def refusal(response: httpx.Response, body: bytes) -> ServiceError:
    """The error that an answer with a status of 300 and above is."""
    problem = _problem(response, body)
    status = response.status_code
    request_id = response.headers.get("x-request-id")
    kind = KeyRefused if status == 401 else ServiceError
    return kind(
        status,
        problem.title if problem else f"HTTP status {status}",
        _sentence(problem) if problem else _without_problem(response),
        problem.failure_code if problem else None,
        retryable=status in TRANSIENT or (problem is not None and problem.retryable),
        request_id=shown(request_id) if request_id else None,
        retry_after=_retry_after(response),
    )


def _problem(response: httpx.Response, body: bytes) -> Problem | None:
    """The problem details (RFC 9457), if that is what came."""
    if "json" not in response.headers.get("content-type", ""):
        return None
    try:
        return msgspec.json.decode(body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _sentence(problem: Problem) -> str:
    """The problem's sentence, with the parts of the request that were wrong where it does not name them."""
    parts = [f"{one.where}: {one.message}" for one in problem.errors or () if one.message not in problem.detail]
    return "; ".join([problem.detail, *parts[:5]])


def _without_problem(response: httpx.Response) -> str:
    where = f"{response.request.method} {response.request.url.copy_with(query=None)}"
    if response.has_redirect_location:
        place = shown(response.headers["location"])
        return f"{where} is answered with a redirect to {place}, which is not followed: use the address of the service"
    return f"{where} is answered with status {response.status_code}: is this the address of a PockEngine service?"


def _retry_after(response: httpx.Response) -> float | None:
    """Seconds that `Retry-After` names, as a number or a date (RFC 9110, section 10.2.3)."""
    text = response.headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        seconds = float(text) if text.isascii() and text.isdigit() else _until(text, response)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(seconds, 0.0), _MOST_RETRY_SECONDS)


def _until(text: str, response: httpx.Response) -> float:
    now: Any = response.headers.get("date")
    moment = parsedate_to_datetime(text).timestamp()
    return moment - (parsedate_to_datetime(now).timestamp() if now else time.time())
