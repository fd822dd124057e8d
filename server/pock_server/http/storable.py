"""Refuses, at one place for all calls, what no database and no JSON text of another program can hold."""

import re
from typing import Any

from fastapi import Request
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from pock_server import json_texts
from pock_server.http.fields import check_scalar
from pock_server.http.problems import Failure, Problem

# A body without any of these has nothing to be refused: an escaped NUL, half of a character (escaped or not), bytes of
# UTF-16, an integer of so many digits. This search costs far less than the walk through all values that it saves.
_SUSPICIOUS = re.compile(rb"\\u0000|\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\x00|\d{19}")
_LONGEST_FOUND = 19


async def refuse_unstorable(request: Request) -> None:
    """A dependency of every call: a 422 `Problem` for NUL, half characters and integers beyond 64 bits, anywhere."""
    for where, values in (("path", request.path_params), ("query", request.query_params), ("header", request.headers)):
        for name, value in values.items():
            _check(f"{where}.{name}", value)
    route = request.scope.get("route")
    if isinstance(route, APIRoute) and route.body_field is not None:
        body = await request.body()
        if len(body) >= json_texts.LONG or _is_suspicious(body):
            await run_in_threadpool(_check_body, body)


def _is_suspicious(body: bytes) -> bool:
    """In parts, as a search keeps other threads waiting."""
    starts = range(0, len(body), json_texts.LONG)
    return any(_SUSPICIOUS.search(body, start, start + json_texts.LONG + _LONGEST_FOUND) for start in starts)


def _check_body(body: bytes) -> None:
    if not _is_suspicious(body):
        return
    try:
        pending: list[Any] = [json_texts.read(body)]
    except (ValueError, RecursionError):
        return  # the call's own reading of its body says what is wrong with it
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        else:
            _check("body", value)


def _check(where: str, value: Any) -> None:
    try:
        check_scalar(value)
    except ValueError as error:
        raise Problem(Failure.INVALID, f"{where}: {error}.") from None
