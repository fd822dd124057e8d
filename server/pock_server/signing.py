"""The server's Ed25519 key, which signs every piece of work; devices pin its public half when they enrol."""

import base64
import hashlib
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)


@dataclass(frozen=True)
class Signer:
    """Signs with the private key at `path`, which is read when it is first needed."""

    path: Path

    def create(self) -> None:
        """Make the key, readable by its owner only, unless there is one."""
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.path.exists():
            _create(self.path)

    @cached_property
    def private_key(self) -> Ed25519PrivateKey:
        """Raises ValueError if the file holds no Ed25519 private key, FileNotFoundError if there is none."""
        key = load_pem_private_key(self.path.read_bytes(), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ValueError(f"{self.path} does not hold an Ed25519 private key")
        return key

    @property
    def public_key(self) -> str:
        """Raw public key, base64."""
        return base64.b64encode(self._raw_public_key()).decode()

    @property
    def key_id(self) -> str:
        """First 16 hexadecimal digits of the public key's SHA-256."""
        return hashlib.sha256(self._raw_public_key()).hexdigest()[:16]

    def sign(self, message: bytes) -> str:
        """Signature over the message, base64."""
        return base64.b64encode(self.private_key.sign(message)).decode()

    def _raw_public_key(self) -> bytes:
        return self.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def verify(public_key: str, signature: str, message: bytes) -> bool:
    """Whether `signature` (base64) over `message` was made by the holder of `public_key` (base64)."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
    try:
        key.verify(base64.b64decode(signature), message)
    except InvalidSignature:
        return False
    return True


def _create(path: Path) -> None:
    """Write a new key next to `path` and link it there, so that of two processes starting together exactly one wins."""
    text = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        draft.unlink()
