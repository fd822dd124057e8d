"""Who this device is: its name at the service, its own Ed25519 key, and the service's key that it pinned."""

from __future__ import annotations

import base64
import binascii
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import known, read_json, write_atomically, write_json
from pock_agent.errors import AgentError


@dataclass(frozen=True)
class Identity:
    """What enrolment settled. `server_public_key` is base64 of the 32 raw bytes, pinned from then on."""

    device_id: str
    name: str
    url: str
    target: str
    server_public_key: str
    key_id: str
    heartbeat_seconds: float
    poll_seconds: float
    adb: str | None = None  # the serial of the phone that its jobs run on

    def save(self, directory: StateDirectory) -> None:
        """Persist it next to the key."""
        write_json(directory.identity, asdict(self))

    @staticmethod
    def load(directory: StateDirectory) -> Identity:
        """Read it back; an AgentError says how to enrol when there is none."""
        stored = read_json(directory.identity)
        if stored is None:
            raise AgentError(
                f"{directory.root} is not enrolled; run: pock-agent enroll URL TOKEN --state-dir {directory.root}"
            )
        try:
            return Identity(**known(Identity, stored))
        except TypeError as error:
            raise AgentError(f"{directory.identity} is not of this agent's version ({error}); enrol again") from error


def public_key_from_text(text: str) -> Ed25519PublicKey:
    """The key in base64 of 32 raw bytes; anything else is an AgentError."""
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise AgentError(f"the service's public key is not base64 of 32 bytes: {error}") from error


def create_key(path: Path) -> Ed25519PrivateKey:
    """Make the device's key, or take the one that an enrolment cut short left behind; readable for its owner only."""
    if not path.exists():
        key = Ed25519PrivateKey.generate()
        write_atomically(path, key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption()))
    return load_key(path)


def load_key(path: Path) -> Ed25519PrivateKey:
    """Read the device's key; refuse one that others on the device can read."""
    try:
        if os.stat(path).st_mode & 0o077:
            raise AgentError(f"{path} can be read by other users of this device; say: chmod 600 {path}, or enrol again")
        return Ed25519PrivateKey.from_private_bytes(path.read_bytes())
    except OSError as error:
        raise AgentError(f"the device's key {path} cannot be read ({error.strerror}); enrol again") from error
    except ValueError as error:
        raise AgentError(f"the device's key {path} is damaged ({error}); enrol again") from error


def public_text(key: Ed25519PrivateKey) -> str:
    """The public half in base64 of its 32 raw bytes."""
    return base64.b64encode(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
