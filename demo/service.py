"""The embedded service of the demo: SQLite, a local folder, an in-process runner, on the loopback interface."""

import contextlib
import json
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from demo.processes import StartError, free_port, program, running, wait_until_ready

HOME = Path(".cache/demo")
"""Everything that the last `make demo` left: data, devices, logs."""


@dataclass(frozen=True)
class Address:
    """Where the service is, and a key with every scope."""

    port: int
    key: str

    @property
    def url(self) -> str:
        """The service's base address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        """The dashboard's address; the key travels in the fragment, which browsers do not send to servers."""
        return f"{self.url}/#key={self.key}"


@contextlib.contextmanager
def serving(home: Path) -> Iterator[Address]:
    """The service on the data of `home` for the duration of the block, where it was the last time if it can."""
    address = _known_address(home) or Address(free_port(), _create_key(home))
    if _taken(address.port):
        address = Address(free_port(), address.key)
    _address_file(home).write_text(json.dumps(asdict(address)))
    log = home / "service.log"
    command = [program("pock-server"), "serve", "--port", str(address.port), "--data-dir", str(home / "data")]
    with running(command, log) as process:
        wait_until_ready(f"{address.url}/readyz", process, log)
        yield address


def refuse_second(home: Path) -> None:
    """StartError when the service on `home` is running already: its data must not be pulled from under it."""
    address = _known_address(home)
    if address and _taken(address.port):
        raise StartError(f"something listens on port {address.port}, most likely `make serve`; stop it first")


def _known_address(home: Path) -> Address | None:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return Address(**json.loads(_address_file(home).read_text()))
    return None


def _address_file(home: Path) -> Path:
    return home / "address.json"


def _create_key(home: Path) -> str:
    data = home / "data"
    data.mkdir(parents=True, exist_ok=True)
    command = [program("pock-server"), "create-key", "--name", "demo", "--data-dir", str(data), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartError(f"pock-server could not make a key: {done.stderr.strip()}")
    return str(json.loads(done.stdout)["key"])


def _taken(port: int) -> bool:
    try:
        httpx.get(f"http://127.0.0.1:{port}/healthz", trust_env=False, timeout=5)
    except httpx.ConnectError:
        return False
    except httpx.HTTPError:
        return True
    return True
