"""The trust document: what it says, its one text, and whether a version may follow another.

The rules are those of The Update Framework (TUF 1.0, section 5.3) for root metadata: version N + 1 is signed by enough
root keys of version N and by enough of its own, versions have no gaps, and of an expired document only a successor is
believed. Knows no database; the agent has these rules in a program of its own (`pock_agent/trust/document.py`).
"""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from pydantic import ValidationError

from pock_server.signing import Signer, key_id_of, verify
from pock_server.trust.schemas import RootSigned, TrustDocument, TrustSignature

TYPE = "pock-trust"
FORMAT = 1
MAX_KEYS = 16
MAX_FILE_BYTES = 65_536
_FIELDS = {"type", "format", "version", "issued_at", "expires_at", "root", "signing"}
_KEY = re.compile(r"[A-Za-z0-9+/]{43}=")
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_MAX_VERSION = 2**31 - 1
Signed = TypeVar("Signed", bound=RootSigned)


class BadDocument(ValueError):
    """A document that no agent would believe; the message says why."""


@dataclass(frozen=True)
class Trust:
    """What one version says. Keys are base64 of 32 raw bytes; `threshold` root keys have to sign the next version."""

    version: int
    issued_at: datetime
    expires_at: datetime
    root_keys: tuple[str, ...]
    threshold: int
    signing_keys: tuple[str, ...]

    def text(self) -> bytes:
        """The JSON text that is signed."""
        value = {
            "type": TYPE,
            "format": FORMAT,
            "version": self.version,
            "issued_at": self.issued_at.astimezone(UTC).strftime(_TIME),
            "expires_at": self.expires_at.astimezone(UTC).strftime(_TIME),
            "root": {"keys": list(self.root_keys), "threshold": self.threshold},
            "signing": {"keys": list(self.signing_keys)},
        }
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    def draft(self) -> TrustDocument:
        """The document without signatures."""
        return TrustDocument(payload=base64.b64encode(self.text()).decode(), signatures=[])


def sign(document: Signed, signers: Iterable[Signer], kind: str = TYPE) -> Signed:
    """The document, whose type is `kind`, with these signatures as well."""
    message = _message(document, kind)
    added = {signer.key_id: signer.sign(message) for signer in signers}
    kept = [signature for signature in document.signatures if signature.key_id not in added]
    new = [TrustSignature(key_id=key_id, signature=signature) for key_id, signature in added.items()]
    return document.model_copy(update={"signatures": [*kept, *new]})


def read_file(content: bytes) -> TrustDocument:
    """The document in a file; raises BadDocument."""
    if len(content) > MAX_FILE_BYTES:
        raise BadDocument(f"the file is longer than {MAX_FILE_BYTES} bytes: it is no trust document")
    try:
        return TrustDocument.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BadDocument(f"the file is no trust document: {where or 'it'}: {first['msg']}") from None


def is_key(value: object) -> bool:
    """Whether this is base64 of 32 bytes."""
    return isinstance(value, str) and _KEY.fullmatch(value) is not None


def payload_of(document: RootSigned) -> bytes:
    """The bytes that are signed; raises BadDocument."""
    try:
        return base64.b64decode(document.payload, validate=True)
    except (binascii.Error, ValueError):
        raise BadDocument("the payload is not base64") from None


def read(document: TrustDocument) -> Trust:
    """What the document says, whoever signed it; raises BadDocument for an unknown, missing or malformed field."""
    try:
        value = json.loads(payload_of(document), object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise BadDocument("the payload is not JSON, or gives a field twice") from None
    fields = _object(value, _FIELDS, "the document")
    if (fields["type"], fields["format"]) != (TYPE, FORMAT) or type(fields["format"]) is not int:
        raise BadDocument(f"the document is not {TYPE!r} of format {FORMAT}")
    root = _object(fields["root"], {"keys", "threshold"}, "root")
    signing = _object(fields["signing"], {"keys"}, "signing")
    root_keys = _keys(root["keys"], "root.keys")
    trust = Trust(
        version=_integer(fields["version"], _MAX_VERSION, "version"),
        issued_at=_moment(fields["issued_at"], "issued_at"),
        expires_at=_moment(fields["expires_at"], "expires_at"),
        root_keys=root_keys,
        threshold=_integer(root["threshold"], len(root_keys), "root.threshold"),
        signing_keys=_keys(signing["keys"], "signing.keys"),
    )
    if trust.text() != payload_of(document):
        raise BadDocument("the payload is not in its one form: sorted keys, no spaces")
    return trust


def follow(document: TrustDocument, before: Trust | None) -> Trust:
    """What the document says, once its own root keys and those of the version before vouch for it.

    `before` None: this is to be the first version. Raises BadDocument; expiry is the caller's to judge.
    """
    trust = read(document)
    expected = 1 if before is None else before.version + 1
    if trust.version != expected:
        raise BadDocument(f"the document has version {trust.version}, and version {expected} is the next one")
    if before is not None:
        demand(document, before.root_keys, before.threshold, f"version {before.version}")
    demand(document, trust.root_keys, trust.threshold, f"version {trust.version} itself")
    return trust


def demand(document: RootSigned, keys: Sequence[str], threshold: int, whose: str, kind: str = TYPE) -> None:
    """Raise BadDocument unless so many of these root keys signed the document, whose type is `kind`. Keys are counted,
    not signatures: one key that signs twice is one."""
    message = _message(document, kind)
    given = {signature.key_id: signature.signature for signature in document.signatures}
    valid = [key for key in keys if (text := given.get(key_id_of(key))) and verify(key, text, message)]
    if len(valid) < threshold:
        known = ", ".join(key_id_of(key) for key in keys)
        raise BadDocument(f"{len(valid)} root keys of {whose} ({known}) signed the document, and {threshold} have to")


def _message(document: RootSigned, kind: str) -> bytes:
    """What is signed: a text of one type cannot pass for one of another."""
    return f"{kind}\n".encode() + payload_of(document)


def _object(value: Any, names: set[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != names:
        raise BadDocument(f"{where} has to be an object of exactly {', '.join(sorted(names))}")
    return value


def _keys(value: Any, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MAX_KEYS:
        raise BadDocument(f"{where} has to be a list of 1 to {MAX_KEYS} keys")
    if not all(is_key(key) for key in value):
        raise BadDocument(f"{where} holds what is not base64 of 32 bytes")
    if len({key_id_of(key) for key in value}) != len(value):
        raise BadDocument(f"{where} names a key twice")
    return tuple(value)


def _integer(value: Any, high: int, where: str) -> int:
    if type(value) is not int or not 1 <= value <= high:
        raise BadDocument(f"{where} has to be a whole number from 1 to {high}")
    return value


def _moment(value: Any, where: str) -> datetime:
    try:
        return datetime.strptime(value, _TIME).replace(tzinfo=UTC)
    except (TypeError, ValueError):
        raise BadDocument(f"{where} has to be a time such as 2030-01-31T12:00:00Z") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a field is given twice")
    return dict(pairs)
