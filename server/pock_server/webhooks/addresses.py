"""Where messages may go: to public addresses and to networks that the operator names, and to no other.

A name is resolved once for each message, every address that it has is checked, and the connection goes to one of these:
a name that changes its mind leads nowhere else.
"""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

MAX_CHARACTERS = 2000
_HOST = re.compile(r"[A-Za-z0-9.\-]{1,253}")

Ip = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Forbidden(ValueError):
    """An address that nothing is sent to; the message is a sentence about why."""


@dataclass(frozen=True)
class Place:
    """A URL, read: `host` is a name or an address without brackets, `path` has the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        usual = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == usual else f"{host}:{self.port}"


def read(url: str, networks: Sequence[Network]) -> Place:
    """The parts of a URL; raises `Forbidden` for what is none, or is an address that nothing may be sent to."""
    try:
        found = urlsplit(url)
        host, port = found.hostname or "", found.port
    except ValueError:
        raise Forbidden("This is no address such as https://example.com/hook.") from None
    if found.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x20\x7f\\]", url) or port == 0:
        raise Forbidden("This is no address such as https://example.com/hook.")
    if found.username is not None or found.password is not None or found.fragment:
        raise Forbidden("The address must have no user, password or #fragment; put a token into its path.")
    literal = _literal(host)
    if literal is not None:
        _check(literal, networks)
    elif not _HOST.fullmatch(host) or not url.isascii():
        raise Forbidden("The host's name has characters that no host has; write an international name as xn--….")
    path = (found.path or "/") + (f"?{found.query}" if found.query else "")
    return Place(found.scheme, host, port or {"http": 80, "https": 443}[found.scheme], path)


def resolve(place: Place, networks: Sequence[Network]) -> str:
    """The address to connect to; raises `Forbidden` if any of the host's is private, and OSError if it has none."""
    literal = _literal(place.host)
    if literal is not None:
        found = [literal]
    else:
        told = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
        found = [ipaddress.ip_address(str(one[4][0]).split("%")[0]) for one in told]
    for address in found:
        _check(address, networks)
        if place.scheme == "http" and not _named(address, networks):
            raise Forbidden("Only https goes to public addresses: http shows what is sent to all on the way.")
    return str(found[0])


def _literal(host: str) -> Ip | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _check(address: Ip, networks: Sequence[Network]) -> None:
    if not _named(address, networks) and not all(one.is_global and not one.is_multicast for one in _meant(address)):
        raise Forbidden(f"{address} is not a public address; the operator may allow it with POCK_WEBHOOK_NETWORKS.")


def _named(address: Ip, networks: Sequence[Network]) -> bool:
    return any(all(one in network for one in _meant(address)) for network in networks)


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def _meant(address: Ip) -> tuple[Ip, ...]:
    """The address, or the ones of IPv4 that it stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    if address.ipv4_mapped is not None:
        return (address.ipv4_mapped,)
    if address in _NAT64:
        return (ipaddress.IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    return (address,)
