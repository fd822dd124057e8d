"""Requests as values, and the address that they go to."""

from __future__ import annotations

import ipaddress
import platform
import re
import ssl
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import msgspec

from pock_client.credentials import Credentials
from pock_client.errors import PockClientError, Unreachable

Query = Mapping[str, str | int | None]
_SAFE = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_CONNECT_SECONDS = 10.0
_PART = re.compile(r"[A-Za-z0-9_.:-]{1,200}")


class PlainTextWarning(UserWarning):
    """The key goes over the network without TLS."""


@dataclass(frozen=True)
class Call:
    """One request below `/v1`.

    once      it has an Idempotency-Key, so that its repeats do nothing more
    settling  it brings something into a state, where repeats find it"""

    method: str
    path: str
    query: Query = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    once: bool = False
    settling: bool = False
    seconds: float | None = None
    """Longest silence of the service; None: the client's."""

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.once or self.settling or self.method in _SAFE

    def parameters(self) -> dict[str, str]:
        """The query's part that says something."""
        return {name: str(value) for name, value in self.query.items() if value is not None}


def sending(method: str, path: str, body: msgspec.Struct | None = None, once: bool = False) -> Call:
    """A request with a JSON body. `once`: repeats of it, which carry the same key, are answered and not done again."""
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if once:
        headers["Idempotency-Key"] = str(uuid4())
    content = msgspec.json.encode(body) if body is not None else None
    return Call(method, path, content=content, headers=headers, once=once)


def settling(path: str, ident: str, verb: str) -> Call:
    """A request that cancels, pauses or resumes a thing: the verb."""
    return Call("POST", f"{path}/{part(ident)}/{verb}", settling=True)


def part(text: str) -> str:
    """An id or digest as a part of a path. PockClientError if it cannot be one."""
    if not _PART.fullmatch(text) or not text.strip("."):
        raise PockClientError(f"{text!r} is no id")
    return text


@dataclass(frozen=True)
class Options:
    """How a client speaks to a service."""

    timeout: float
    """Longest silence of the service in seconds."""
    patience: float
    """Seconds from the first failure of a request to giving up."""
    ca_file: Path | None
    """Certificates of authorities to believe, instead of the system's."""

    def timeouts(self) -> httpx.Timeout:
        """As httpx has them."""
        return httpx.Timeout(self.timeout, connect=min(self.timeout, _CONNECT_SECONDS))

    def trust(self) -> ssl.SSLContext | bool:
        """Which certificates are believed."""
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=str(self.ca_file))
        except (OSError, ssl.SSLError) as error:
            raise PockClientError(f"{self.ca_file} has no certificates: {error}") from error


def headers(credentials: Credentials) -> dict[str, str]:
    """Of every request. Answers are asked for as they are: a compressed one could become very long."""
    return {
        "Authorization": f"Bearer {credentials.key}",
        "User-Agent": f"pock-client/{_version()} (python {platform.python_version()})",
        "Accept-Encoding": "identity",
    }


def is_here(url: str) -> bool:
    """Whether the address is of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def warn_of_plain_text(url: str) -> None:
    """Say once that the key travels readable, where it does."""
    if url.startswith("http://") and not is_here(url):
        warnings.warn(
            f"{url} is not https: whoever is on the way can read the key and change what is sent",
            PlainTextWarning,
            stacklevel=4,
        )


def unreachable(url: str, error: httpx.TransportError) -> Unreachable:
    """What an error of the connection means."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 10:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    certificate = next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None)
    if certificate is not None:
        return Unreachable(
            f"{url} shows a certificate that is not believed: {certificate.verify_message}", sent=False, may_pass=False
        )
    before = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
    words = "it stays silent" if isinstance(error, httpx.ReadTimeout) else str(error) or type(error).__name__
    return Unreachable(f"{url} does not answer: {words}", sent=not before)


def _version() -> str:
    try:
        return version("pock-client")
    except PackageNotFoundError:  # run from a checkout
        return "unknown"
