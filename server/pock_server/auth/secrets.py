"""Credentials of the form `<kind>_<id>_<secret>`. The secret has 256 random bits, so a plain SHA-256 hides it."""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class Kind(StrEnum):
    """The prefix says which interface a credential opens, and it opens no other."""

    API_KEY = "pk"
    DEVICE_SESSION = "ps"
    ENROLMENT_TOKEN = "pt"
    BROWSER_SESSION = "pb"


@dataclass(frozen=True)
class Credential:
    """A credential in the clear; never stored."""

    kind: Kind
    row_id: str
    secret: str

    @property
    def text(self) -> str:
        """What its holder sends."""
        return f"{self.kind}_{UUID(self.row_id).hex}_{self.secret}"

    @property
    def hash(self) -> str:
        """What is stored."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def matches(self, stored_hash: str) -> bool:
        """Compare with a stored hash in constant time."""
        return hmac.compare_digest(self.hash, stored_hash)


_FORM = re.compile(r"^(pk|ps|pt|pb)_([0-9a-f]{32})_([0-9a-f]{64})$", re.ASCII)


def generate(kind: Kind, row_id: str) -> Credential:
    """A new credential for the row."""
    return Credential(kind, row_id, secrets.token_hex(32))


def parse(text: str, kind: Kind) -> Credential | None:
    """The credential in `text`, or None if it is not one of this kind."""
    match = _FORM.match(text)
    if match is None or match[1] != kind:
        return None
    return Credential(kind, str(UUID(match[2])), match[3])
