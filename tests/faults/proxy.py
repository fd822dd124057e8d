"""A TCP proxy between two parts of the service, which can be cut or stalled, and acts when certain bytes come by."""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass

_CHUNK = 1 << 16
_ABORT = struct.pack("ii", 1, 0)
"""SO_LINGER: a closed connection is reset, as by a host that is gone."""


@dataclass
class Trap:
    """What to do when the client's bytes have `pattern` for the `nth` time: before they go on, or, if `unanswered`,
    when the server has served them and its answer is lost. Bytes count only on a connection which had `after` before.
    """

    pattern: bytes
    act: Callable[[], None]
    nth: int = 1
    unanswered: bool = False
    after: bytes = b""


class Proxy:
    """Listens on `port`, and connects to whatever port `target` names at that moment."""

    def __init__(self, target: Callable[[], int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._cut = False
        self._flows = threading.Event()
        self._flows.set()
        self._trap: Trap | None = None
        self._open: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def set(self, trap: Trap) -> None:
        """Arm; a trap acts once."""
        self._trap = trap

    def cut(self) -> None:
        """Break all connections, and every new one."""
        with self._lock:
            self._cut = True
            self._break(*self._open)
        self._flows.set()

    def stall(self) -> None:
        """Swallow what comes; connections stay open, and new ones are taken."""
        self._flows.clear()

    def heal(self) -> None:
        """Let new connections through. Those that stalled are found dead, as after the time-outs of a real network."""
        if not self._flows.is_set():
            self.cut()
        self._cut = False

    def close(self) -> None:
        """End."""
        self.cut()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        try:
            if self._cut:
                raise ConnectionError
            server = socket.create_connection(("127.0.0.1", self._target()))
        except OSError:
            self._break(client)
            client.close()
            return
        with self._lock:
            self._open |= {client, server}
            if self._cut:
                self._break(client, server)
        deaf = threading.Event()
        answers = threading.Thread(target=self._answer, args=(server, client, deaf), daemon=True)
        answers.start()
        self._ask(client, server, deaf)
        answers.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _ask(self, client: socket.socket, server: socket.socket, deaf: threading.Event) -> None:
        begun: Trap | None = None
        with contextlib.suppress(OSError):
            while data := client.recv(_CHUNK):
                if self._trap is not None and self._trap.after in data:
                    begun = self._trap
                trap = self._sprung(data, begun)
                if trap is not None and trap.unanswered:
                    deaf.set()
                elif trap is not None:
                    trap.act()
                self._flows.wait()
                server.sendall(data)
                if trap is not None and trap.unanswered:
                    return self._finish(trap, client, server)
            server.shutdown(socket.SHUT_WR)
            return None
        self._break(client, server)
        return None

    def _finish(self, trap: Trap, client: socket.socket, server: socket.socket) -> None:
        """Wait for the answer, which `_answer` leaves there; nobody gets it."""
        server.recv(1, socket.MSG_PEEK)
        trap.act()
        self._break(client, server)

    def _answer(self, server: socket.socket, client: socket.socket, deaf: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while server.recv(1, socket.MSG_PEEK) and not deaf.is_set():
                self._flows.wait()
                client.sendall(server.recv(_CHUNK))
            if not deaf.is_set():
                client.shutdown(socket.SHUT_WR)

    def _sprung(self, data: bytes, begun: Trap | None) -> Trap | None:
        with self._lock:
            trap = self._trap
            if trap is None or trap is not begun or trap.pattern not in data:
                return None
            trap.nth -= 1
            if trap.nth:
                return None
            self._trap = None
            return trap

    def _break(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
                one.shutdown(socket.SHUT_RDWR)
