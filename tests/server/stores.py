"""Object stores for tests: a folder, and an S3 server in a process of its own."""

import contextlib
import ctypes
import json
import secrets
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import obstore

from pock_server.blobs.store import BlobStore
from pock_server.settings import Settings

_SERVER = Path(__file__).parent / "swift_s3.py"
_PYTHON = Path("/usr/bin/python3")
"""Debian's, to which its Swift belongs."""
_BUCKET = "pock-test"


@dataclass
class S3Server:
    """OpenStack Swift with its S3 interface on a free loopback port."""

    folder: Path
    access_key: str = "pock:tester"
    secret_key: str = field(default_factory=lambda: secrets.token_hex(16))
    endpoint: str = ""
    process: "subprocess.Popen[str] | None" = None

    def start(self) -> None:
        """Start; returns when it serves."""
        self.process = subprocess.Popen(
            [_PYTHON, _SERVER, self.folder, self.access_key, self.secret_key, _BUCKET],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=_die_with_parent,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the S3 server ended with status {self.process.wait()}"
        self.endpoint = json.loads(line)["endpoint"]

    def stop(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def options(self) -> dict[str, Any]:
        """Settings of a server that keeps its blobs here, where no other server does."""
        return {
            "store_url": f"s3://{_BUCKET}/{secrets.token_hex(8)}",
            "store_endpoint": self.endpoint,
            "store_region": "us-east-1",
            "store_access_key": self.access_key,
            "store_secret_key": self.secret_key,
        }


def has_swift() -> bool:
    """Whether Debian's Swift is installed."""
    return Path("/usr/bin/swift-proxy-server").exists()


@contextlib.contextmanager
def running_s3(folder: Path) -> Iterator[S3Server]:
    """A server while the block runs."""
    server = S3Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def variables(settings: Settings) -> dict[str, str]:
    """What tells a command which database and store a server has."""
    names = ("data_dir", "database_url", *(name for name in Settings.model_fields if name.startswith("store_")))
    return {f"POCK_{name.upper()}": str(getattr(settings, name)) for name in names}


def stored_keys(store: BlobStore) -> list[str]:
    """The keys of everything in a store."""
    return sorted(found["path"] for batch in obstore.list(store.objects) for found in batch)


def damage(store: BlobStore, digest: str) -> None:
    """Flip one bit in the middle of a stored blob."""
    key = f"sha256/{digest[:2]}/{digest}"
    data = bytearray(obstore.get(store.objects, key).bytes())
    data[len(data) // 2] ^= 1
    obstore.put(store.objects, key, bytes(data))


def lose(store: BlobStore, digest: str) -> None:
    """Remove a stored blob."""
    obstore.delete(store.objects, f"sha256/{digest[:2]}/{digest}")


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
