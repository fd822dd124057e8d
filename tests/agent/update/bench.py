"""A device that was installed as one file, keys that release and offer, and a service that is a few lines."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import sys
import time
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as Key

from pock_agent import __version__
from pock_agent.device.target import machine
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity
from pock_agent.trust.document import Trust
from pock_agent.update import launcher
from pock_agent.update.standing import Standing
from pock_agent.update.updater import Replaced, Surroundings, Updater
from tests.agent.driver import FAST
from tests.agent.service_double import key_id_of, rfc3339

ROLLOUT = "018f0000-0000-7000-8000-000000000001"
NOW = time.time()
DAY = 86_400
"""All that is good is good for so long: a whole run of the tests may lie between NOW and a test."""


def agent_script(version: str, check: str = "") -> bytes:
    """What passes for a file of the agent: it says its version, and checks itself."""
    say = f"print('pock-agent {version}')"
    return f"import sys\nif '--version' in sys.argv: {say}\nelse:\n    {check or 'pass'}\n".encode()


class Answer(io.BytesIO):
    """A download."""

    status, reason = 200, "OK"

    def __init__(self, content: bytes) -> None:
        super().__init__(content)
        self.headers = Message()


class FakeService:
    """Offers one thing, has one file, and hears what is told."""

    def __init__(self) -> None:
        self.envelope: dict[str, Any] | None = None
        self.content = b""
        self.heard: list[tuple[str, str]] = []
        self.refuses: list[Exception] = []

    def update_offer(self) -> dict[str, Any] | None:
        return self.envelope

    def tell_update(self, body: dict[str, Any]) -> None:
        if self.refuses:
            raise self.refuses.pop(0)
        self.heard.append((body["state"], body["detail"]))

    def download(self, digest: str, headers: Any, receive: Any) -> Any:
        return receive(Answer(self.content))


class FakeKeyring:
    """The keys of a device: one that signs work, one root key."""

    def __init__(self) -> None:
        self.root, self.online = Key.generate(), Key.generate()
        root, online = self.root.public_key(), self.online.public_key()
        self.online_id = key_id_of(self.online)
        keys = {key_id_of(self.root): root}
        self.trust: Trust | None = Trust(1, NOW - 1000, NOW + DAY, keys, 1, {self.online_id: online})

    def signing_key(self, key_id: object) -> Any:
        return None if self.trust is None else self.trust.signing_keys.get(str(key_id))


class Bench:
    """A device that was installed as one file, and an updater for it."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.directory = StateDirectory(root / "state")
        self.directory.create()
        identity = Identity("d1", "pi", "http://127.0.0.1:1", "host", "", "", 1.0, 1.0)
        self.service, self.keyring = FakeService(), FakeKeyring()
        counters = Counters(self.directory)
        self.around = Surroundings(self.directory, identity, self.keyring, counters, self.service, FAST)  # type: ignore[arg-type]
        self.why: str | None = None
        self.standing = Standing(self.directory)
        self.old = self.file(agent_script(__version__))
        self.write(current={"file": self.old, "version": __version__}, previous=None, trial=None)
        (self.standing.home / "launcher.py").write_text(Path(launcher.__file__).read_text())
        monkeypatch.setenv(launcher.LAUNCHER, str(self.standing.home / "launcher.py"))
        monkeypatch.setattr(sys, "argv", [self.old, "run"])
        self.monkeypatch = monkeypatch

    def write(self, **launch: Any) -> None:
        self.standing.home.mkdir(exist_ok=True)
        (self.standing.home / "launch.json").write_text(json.dumps(launch))

    def file(self, content: bytes) -> str:
        name = hashlib.sha256(content).hexdigest() + ".pyz"
        (self.standing.home / "versions").mkdir(parents=True, exist_ok=True)
        (self.standing.home / "versions" / name).write_bytes(content)
        return name

    def release(self, version: str = "9.0.0", signer: Key | None = None, **changes: Any) -> dict[str, Any]:
        content = self.service.content = changes.pop("content", agent_script(version))
        blob = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
        said = {
            "type": "pock-agent-release",
            "format": 1,
            "version": version,
            "issued_at": rfc3339(NOW - 100),
            "expires_at": rfc3339(NOW + DAY),
            "files": {f"linux-{machine()}": blob},
            "downgrade": False,
            "revert": True,
            **changes,
        }
        signer = signer or self.keyring.root
        payload = json.dumps(said).encode()
        signature = base64.b64encode(signer.sign(b"pock-agent-release\n" + payload)).decode()
        signed = [{"key_id": key_id_of(signer), "signature": signature}]
        return {"payload": base64.b64encode(payload).decode(), "signatures": signed}

    def offer(self, release: dict[str, Any], signer: Key | None = None, **changes: Any) -> None:
        said = {
            "type": "pock-agent-offer",
            "format": 1,
            "device_id": "d1",
            "rollout_id": ROLLOUT,
            "action": "install",
            "release": release,
            "check_in_seconds": 30,
            "healthy_seconds": 1,
            "issued_at": rfc3339(NOW),
            "expires_at": rfc3339(NOW + DAY),
            **changes,
        }
        payload = json.dumps(said).encode()
        self.service.envelope = {
            "payload": base64.b64encode(payload).decode(),
            "key_id": self.keyring.online_id,
            "signature": base64.b64encode(
                (signer or self.keyring.online).sign(b"pock-agent-offer\n" + payload)
            ).decode(),
        }

    def updater(self) -> Updater:
        return Updater(self.around, lambda: self.why)

    def consider(self) -> list[tuple[str, str]]:
        """What was told of an offer that was not followed."""
        self.service.heard.clear()
        before = self.standing.read()
        self.updater().consider()
        assert self.standing.read() == before
        return self.service.heard

    def replace(self) -> dict[str, Any]:
        with pytest.raises(Replaced):
            self.updater().consider()
        return self.standing.read()
