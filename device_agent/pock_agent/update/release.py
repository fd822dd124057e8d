"""What is believed about a newer agent: a release that root keys signed, offered by a key that signs work.

The root keys say what may replace this agent, the service when. See docs/adr/0012.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from enum import Enum

from cryptography.exceptions import InvalidSignature

from pock_agent.device.target import machine
from pock_agent.disk.blobs import Blob
from pock_agent.errors import Untrusted
from pock_agent.trust.document import Trust, root_signed
from pock_agent.trust.fields import Fields, Malformed, parse_signed
from pock_agent.trust.keyring import Keyring
from pock_agent.values import JsonObject

RELEASE, OFFER = "pock-agent-release", "pock-agent-offer"
MAX_FILE_BYTES = 32 << 20
_VERSION = re.compile(r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){2}", re.ASCII)
_PLATFORM = re.compile(r"[a-z0-9]{1,20}-[a-z0-9_]{1,20}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}")
_IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CHECK_IN, _HEALTHY = (5, 3600), (1, 86_400)


class Action(str, Enum):
    """What an offer asks for."""

    INSTALL = "install"
    """Replace the agent by this release."""
    REVERT = "revert"
    """Return from this release to the version before."""


@dataclass(frozen=True)
class Release:
    """What root keys released. Times in seconds since the epoch."""

    version: str
    issued_at: float
    expires_at: float
    files: dict[str, Blob]
    downgrade: bool
    revert: bool

    @property
    def file(self) -> Blob | None:
        """The one for this machine."""
        return self.files.get(f"linux-{machine()}")


@dataclass(frozen=True)
class Offer:
    """What the service wants of this device now."""

    rollout_id: str
    action: Action
    release: Release
    check_in_seconds: int
    healthy_seconds: int


def rank(version: str) -> tuple[int, ...]:
    """Orders versions; one that is none comes first."""
    return tuple(map(int, version.split("."))) if _VERSION.fullmatch(version) else ()


def open_offer(envelope: JsonObject, device_id: str, keyring: Keyring, now: float) -> Offer:
    """The offer in an envelope, whose signatures hold; Untrusted says why it is not believed."""
    trust = keyring.trust
    if trust is None:
        raise Untrusted("this device has no trust document yet, whose root keys could vouch for an agent")
    if now >= trust.expires_at:
        raise Untrusted(f"trust document {trust.version} has expired: whoever holds its successor back gains nothing")
    try:
        outer = Fields(envelope, "the offer", "payload key_id signature")
        key = keyring.signing_key(outer.raw("key_id"))
        if key is None:
            raise Untrusted(f"key {outer.raw('key_id')!r} signed the offer, and this device does not trust it")
        payload, signature = _decode(outer.typed("payload", str)), _decode(outer.typed("signature", str))
        key.verify(signature, f"{OFFER}\n".encode() + payload)
        return _read(payload, device_id, trust, now)
    except InvalidSignature as error:
        raise Untrusted("the offer's signature does not match") from error
    except Malformed as error:
        raise Untrusted(str(error)) from error


def _read(payload: bytes, device_id: str, trust: Trust, now: float) -> Offer:
    names = "type format device_id rollout_id action release check_in_seconds healthy_seconds issued_at expires_at"
    fields = Fields(parse_signed(payload), "offer", names)
    if fields.typed("type", str) != OFFER or fields.integer("format") != 1:
        raise Malformed("the offer is of another type or format")
    if fields.typed("device_id", str) != device_id:
        raise Untrusted(f"the offer is for device {fields.raw('device_id')!r}")
    if now >= fields.time("expires_at"):
        raise Untrusted("the offer has expired; check this device's clock")
    try:
        action = Action(fields.typed("action", str))
    except ValueError:
        raise Malformed(f"offer.action is {fields.raw('action')!r}") from None
    return Offer(
        rollout_id=fields.matching("rollout_id", _IDENTIFIER, "identifier"),
        action=action,
        release=read_release(fields.raw("release"), trust),
        check_in_seconds=fields.integer("check_in_seconds", *_CHECK_IN),
        healthy_seconds=fields.integer("healthy_seconds", *_HEALTHY),
    )


def read_release(document: object, trust: Trust) -> Release:
    """What a release document says, once the root keys vouch for it; raises Untrusted or Malformed. Whether it has
    expired is the caller's to judge."""
    fields = Fields(
        parse_signed(root_signed(document, RELEASE, trust)),
        "release",
        "type format version issued_at expires_at files downgrade revert",
    )
    if fields.typed("type", str) != RELEASE or fields.integer("format") != 1:
        raise Malformed("the release is of another type or format")
    listed = fields.typed("files", dict)
    if not 1 <= len(listed) <= 8 or not all(isinstance(name, str) and _PLATFORM.fullmatch(name) for name in listed):
        raise Malformed("release.files has to name 1 to 8 platforms")
    return Release(
        version=fields.matching("version", _VERSION, "version"),
        issued_at=fields.time("issued_at"),
        expires_at=fields.time("expires_at"),
        files={name: _file(value, name) for name, value in listed.items()},
        downgrade=fields.typed("downgrade", bool),
        revert=fields.typed("revert", bool),
    )


def _file(value: object, name: str) -> Blob:
    fields = Fields(value, f"release.files.{name}", "sha256 size")
    digest = fields.matching("sha256", _DIGEST, "SHA-256 digest")
    return Blob(digest, fields.integer("size", 1, MAX_FILE_BYTES))


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"the offer is not base64: {error}") from error
