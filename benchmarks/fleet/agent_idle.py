"""What an agent that waits for work costs its device: memory, processor, bytes on the wire, and how fast it is there.

    python -m benchmarks.fleet.agent_idle [--seconds 120] [--json FILE] [--one-file .cache/agent/pock-agent.pyz]

Starts the service and one agent on this machine. Bytes are those of HTTP on a plain connection, both ways; TLS adds a
handshake to each connection (about 5 kB), of which an idle agent makes one for each poll and each heartbeat.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from demo.processes import free_port, running
from demo.service import Address, serving
from pock_client import Client

TLS_HANDSHAKE_BYTES = 5000


@dataclass(frozen=True)
class Idle:
    """cold_start_ms      from the start of the process to its first call about itself (its session)
    resident_bytes     the most that was resident, and what of it is the process's own
    core_percent       of one core, over the whole time after the start
    bytes_per_second   both ways, over the same time; `with_tls` with a handshake for each connection
    connections        that were made in that time"""

    cold_start_ms: float
    resident_bytes: int
    own_bytes: int
    core_percent: float
    bytes_per_second: float
    bytes_per_second_with_tls: float
    connections: int
    seconds: float


class Counted:
    """A way to the service that counts what goes through it."""

    def __init__(self, port: int) -> None:
        self.bytes = self.connections = 0
        self.first: float | None = None
        self.port, self._target = free_port(), port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()
        self._ready.wait()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._accept, "127.0.0.1", self.port))
        self._ready.set()
        self._loop.run_forever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.first = self.first or time.monotonic()
        upstream_reader, upstream_writer = await asyncio.open_connection("127.0.0.1", self._target)
        await asyncio.gather(self._copy(reader, upstream_writer), self._copy(upstream_reader, writer))

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await source.read(65536):
                self.bytes += len(data)
                sink.write(data)
                await sink.drain()
        sink.close()


def enrolled(command: list[str], way: Counted, address: Address, state: Path, log: Path) -> None:
    """Enrol a device on a state directory."""
    with Client(address.url, address.key) as client:
        token = client.enrolment_tokens.create().token
    url = f"http://127.0.0.1:{way.port}"
    with running([*command, "enroll", url, token, "--target", "host", "--state-dir", str(state)], log) as process:
        if process.wait(60):
            sys.exit(log.read_text())


def measure(command: list[str], seconds: float) -> Idle:
    """One agent, from its start on."""
    with tempfile.TemporaryDirectory() as name, serving(Path(name, "service")) as address:
        way, state, log = Counted(address.port), Path(name, "state"), Path(name, "agent.log")
        enrolled(command, way, address, state, log)
        way.first, started = None, time.monotonic()
        with running([*command, "run", "--state-dir", str(state)], log) as process:
            agent = psutil.Process(process.pid)
            while way.first is None:
                time.sleep(0.005)
            cold_start = way.first - started
            time.sleep(5)  # the start is not idle: session, heartbeat with all facts
            resident = own = 0
            before, sent, made, at = agent.cpu_times(), way.bytes, way.connections, time.monotonic()
            while time.monotonic() < at + seconds:
                time.sleep(1)
                memory = agent.memory_full_info()
                resident, own = max(resident, memory.rss), max(own, memory.uss)
            spent = time.monotonic() - at
            after = agent.cpu_times()
            busy = after.user + after.system - before.user - before.system
            connections, per_second = way.connections - made, (way.bytes - sent) / spent
    return Idle(
        cold_start_ms=1000 * cold_start,
        resident_bytes=resident,
        own_bytes=own,
        core_percent=100 * busy / spent,
        bytes_per_second=per_second,
        bytes_per_second_with_tls=per_second + connections * TLS_HANDSHAKE_BYTES / spent,
        connections=connections,
        seconds=spent,
    )


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="What an agent that waits for work costs its device.")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--one-file", type=Path, metavar="PYZ", help="measure this file instead of the package")
    options = parser.parse_args()
    command = [sys.executable, "-m", "pock_agent"]
    if options.one_file:
        command = [sys.executable, "-I", str(options.one_file)]
        os.environ.setdefault("POCK_AGENT_UNPACKED", str(options.one_file.with_suffix("")))
    found = measure(command, options.seconds)
    print(f"cold start        {found.cold_start_ms:8.0f} ms      (asked: 1000)")
    resident, own = found.resident_bytes / 1e6, found.own_bytes / 1e6
    print(f"resident          {resident:8.1f} MB      (asked: 40), its own {own:.1f} MB")
    print(f"processor         {found.core_percent:8.2f} %       (asked: 0.5 of a core)")
    print(
        f"on the wire       {found.bytes_per_second:8.0f} B/s     (asked: 1000), with TLS about "
        f"{found.bytes_per_second_with_tls:.0f}, {found.connections} connections in {found.seconds:.0f} s"
    )
    if options.json:
        options.json.write_text(json.dumps(asdict(found), indent=1))


if __name__ == "__main__":
    main()
