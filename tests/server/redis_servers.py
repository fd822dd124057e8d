"""A real Redis of the test's own, on a free port of this machine."""

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import redis

from demo.processes import free_port


class RedisServer:
    """Can be stopped, and started again without what it had."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._child: subprocess.Popen[bytes] | None = None
        self.url = f"redis://127.0.0.1:{self._port}/0"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis.from_url(self.url)

    def start(self) -> None:
        options = ("--port", str(self._port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder))
        self._child = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        ends = time.monotonic() + 30
        while time.monotonic() < ends:
            with suppress(redis.ConnectionError):
                self.client.ping()
                return
            time.sleep(0.05)
        raise AssertionError("Redis does not start")

    def pause(self) -> None:
        """It takes connections and answers nothing."""
        assert self._child is not None
        self._child.send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def has_redis() -> bool:
    return shutil.which("redis-server") is not None


@contextmanager
def running_redis(folder: Path) -> Iterator[RedisServer]:
    folder.mkdir(exist_ok=True)
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
