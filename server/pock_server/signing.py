"""Ed25519 keys: those that sign work, the root keys that certify them, and the public halves of devices."""

import base64
import hashlib
import os
import stat
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
    """Signs with one private key."""

    private_key: Ed25519PrivateKey

    @staticmethod
    def generate() -> "Signer":
        """A new key."""
        return Signer(Ed25519PrivateKey.generate())

    @staticmethod
    def from_raw(raw: bytes) -> "Signer":
        """The key of these 32 bytes."""
        return Signer(Ed25519PrivateKey.from_private_bytes(raw))

    def raw(self) -> bytes:
        """The private key, 32 bytes."""
        return self.private_key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())

    @cached_property
    def public_key(self) -> str:
        """Raw public key, base64."""
        return base64.b64encode(self.private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    @cached_property
    def key_id(self) -> str:
        """The public key's short name."""
        return key_id_of(self.public_key)

    def sign(self, message: bytes) -> str:
        """Signature over the message, base64."""
        return base64.b64encode(self.private_key.sign(message)).decode()


def key_id_of(public_key: str) -> str:
    """First 16 hexadecimal digits of the SHA-256 of a public key (base64 of 32 bytes)."""
    return hashlib.sha256(base64.b64decode(public_key)).hexdigest()[:16]


def verify(public_key: str, signature: str, message: bytes) -> bool:
    """Whether `signature` (base64) over `message` was made by the holder of `public_key` (base64)."""
    key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key))
    try:
        key.verify(base64.b64decode(signature), message)
    except InvalidSignature:
        return False
    return True


def read_key(path: Path) -> Signer:
    """The private key in a PEM file.

    Raises FileNotFoundError if there is none, ValueError if it cannot be read or holds no Ed25519 private key.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} does not hold a private key ({str(error).splitlines()[0]})") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise ValueError(f"{path} does not hold an Ed25519 private key")
    return Signer(key)


def create_key(path: Path) -> Signer:
    """The private key in a PEM file, made now unless there is one."""
    create_secret(path, Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return read_key(path)


def create_secret(path: Path, content: bytes) -> bool:
    """Write a file that its owner alone can read, unless there is one; says whether this call made it.

    It is written beside its place and linked there, so that of two processes starting together exactly one wins.
    """
    if path.exists():
        return False
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def replace_secret(path: Path, content: bytes) -> None:
    """Put another content in the place of a secret file, at once and for good; owner and mode stay. Raises OSError."""
    before = path.stat()
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), stat.S_IMODE(before.st_mode))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
