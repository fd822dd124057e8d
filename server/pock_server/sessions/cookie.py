"""The cookie of a browser session, and the proof that a request which carries it comes from our own page.

`SameSite=Strict` keeps other sites from using the cookie, but not other origins of the same site (another port, a
sibling domain); so a request that changes something must also say, in headers that a page cannot forge, that it comes
from us.
"""

from urllib.parse import urlsplit

from starlette.requests import HTTPConnection
from starlette.responses import Response

from pock_server.http.problems import Failure, Problem
from pock_server.settings import Settings

SECURE_NAME = "__Host-pock_session"
"""Browsers take a cookie of this name from https and this very host only, so no sibling domain can plant one."""
PLAIN_NAME = "pock_session"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def own_origin(connection: HTTPConnection, settings: Settings) -> str:
    """Scheme, host and port by which browsers know the service, e.g. `https://pock.example`."""
    if settings.public_url:
        parts = urlsplit(settings.public_url)
        return f"{parts.scheme}://{parts.netloc}".lower()
    return f"{connection.scope['scheme']}://{connection.headers.get('Host', '')}".lower()


def read(connection: HTTPConnection, settings: Settings) -> str | None:
    """What the browser's session cookie holds."""
    return connection.cookies.get(_name(_is_secure(connection, settings)))


def give(response: Response, connection: HTTPConnection, settings: Settings, token: str, seconds: int) -> None:
    """Have the browser keep the token for so long."""
    secure = _is_secure(connection, settings)
    response.set_cookie(_name(secure), token, seconds, path="/", secure=secure, httponly=True, samesite="strict")


def take(response: Response, connection: HTTPConnection, settings: Settings) -> None:
    """Have the browser forget the token."""
    secure = _is_secure(connection, settings)
    response.delete_cookie(_name(secure), path="/", secure=secure, httponly=True, samesite="strict")


def refuse_other_origins(connection: HTTPConnection, settings: Settings) -> None:
    """Raise a 403 `Problem` for a request that changes something and does not prove that our own page sent it.

    Browsers send `Sec-Fetch-Site` on https and loopback, and `Origin` with everything but GET and HEAD. Each must be
    right where it is, and one of them must be there: what sends neither is no browser of today.
    """
    if connection.scope["method"] in _SAFE:
        return
    site, origin = connection.headers.get("Sec-Fetch-Site"), connection.headers.get("Origin")
    ours = own_origin(connection, settings)
    if site in (None, "same-origin") and origin in (None, ours) and (site or origin):
        return
    detail = (
        f"A request with the session cookie must come from the service's own page at {ours}. Scripts send an API key; "
        "behind a proxy, set POCK_PUBLIC_URL to the address that browsers see."
    )
    raise Problem(Failure.ORIGIN_REFUSED, detail)


def _is_secure(connection: HTTPConnection, settings: Settings) -> bool:
    return own_origin(connection, settings).startswith("https:")


def _name(secure: bool) -> str:
    return SECURE_NAME if secure else PLAIN_NAME
