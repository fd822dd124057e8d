"""Which credential opens which address, and what may be sent through it."""

import re
from dataclasses import dataclass
from enum import Enum


class Door(Enum):
    """Who may call."""

    OPEN = "anybody: health, metrics, the document, trust documents, the dashboard's files"
    STRANGER = "anybody, with a small body that proves something itself: a token, a signature"
    KEY = "holders of an API key, and browsers that signed in with one"
    DEVICE = "devices with a session"


@dataclass(frozen=True)
class Way:
    """How a request is treated before its endpoint sees it."""

    door: Door
    streams: bool = False
    """The endpoint reads the body itself, part by part; others are read whole."""
    largest: int | None = None
    """Bytes of the largest body that can be valid here; None: only the setting is the limit."""


_STRANGERS = frozenset({"/v1/enroll", "/v1/agent/session"})
# While a short body is parsed, nobody else is served. So a call accepts no more than its largest valid body, all of it
# escaped; what devices measured is longer, and read as `http/long_bodies.py` says.
_LARGEST = 64 << 10
_LARGER = {
    "/v1/agent/heartbeat": 128 << 10,
    "/v1/models": 512 << 10,
    "/v1/builds": 1 << 20,
    "/v1/searches": 1 << 20,
    "/v1/recipes": 1 << 20,
    "/v1/tuning": 1 << 20,
}
_WHAT_DEVICES_MEASURED = re.compile(r"/v1/agent/runs/[^/]+/(events|result)")
_RECIPES = re.compile(r"/v1/models/[^/]+/(estimate|graph)")
_STREAMS = (("PATCH", "/v1/uploads/"), ("PUT", "/v1/agent/blobs/"))


def way_of(method: str, path: str) -> Way:
    """The way of a request; `path` is decoded, as the router sees it."""
    if not path.startswith("/v1/") or path == "/v1/trust" or path.startswith("/v1/trust/"):
        return Way(Door.OPEN)
    if path in _STRANGERS:
        return Way(Door.STRANGER)
    streams = any(method == verb and path.startswith(prefix) for verb, prefix in _STREAMS)
    largest = None if _WHAT_DEVICES_MEASURED.fullmatch(path) else _LARGER.get(path, _LARGEST)
    if _RECIPES.fullmatch(path):
        largest = _LARGER["/v1/recipes"]
    return Way(Door.DEVICE if path.startswith("/v1/agent/") else Door.KEY, streams, largest)
