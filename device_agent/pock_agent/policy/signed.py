"""The service's policies: signed for this device, believed like work, and kept for when the service is out of reach.

There are two: the pool's and the device's own. A counter that only grows keeps an old one from coming back.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json, write_json
from pock_agent.errors import AgentError, Refused
from pock_agent.policy.rules import BadPolicy, Policy, parse
from pock_agent.trust.fields import Fields, Malformed, parse_signed
from pock_agent.trust.keyring import Keyring
from pock_agent.values import JsonObject

CONTEXT = b"pock-policy\n"
MAX_BYTES = 32 * 1024
SOURCES = {"pool": "the pool's policy", "device": "this device's policy at the service"}
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ServicePolicies:
    """What the service set. `digest` names the contents to the service; "" before there was any."""

    counter: int = 0
    digest: str = ""
    policies: tuple[tuple[str, Policy], ...] = ()


def open_policies(
    envelope: object, device_id: str, keyring: Keyring, counter: int
) -> tuple[ServicePolicies, JsonObject]:
    """The policies in a signed envelope, and their text to keep; Refused unless they are newer than `counter`."""
    try:
        fields = Fields(envelope, "the policy", "payload key_id signature")
        key = keyring.signing_key(fields.raw("key_id"))
        if key is None:
            raise Refused(f"the policy is signed by key {fields.raw('key_id')!r}, which this device does not trust")
        payload = _decode(fields.typed("payload", str))
        if len(payload) > MAX_BYTES:
            raise Malformed(f"the policy is longer than {MAX_BYTES} bytes")
        key.verify(_decode(fields.typed("signature", str)), CONTEXT + payload)
        text = Fields(parse_signed(payload), "policy", "type format device_id counter issued_at digest policies")
        if text.typed("type", str) != "pock-policy" or text.typed("format", int) != 1:
            raise Malformed("policy is of another type or format; update this agent if the service is newer")
        if text.typed("device_id", str) != device_id:
            raise Refused(f"the policy is for device {text.raw('device_id')!r}, and this is {device_id!r}")
        number = text.integer("counter", low=1)
        if number <= counter:
            raise Refused(f"the policy has counter {number}, and {counter} was already taken: a replay")
        kept: JsonObject = {
            "device_id": device_id,
            "counter": number,
            "digest": text.matching("digest", _DIGEST, "SHA-256 digest"),
            "policies": text.typed("policies", dict),
        }
        return _policies(kept), kept
    except InvalidSignature as error:
        raise Refused("the signature does not match the policy; nothing of it was used") from error
    except (Malformed, BadPolicy) as error:
        raise Refused(str(error)) from error


def kept_policies(directory: StateDirectory, device_id: str) -> ServicePolicies:
    """What was kept for this device; nothing where another device's was."""
    stored = read_json(directory.policies)
    if stored is None or stored.get("device_id") != device_id:
        return ServicePolicies()
    try:
        return _policies(stored)
    except (KeyError, TypeError, ValueError, BadPolicy) as error:
        raise AgentError(
            f"{directory.policies} is damaged ({error}); remove it, and the service sends it anew"
        ) from error


def keep(directory: StateDirectory, text: JsonObject) -> None:
    """Store the text, durably."""
    write_json(directory.policies, text)


def _policies(kept: JsonObject) -> ServicePolicies:
    listed = Fields(kept["policies"], "policy.policies", " ".join(SOURCES))
    found = [(SOURCES[name], parse(value)) for name in SOURCES if (value := listed.raw(name)) is not None]
    return ServicePolicies(int(kept["counter"]), str(kept["digest"]), tuple(found))


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Malformed(f"the policy is not base64: {error}") from error
