"""Finds out who sends a request, and keeps those who guess from asking the database."""

import hashlib
import time
from collections import OrderedDict

from starlette.requests import HTTPConnection

from pock_server.auth.requests import authenticate
from pock_server.auth.service import Caller
from pock_server.devices.sessions import AgentCaller, authenticate_session
from pock_server.gate.doors import Door
from pock_server.services import Services

CALLER = "caller"
"""Where the request's state says who sends it."""

_REMEMBERED = 20_000
_REMEMBERED_SECONDS = 600.0


def bearer(request: HTTPConnection) -> str | None:
    """The credential in the `Authorization` header."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    return credential.strip() if kind.lower() == "bearer" else None


def identify(services: Services, door: Door, request: HTTPConnection) -> Caller | AgentCaller:
    """Who sends the request; a 401 `Problem` if nobody may send it so. Asks the database."""
    if door is Door.DEVICE:
        device = authenticate_session(services.database, bearer(request), services.clock.now())
        services.fleet.saw(device.device_id)
        return device
    return authenticate(services, request)


class GoodCredentials:
    """Fingerprints of credentials that were good a moment ago: a neighbour's guesses do not lock their holders out."""

    def __init__(self) -> None:
        self._until: OrderedDict[bytes, float] = OrderedDict()

    def __contains__(self, request: HTTPConnection) -> bool:
        return self._until.get(_fingerprint(request), 0.0) > time.monotonic()

    def add(self, request: HTTPConnection) -> None:
        """The request's credential is good."""
        fingerprint = _fingerprint(request)
        self._until[fingerprint] = time.monotonic() + _REMEMBERED_SECONDS
        self._until.move_to_end(fingerprint)
        if len(self._until) > _REMEMBERED:
            self._until.popitem(last=False)


def _fingerprint(request: HTTPConnection) -> bytes:
    """Of everything that a credential can be in; what says nothing at all is never remembered as good."""
    parts = (request.headers.get("Authorization", ""), request.headers.get("Cookie", ""))
    return hashlib.sha256("\0".join(parts).encode()).digest()
