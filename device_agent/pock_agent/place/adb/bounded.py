"""Runs a program that may hang, or say more than anyone wants to hear: both are bounded."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_CHUNK = 1 << 16
_TICK = 0.1
_ERRORS = 4096
"""Bytes of stderr that are kept, the last ones."""


class Unbounded(Exception):
    """The program was ended, because it took too long or said too much; the message says which."""


@dataclass(frozen=True)
class Ended:
    """How it ended by itself."""

    returncode: int
    errors: str


def run(command: Sequence[str], seconds: float, limit: int, take: Callable[[bytes], None]) -> Ended:
    """Run a program without input and hand its output on, at most `limit` bytes in at most `seconds`.

    Raises Unbounded beyond either, OSError where it cannot be started, and what `take` raises.
    """
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        errors = _read(process, time.monotonic() + seconds, limit, take)
        return Ended(process.wait(_TICK), errors.decode(errors="replace").strip())
    except (TimeoutError, subprocess.TimeoutExpired):
        raise Unbounded(f"it did not answer within {seconds:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _read(process: subprocess.Popen[bytes], deadline: float, limit: int, take: Callable[[bytes], None]) -> bytes:
    """Its last errors. Ends with the program, even where something that it started keeps its output open."""
    errors, left = b"", limit
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            if time.monotonic() > deadline:
                raise TimeoutError
            over = process.poll() is not None
            ready = selector.select(0 if over else _TICK)
            if over and not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if not chunk:
                    selector.unregister(key.fileobj)
                elif key.fileobj is process.stderr:
                    errors = (errors + chunk)[-_ERRORS:]
                else:
                    left -= len(chunk)
                    if left < 0:
                        raise Unbounded(f"it said more than {limit} bytes")
                    take(chunk)
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.005)
    return errors
