"""A real service in a process of its own, which can be killed and started again where it was."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from tests.server.harness import FAKE_WORKER

COMMAND = (sys.executable, "-m", "pock_server.cli")
READY_SECONDS = 60.0


class Service:
    """`pock-server serve` on a folder, with a worker that compiles nothing."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.port = _free_port()
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        self.start()
        self.key = self.command("create-key", "--name", "tests").strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        mine = {
            "POCK_DATA_DIR": str(self.folder),
            "POCK_WORKER_COMMAND": json.dumps([sys.executable, str(FAKE_WORKER)]),
            "POCK_SWEEP_SECONDS": "1.0",
            "POCK_SANDBOX": "off",
            "POCK_KEY_RATE": "1e9",
            "POCK_ADDRESS_RATE": "1e9",
            **self.settings,
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("POCK_")}
        return {**kept, **mine}

    def start(self) -> None:
        """Serve, and return when it is ready and knows its targets."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, "serve", "--port", str(self.port)], stdout=log, stderr=log, env=self.environment
            )
        self._wait(f"{self.url}/readyz", {})

    def kill(self) -> None:
        """As a power cut does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def command(self, *words: str) -> str:
        """What `pock-server WORDS` prints."""
        done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, env=self.environment, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def wait_for_targets(self) -> None:
        """The worker describes its compiler a moment after the start."""
        self._wait(f"{self.url}/v1/targets", {"Authorization": f"Bearer {self.key}"})

    def _wait(self, url: str, headers: dict[str, str]) -> None:
        ends = time.monotonic() + READY_SECONDS
        while True:
            try:
                if httpx.get(url, headers=headers, trust_env=False, timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass
            assert time.monotonic() < ends, (self.folder / "log").read_text()[-4000:]
            time.sleep(0.05)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
