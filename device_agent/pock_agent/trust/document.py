"""The trust document: which keys may sign work, and when a newer version of it is believed.

The rules are those of The Update Framework for root metadata: version N + 1 is signed by enough root keys of version N,
and by enough of its own; there are no gaps and no way back. Must not know how documents arrive; `keyring` does.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pock_agent.errors import Untrusted
from pock_agent.trust.fields import Fields, Malformed, parse_signed

MAX_DOCUMENT_BYTES = 64 * 1024
MAX_KEYS = 16
MAX_SIGNATURES = 32
MAX_VERSION = 2**31 - 1
_KIND = "pock-trust"

Keys = Mapping[str, Ed25519PublicKey]


@dataclass(frozen=True)
class Trust:
    """One version. Keys by their ids; times in seconds since the epoch."""

    version: int
    issued_at: float
    expires_at: float
    root_keys: Keys
    threshold: int
    signing_keys: Keys


def pin(document: object) -> Trust:
    """A document that somebody else vouches for, the enrolment or the pinned key; its own root keys have to as well."""
    payload, signatures = _open(document)
    trust = _read(payload)
    _demand(payload, signatures, trust, "its own root keys")
    return trust


def follow(document: object, before: Trust) -> Trust:
    """The version after `before`, vouched for by the root keys of both; Untrusted says why it is not believed."""
    payload, signatures = _open(document)
    trust = _read(payload)
    if trust.version != before.version + 1:
        raise Untrusted(f"it has version {trust.version}, and version {before.version + 1} was asked for")
    _demand(payload, signatures, before, f"the root keys of version {before.version}")
    _demand(payload, signatures, trust, "its own root keys")
    return trust


def introduced(answer: object, device_id: str, key_id: str, key: Ed25519PublicKey) -> Trust:
    """The document of an introduction, for which the one key that this device pinned has to vouch."""
    try:
        fields = Fields(answer, "the introduction", "document key_id signature")
        payload, _ = _open(fields.raw("document"))
        if fields.typed("key_id", str) != key_id:
            raise Untrusted(f"key {fields.raw('key_id')!r} vouches for it, and this device pinned {key_id!r}")
        signature = _decode(fields.typed("signature", str), "the introduction's signature")
    except Malformed as error:
        raise Untrusted(str(error)) from error
    message = f"pock-trust-introduction\n{device_id}\n{hashlib.sha256(payload).hexdigest()}".encode()
    if not _verifies(key, signature, message):
        raise Untrusted("the pinned key does not vouch for it")
    return pin(fields.raw("document"))


def root_signed(document: object, kind: str, trust: Trust) -> bytes:
    """The signed text of another document, whose type is `kind`, once enough root keys vouch for it; else Untrusted."""
    payload, signatures = _open(document)
    _demand(payload, signatures, trust, f"the root keys of trust document {trust.version}", kind)
    return payload


def key_id_of(raw: bytes) -> str:
    """The id of a public key of 32 bytes."""
    return hashlib.sha256(raw).hexdigest()[:16]


def _open(document: object) -> tuple[bytes, dict[str, bytes]]:
    """The signed bytes, and signatures by key id: a key that signs twice counts once."""
    try:
        fields = Fields(document, "the trust document", "payload signatures")
        listed = fields.typed("signatures", list)
        if len(listed) > MAX_SIGNATURES:
            raise Untrusted(f"it has {len(listed)} signatures, and {MAX_SIGNATURES} are the most")
        payload = _decode(fields.typed("payload", str), "the trust document's payload")
        signatures: dict[str, bytes] = {}
        for value in listed:
            entry = Fields(value, "a signature of the trust document", "key_id signature")
            signatures[entry.typed("key_id", str)] = _decode(entry.typed("signature", str), entry.at("signature"))
    except Malformed as error:
        raise Untrusted(str(error)) from error
    if len(payload) > MAX_DOCUMENT_BYTES:
        raise Untrusted(f"it is longer than {MAX_DOCUMENT_BYTES} bytes")
    return payload, signatures


def _read(payload: bytes) -> Trust:
    try:
        fields = Fields(parse_signed(payload), "trust", "type format version issued_at expires_at root signing")
        if fields.typed("type", str) != "pock-trust" or fields.typed("format", int) != 1:
            raise Malformed("trust is of another type or format; update this agent if the service is newer")
        root = Fields(fields.raw("root"), "trust.root", "keys threshold")
        signing = Fields(fields.raw("signing"), "trust.signing", "keys")
        root_keys = _keys(root)
        return Trust(
            version=fields.integer("version", 1, MAX_VERSION),
            issued_at=fields.time("issued_at"),
            expires_at=fields.time("expires_at"),
            root_keys=root_keys,
            threshold=root.integer("threshold", 1, len(root_keys)),
            signing_keys=_keys(signing),
        )
    except Malformed as error:
        raise Untrusted(str(error)) from error


def _keys(fields: Fields) -> Keys:
    listed = fields.typed("keys", list)
    if not 1 <= len(listed) <= MAX_KEYS:
        raise Malformed(f"{fields.at('keys')} has {len(listed)} keys, outside 1..{MAX_KEYS}")
    keys = {}
    for value in listed:
        if not isinstance(value, str):
            raise Malformed(f"{fields.at('keys')} has {value!r}, which is no key")
        raw = _decode(value, fields.at("keys"))
        if len(raw) != 32:
            raise Malformed(f"{fields.at('keys')} has a key of {len(raw)} bytes instead of 32")
        keys[key_id_of(raw)] = Ed25519PublicKey.from_public_bytes(raw)
    if len(keys) != len(listed):
        raise Malformed(f"{fields.at('keys')} names a key twice")
    return keys


def _demand(payload: bytes, signatures: Mapping[str, bytes], by: Trust, whose: str, kind: str = _KIND) -> None:
    message = f"{kind}\n".encode() + payload
    valid = [
        key_id
        for key_id, key in by.root_keys.items()
        if key_id in signatures and _verifies(key, signatures[key_id], message)
    ]
    if len(valid) < by.threshold:
        raise Untrusted(f"{len(valid)} of {whose} signed it, and {by.threshold} have to")


def _verifies(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _decode(text: str, where: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"{where} is not base64: {error}") from error
