"""One message over HTTP: to the address that was resolved, without redirects, in bounded time; answers are not read."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from functools import lru_cache

import httpx

from pock_server import __version__
from pock_server.webhooks.addresses import Forbidden, Network, read, resolve

SECONDS = 15.0
"""Of a whole message, from the name's resolution to the answer's head."""


_TIMEOUTS = dict.fromkeys(("connect", "read", "write", "pool"), SECONDS)


class Unsent(Exception):
    """Nobody has answered; the message says why."""


async def send(url: str, headers: Mapping[str, str], body: bytes, networks: Sequence[Network]) -> int:
    """The status of the answer; raises `Unsent`."""
    try:
        async with asyncio.timeout(SECONDS):
            return await _send(url, headers, body, networks)
    except TimeoutError:
        raise Unsent(f"It did not answer within {SECONDS:.0f} s.") from None
    except Forbidden as error:
        raise Unsent(str(error)) from None
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise Unsent(f"It cannot be reached: {str(error)[:200] or type(error).__name__}") from None


async def _send(url: str, headers: Mapping[str, str], body: bytes, networks: Sequence[Network]) -> int:
    place = await asyncio.to_thread(read, url, networks)
    address = await asyncio.to_thread(resolve, place, networks)
    to = f"[{address}]" if ":" in address else address
    sent = {"Host": place.authority, "Content-Type": "application/json", "User-Agent": f"pock-server/{__version__}"}
    transport = httpx.AsyncHTTPTransport(verify=_certificates(), trust_env=False)
    async with transport:
        request = httpx.Request(
            "POST",
            f"{place.scheme}://{to}:{place.port}{place.path}",
            headers={**sent, **headers},
            content=body,
            extensions={"sni_hostname": place.host, "timeout": _TIMEOUTS},
        )
        response = await transport.handle_async_request(request)
        await response.aclose()
        return response.status_code


@lru_cache(maxsize=1)
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()
