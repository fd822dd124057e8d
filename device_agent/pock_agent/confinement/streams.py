"""Reads what a program writes until it ends, line by line, at a pace that leaves the processor to the program."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

_LINE_LIMIT = 64 << 20  # a report with its samples is one line
_ERROR_TAIL = 4096
_CHUNK = 65536
_TICK = 0.2  # between two looks at the clock, the memory and the reasons to stop
_PACE = 0.02  # least time between two reads: the agent must not take the processor from what it measures


class Tail:
    """The last bytes of a stream."""

    def __init__(self) -> None:
        self._bytes = b""

    def feed(self, chunk: bytes) -> None:
        """Take what comes next."""
        self._bytes = (self._bytes + chunk)[-_ERROR_TAIL:]

    def text(self) -> str:
        """As text, without blanks around it."""
        return self._bytes.decode(errors="replace").strip()


@dataclass(frozen=True)
class Streams:
    """What becomes of a program's lines and errors. `look` is called several times a second; `kill` ends all that it
    started and may have left behind."""

    on_line: Callable[[bytes], None]
    errors: Tail
    look: Callable[[], None]
    kill: Callable[[], None]


def read_to_end(process: subprocess.Popen[bytes], streams: Streams) -> int:
    """Read stdout and stderr until both are closed and the program has ended; its exit code, negative for a signal."""
    lines = _Lines(streams.on_line)
    look_again_at = 0.0
    for stream, chunk in _chunks(process, streams.kill):
        if stream is process.stdout:
            lines.feed(chunk)
        elif stream is process.stderr:
            streams.errors.feed(chunk)
        if time.monotonic() >= look_again_at:
            look_again_at = time.monotonic() + _TICK
            streams.look()
    lines.finish()
    return process.wait()


def _chunks(process: subprocess.Popen[bytes], kill: Callable[[], None]) -> Iterator[tuple[IO[bytes] | None, bytes]]:
    """What a program writes, as it comes, and a beat without content at least every tick."""
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, stream)
        over = False
        while selector.get_map():
            busy, ready = False, selector.select(_TICK)
            if over and not ready:
                return  # what keeps the pipes open now has nothing to say for it
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                busy = busy or len(chunk) == _CHUNK
                if chunk:
                    yield key.data, chunk
                else:
                    selector.unregister(key.fileobj)
            yield None, b""
            time.sleep(0.0 if busy else _PACE)
            over = process.poll() is not None
            if over:
                kill()  # a grandchild that kept the pipes open must not keep the agent


class _Lines:
    """Cuts a byte stream into lines."""

    def __init__(self, on_line: Callable[[bytes], None]) -> None:
        self._on_line, self._rest = on_line, b""

    def feed(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > _LINE_LIMIT:
            self._rest = b""
        for line in lines:
            self._on_line(line)

    def finish(self) -> None:
        if self._rest:
            self._on_line(self._rest)
