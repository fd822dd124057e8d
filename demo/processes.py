"""Starts the processes of the demo and ends them, whatever happens. Knows how they are started, not what they do."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

import httpx

STOP_SECONDS = 10

Process = subprocess.Popen[bytes]


class StartError(Exception):
    """A process ended or did not answer; the message holds the end of its log."""


def treat_sigterm_as_interrupt() -> None:
    """Let SIGTERM unwind the stack as Ctrl-C does, so that everything that was started is ended."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def program(name: str) -> str:
    """The command `name` of the same environment as this Python."""
    return str(Path(sys.executable).with_name(name))


@contextlib.contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[Process]:
    """`command` for the duration of the block, its output appended to `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C reaches only the demo, which then ends the others in order
        )
        try:
            yield process
        finally:
            stop(process)


def stop(process: Process) -> None:
    """Ask a process to end; kill its group when it does not within STOP_SECONDS."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until_ready(url: str, process: Process, log: Path, seconds: float = 60) -> None:
    """Return when `url` answers with success; StartError when the process ends first or time runs out."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise StartError(f"the service ended with exit code {process.returncode}:\n{tail(log)}")
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url, trust_env=False, timeout=5).is_success:
                return
        time.sleep(0.2)
    raise StartError(f"{url} did not answer within {seconds:.0f} s:\n{tail(log)}")


def tail(log: Path, lines: int = 20) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
