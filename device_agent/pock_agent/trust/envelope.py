"""Whether an envelope was signed by a key that this device believes, for this device, now, and for the first time.

`open_envelope` says who wrote it and what it says; `admit` says whether it may be accepted now. A job that was accepted
before a restart only goes through the first again.
"""

from __future__ import annotations

import base64
import binascii

from cryptography.exceptions import InvalidSignature

from pock_agent.disk.counters import CounterValues
from pock_agent.disk.identity import Identity
from pock_agent.errors import Refused
from pock_agent.trust.document import Trust
from pock_agent.trust.fields import Malformed, parse_signed
from pock_agent.trust.keyring import Keyring
from pock_agent.trust.manifest import Manifest, parse
from pock_agent.values import JsonObject, format_time

_ENVELOPE_FIELDS = {"payload", "key_id", "signature"}


def open_envelope(envelope: JsonObject, identity: Identity, keyring: Keyring) -> Manifest:
    """The manifest inside, once the signature holds and it is addressed to this device; else Refused."""
    if set(envelope) != _ENVELOPE_FIELDS:
        raise Refused(f"the envelope has the fields {sorted(map(str, envelope))} instead of {sorted(_ENVELOPE_FIELDS)}")
    key = keyring.signing_key(envelope["key_id"])
    if key is None:
        believed = ", ".join(repr(key_id) for key_id in keyring.key_ids)
        raise Refused(f"the work is signed by key {envelope['key_id']!r}, and this device trusts {believed}")
    payload = _decode(envelope["payload"], "payload")
    try:
        key.verify(_decode(envelope["signature"], "signature"), payload)
    except InvalidSignature as error:
        raise Refused("the signature does not match the work; nothing of it was used") from error
    return _read(payload, identity)


def admit(manifest: Manifest, counters: CounterValues, now: float, trust: Trust | None) -> None:
    """Refuse work that was seen before or has expired, and all work once the trust document has.

    `now` is this device's clock. Devices without a battery-backed clock start in the past, so the latest time that the
    service ever signed counts as well: a clock set back cannot revive old work, nor an old document.
    """
    if manifest.counter <= counters.work:
        raise Refused(f"the work has counter {manifest.counter}, and {counters.work} was already accepted: a replay")
    known_time = max(now, counters.signed_time, trust.issued_at if trust is not None else 0.0)
    if known_time >= manifest.expires_at:
        raise Refused(
            f"the work expired at {format_time(manifest.expires_at)} and it is {format_time(known_time)} here; "
            "check this device's clock",
            manifest.run_id,
            manifest.fence,
            for_now=True,
        )
    if trust is not None and known_time >= trust.expires_at:
        raise Refused(
            f"trust document {trust.version} expired at {format_time(trust.expires_at)} and it is "
            f"{format_time(known_time)} here; check this device's clock, or have the service publish the next version",
            manifest.run_id,
            manifest.fence,
            for_now=True,
        )


def _read(payload: bytes, identity: Identity) -> Manifest:
    try:
        value = parse_signed(payload)
    except Malformed as error:
        raise Refused(f"the signed work is {error}") from error
    addressee = value.get("device_id") if isinstance(value, dict) else None
    if not isinstance(value, dict) or addressee != identity.device_id:
        raise Refused(f"the work is for device {addressee!r}, and this is {identity.device_id!r}")
    try:
        return parse(value)
    except Malformed as error:
        raise Refused(str(error), _text(value.get("run_id")), _number(value.get("fence"))) from error


def _decode(value: object, name: str) -> bytes:
    try:
        return base64.b64decode(value, validate=True) if isinstance(value, str) else _not_text(name)
    except (binascii.Error, ValueError) as error:
        raise Refused(f"the envelope's {name} is not base64: {error}") from error


def _not_text(name: str) -> bytes:
    raise ValueError(f"{name} is not text")


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.replace("-", "").isalnum() else None


def _number(value: object) -> int | None:
    return value if type(value) is int else None
