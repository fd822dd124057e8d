"""The wrapping key: a file that every host of the service has, and under which the database has private keys."""

import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from pock_server.signing import Signer, create_secret

_KEY_BYTES = 32
_NONCE_BYTES = 12


class CannotUnwrap(Exception):
    """A private key cannot be read; the message says why."""


@dataclass(frozen=True)
class WrappingKey:
    """AES-256-GCM under the key in a file (base64 of 32 bytes), which is read whenever it is needed."""

    path: Path

    def create(self) -> None:
        """Make the file unless there is one; raises CannotUnwrap."""
        try:
            create_secret(self.path, base64.b64encode(os.urandom(_KEY_BYTES)) + b"\n")
        except OSError as error:
            raise CannotUnwrap(
                f"the wrapping key {self.path} cannot be made ({error.strerror}); name a place where this user may "
                "write with POCK_WRAPPING_KEY_FILE"
            ) from None

    def wrap(self, signer: Signer) -> str:
        """The private key, encrypted and bound to its own name; base64."""
        nonce = os.urandom(_NONCE_BYTES)
        return base64.b64encode(nonce + self._cipher().encrypt(nonce, signer.raw(), signer.key_id.encode())).decode()

    def unwrap(self, wrapped: str, key_id: str) -> Signer:
        """The private key of this name; raises CannotUnwrap."""
        content = base64.b64decode(wrapped)
        try:
            raw = self._cipher().decrypt(content[:_NONCE_BYTES], content[_NONCE_BYTES:], key_id.encode())
        except InvalidTag:
            raise CannotUnwrap(f"{self.path} is not the wrapping key of signing key {key_id}") from None
        return Signer.from_raw(raw)

    def _cipher(self) -> AESGCM:
        try:
            key = base64.b64decode(self.path.read_bytes().strip(), validate=True)
        except FileNotFoundError:
            raise CannotUnwrap(f"the wrapping key {self.path} is gone") from None
        except OSError as error:
            raise CannotUnwrap(f"the wrapping key {self.path} cannot be read ({error.strerror})") from None
        except binascii.Error:
            key = b""
        if len(key) != _KEY_BYTES:
            raise CannotUnwrap(f"{self.path} holds no wrapping key (base64 of {_KEY_BYTES} bytes)")
        return AESGCM(key)
