"""On whose behalf a transaction runs: what the audit log says about who did something, and from where."""

from dataclasses import dataclass
from enum import StrEnum

from starlette.requests import HTTPConnection

from pock_server.observing.context import request_id
from pock_server.printable import printable

_MAX_USER_AGENT = 300


class ActorKind(StrEnum):
    """How somebody came in."""

    API_KEY = "api_key"
    """A person or script with an API key."""
    SESSION = "session"
    """A person who signed in with a browser."""
    DEVICE = "device"
    """An agent, or a machine that wants to become one."""
    COMMAND_LINE = "command_line"
    """A person at a shell of the server."""
    SERVICE = "service"
    """Nobody: the service itself."""


@dataclass(frozen=True)
class Source:
    """Where a request came from."""

    address: str | None = None
    user_agent: str | None = None
    request_id: str | None = None


@dataclass(frozen=True)
class Actor:
    """Who acts. `name` is that of the member, else of the key, the device or the shell's user."""

    kind: ActorKind
    name: str
    member_id: str | None = None
    key_id: str | None = None
    session_id: str | None = None
    device_id: str | None = None
    source: Source = Source()


SERVICE = Actor(ActorKind.SERVICE, "service")


def source_of(connection: HTTPConnection) -> Source:
    """Where the request came from, as far as trusted proxies say; text that no database could store is escaped."""
    return Source(
        address=connection.client.host if connection.client else None,
        user_agent=_shown(connection.headers.get("User-Agent")),
        request_id=request_id(),
    )


def _shown(text: str | None) -> str | None:
    return None if text is None else printable(text)[:_MAX_USER_AGENT]
