"""A keep-alive HTTP/1.1 connection with little overhead, so that the load generator is not what is measured."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import h11

_READ_BYTES = 1 << 16
_IDLE_SECONDS = 50.0
"""After a pause this long a connection is opened anew: the service ends idle ones after 60 seconds."""


class ConnectionLost(Exception):
    """The service closed the connection, or the answer did not come in time."""


@dataclass(frozen=True)
class Answer:
    """Status, headers (lower-case names) and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)


class Connection:
    """One connection to `host:port`, opened when it is first needed and again after it was lost."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._protocol: h11.Connection | None = None
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._used = 0.0

    async def request(
        self, method: str, path: str, *, token: str | None = None, body: Any = None, seconds: float = 60
    ) -> Answer:
        """Send a request and read its answer; raises `ConnectionLost`."""
        try:
            async with asyncio.timeout(seconds):
                return await self._request(method, path, token, body)
        except (OSError, TimeoutError, EOFError, h11.ProtocolError) as error:
            self.close()
            raise ConnectionLost(f"{method} {path}: {type(error).__name__} {error}") from error
        except asyncio.CancelledError:
            self.close()
            raise

    def close(self) -> None:
        """Drop the connection."""
        if self._writer is not None:
            self._writer.close()
        self._protocol = self._reader = self._writer = None

    async def _request(self, method: str, path: str, token: str | None, body: Any) -> Answer:
        if self._reader is not None and (self._reader.at_eof() or time.monotonic() - self._used > _IDLE_SECONDS):
            self.close()  # the service ended it between two requests, as it may, or is about to
        self._used = time.monotonic()
        if self._protocol is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
            self._protocol = h11.Connection(h11.CLIENT)
        headers = [("host", f"{self._host}:{self._port}")]
        if token is not None:
            headers.append(("authorization", f"Bearer {token}"))
        content = b"" if body is None else json.dumps(body).encode()
        if body is not None:
            headers += [("content-type", "application/json"), ("content-length", str(len(content)))]
        sent = self._protocol.send(h11.Request(method=method, target=path, headers=headers)) or b""
        if content:
            sent += self._protocol.send(h11.Data(data=content)) or b""
        sent += self._protocol.send(h11.EndOfMessage()) or b""
        self._writer.write(sent)
        await self._writer.drain()
        answer = await self._read()
        if self._protocol.our_state is h11.MUST_CLOSE or self._protocol.their_state is not h11.DONE:
            self.close()
        else:
            self._protocol.start_next_cycle()
        return answer

    async def _read(self) -> Answer:
        assert self._protocol is not None and self._reader is not None
        response: h11.Response | None = None
        chunks: list[bytes] = []
        while True:
            event = self._protocol.next_event()
            if event is h11.NEED_DATA:
                self._protocol.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                response = event
            elif isinstance(event, h11.Data):
                chunks.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                assert response is not None
                headers = {name.decode().lower(): value.decode() for name, value in response.headers}
                return Answer(response.status_code, headers, b"".join(chunks))
            elif isinstance(event, h11.ConnectionClosed):
                raise EOFError("closed")
