"""A connection to the service that is cut where a test says."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """Ends a connection after so many bytes of one direction; the last ones before the cut are passed on."""

    up: int | None = None
    """Bytes to the service."""
    down: int | None = None
    """Bytes from it."""


class Proxy:
    """Listens, and passes everything on to a port of this machine. `cuts` are for the next connections, in order."""

    def __init__(self, port: int) -> None:
        self._to = port
        self.cuts: list[Cut] = []
        self.connections = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in self._open:
            _shut(end)
        for thread in self._threads:
            thread.join(10)

    def _start(self, work: object, *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._open += [near, far]
                self.connections += 1
                self._start(self._pass, near, far, self.cuts.pop(0) if self.cuts else Cut())

    def _pass(self, near: socket.socket, far: socket.socket, cut: Cut) -> None:
        left = {near: cut.up, far: cut.down}
        other = {near: far, far: near}
        with near, far, contextlib.suppress(OSError, ValueError):
            while True:
                for end in select.select([near, far], [], [])[0]:
                    rest = left[end]
                    data = end.recv(65536 if rest is None else min(65536, max(rest, 1)))
                    if not data:
                        return
                    if rest is not None:
                        data, left[end] = data[:rest], rest - len(data)
                    other[end].sendall(data)
                    if rest is not None and rest <= len(data):
                        return


def _shut(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
