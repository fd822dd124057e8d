"""Which credential opens which address, and what may be sent through it."""

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


_STRANGERS = frozenset({"/v1/enroll", "/v1/agent/session"})
_STREAMS = (("PATCH", "/v1/uploads/"), ("PUT", "/v1/agent/blobs/"))


def way_of(method: str, path: str) -> Way:
    """The way of a request; `path` is decoded, as the router sees it."""
    if not path.startswith("/v1/") or path == "/v1/trust" or path.startswith("/v1/trust/"):
        return Way(Door.OPEN)
    if path in _STRANGERS:
        return Way(Door.STRANGER)
    streams = any(method == verb and path.startswith(prefix) for verb, prefix in _STREAMS)
    return Way(Door.DEVICE if path.startswith("/v1/agent/") else Door.KEY, streams)
