"""What a connection may cost before anybody knows who is behind it: how many there are, how long they may take.

`protocol.py` asks; the numbers are the operator's. Knows nothing of requests.
"""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

TICK_SECONDS = 0.5
"""Time between two looks at all connections."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Numbers of one process; `trusted` are the networks of the proxies in front of it."""

    connections: int
    per_address: int
    header_bytes: int
    header_seconds: float
    slow_seconds: float
    bytes_per_second: float
    trusted: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = ()

    def allowed_seconds(self, size: int) -> float:
        """How long `size` bytes may take on their way in or out."""
        return self.slow_seconds + size / self.bytes_per_second


def networks(text: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    """Addresses and networks in a list with commas; raises ValueError for anything else."""
    return tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())


@lru_cache(maxsize=4096)
def origin(host: str) -> str:
    """Whom an address stands for: itself, or its /64 with IPv6, of which one customer has all addresses."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.IPv6Network((int(address), 64), strict=False))
    return host


class Watched(Protocol):
    """A connection that is looked at now and then."""

    def look(self, now: float) -> None:
        """End what takes too long; `now` is the event loop's time in seconds."""


Refused = Callable[[int, str | None], None]
"""Told the failure code of a connection that was refused, and the address it came from."""


class Guard:
    """The connections of one event loop."""

    def __init__(self, limits: ConnectionLimits, refused: Refused = lambda code, host: None) -> None:
        self.limits = limits
        self.refused = refused
        self._open: dict[Watched, str | None] = {}
        self._of_address: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, connection: Watched, host: str | None) -> bool:
        """Whether one more connection from `host` may stay; `leave` must follow if so."""
        source = None if host is None or self._is_trusted(host) else origin(host)
        if len(self._open) >= self.limits.connections:
            return False
        if source is not None and self._of_address[source] >= self.limits.per_address:
            return False
        self._open[connection] = source
        if source is not None:
            self._of_address[source] += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)
        return True

    def leave(self, connection: Watched) -> None:
        """Forget a connection that has ended; harmless for one that was not admitted."""
        source = self._open.pop(connection, None)
        if source is not None:
            self._of_address[source] -= 1
            if not self._of_address[source]:
                del self._of_address[source]

    def _is_trusted(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        return any(address in network for network in self.limits.trusted)

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        for connection in tuple(self._open):
            connection.look(loop.time())
        self._timer = loop.call_later(TICK_SECONDS, self._tick) if self._open else None
