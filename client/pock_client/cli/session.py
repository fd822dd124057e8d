"""The connection of one command."""

from __future__ import annotations

from .. import Client

_ANSWER_SECONDS = 10.0
_WAIT_SECONDS = 300.0


def connected(profile: str | None) -> Client:
    """A client of the service that was signed in to under this profile. A service that is away is soon said to be."""
    return Client(profile=profile, patience=_ANSWER_SECONDS)


def patient(profile: str | None) -> Client:
    """The same for who waits anyway: it outlasts a restart of the service."""
    return Client(profile=profile, patience=_WAIT_SECONDS)
