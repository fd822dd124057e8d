"""The wrapping key: a file that every host of the service has, and under which the database has private keys."""

import base64
import binascii
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pock_server.signing import Signer, create_secret, replace_secret

_KEY_BYTES = 32
_NONCE_BYTES = 12
_MOST = 8


class CannotUnwrap(Exception):
    """A private key cannot be read; the message says why."""


@dataclass(frozen=True)
class WrappingKey:
    """AES-256-GCM under the key in a file (base64 of 32 bytes), which is read whenever it is needed.

    While the key is changed, the file has several, one a line: the first, which is the newest, wraps, and all unwrap.
    """

    path: Path

    def create(self) -> None:
        """Make the file unless there is one; raises CannotUnwrap."""
        try:
            create_secret(self.path, _line(os.urandom(_KEY_BYTES)))
        except OSError as error:
            raise CannotUnwrap(
                f"the wrapping key {self.path} cannot be made ({error.strerror}); name a place where this user may "
                "write with POCK_WRAPPING_KEY_FILE"
            ) from None

    def wrap(self, signer: Signer) -> str:
        """The private key, encrypted and bound to its own name; base64."""
        return self.wrap_bytes(signer.raw(), signer.key_id)

    def unwrap(self, wrapped: str, key_id: str, newest_only: bool = False) -> Signer:
        """The private key of this name; raises CannotUnwrap."""
        raw = self.unwrap_bytes(wrapped, key_id, newest_only)
        if raw is None or len(raw) != _KEY_BYTES:
            raise CannotUnwrap(f"{self.path} is not the wrapping key of signing key {key_id}")
        return Signer.from_raw(raw)

    def wrap_bytes(self, raw: bytes, name: str) -> str:
        """A secret, encrypted and bound to its name; base64. Raises CannotUnwrap."""
        nonce, cipher = os.urandom(_NONCE_BYTES), AESGCM(self._keys()[0])
        return base64.b64encode(nonce + cipher.encrypt(nonce, raw, name.encode())).decode()

    def unwrap_bytes(self, wrapped: str, name: str, newest_only: bool = False) -> bytes | None:
        """The secret of this name; None if no key of the file opens it. Raises CannotUnwrap if there is no file."""
        keys = self._keys()
        for key in keys[:1] if newest_only else keys:
            with suppress(InvalidTag, ValueError):  # the latter for what is too short, or no base64
                content = base64.b64decode(wrapped)
                return AESGCM(key).decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], name.encode())
        return None

    def count(self) -> int:
        """How many keys the file has; raises CannotUnwrap."""
        return len(self._keys())

    def with_new_key(self) -> bytes:
        """What the file would be with one more key, the newest; raises CannotUnwrap."""
        return b"".join(map(_line, (os.urandom(_KEY_BYTES), *self._keys())))

    def add_key(self) -> None:
        """Have one more key; raises CannotUnwrap, and OSError where the file cannot be replaced."""
        replace_secret(self.path, self.with_new_key())

    def keep_newest(self) -> None:
        """Have only the newest key; raises as `add_key` does."""
        replace_secret(self.path, _line(self._keys()[0]))

    def _keys(self) -> list[bytes]:
        try:
            lines = self.path.read_bytes().split()
        except FileNotFoundError:
            raise CannotUnwrap(f"the wrapping key {self.path} is gone") from None
        except OSError as error:
            raise CannotUnwrap(f"the wrapping key {self.path} cannot be read ({error.strerror})") from None
        try:
            keys = [base64.b64decode(line, validate=True) for line in lines[: _MOST + 1]]
        except binascii.Error:
            keys = []
        if not 0 < len(keys) <= _MOST or any(len(key) != _KEY_BYTES for key in keys):
            raise CannotUnwrap(f"{self.path} holds no wrapping key (base64 of {_KEY_BYTES} bytes)")
        return keys


def _line(key: bytes) -> bytes:
    return base64.b64encode(key) + b"\n"
