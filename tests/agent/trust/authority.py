"""Who holds the root keys of a test, and what a device believes of them."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from pock_agent.connection.service import Service
from pock_agent.disk.counters import Counters
from pock_agent.disk.identity import load_key
from tests.agent.conftest import Device
from tests.agent.driver import FAST
from tests.agent.service_double import (
    ServiceDouble,
    key_id_of,
    public_text,
    sign_trust,
    trust_text,
)

Key = Ed25519PrivateKey


class Authority:
    """Who holds the root keys, and signs documents for the double."""

    def __init__(self, double: ServiceDouble) -> None:
        self.double = double
        self.root, self.other_root, self.stranger = (Key.generate() for _ in range(3))
        self.next_key = Key.generate()
        double.key_id = key_id_of(double.key)
        double.chain = [sign_trust(self.text(1, double.key), [self.root])]

    def text(self, version: int, signing: Key | None = None, roots: list[Key] | None = None, **changes: Any) -> Any:
        """What a version says; of version 2 on, the next signing key signs unless another is given."""
        return {**trust_text(version, roots or [self.root], [signing or self.next_key]), **changes}

    def publish(self, document: dict[str, Any]) -> None:
        self.double.chain.append(document)

    def rotate(self) -> None:
        """A new signing key in a proper next version, and the service signs with it."""
        self.publish(sign_trust(self.text(len(self.double.chain) + 1), [self.root]))
        self.double.key, self.double.key_id = self.next_key, key_id_of(self.next_key)


def service_of(device: Device) -> Service:
    return Service(device.identity, load_key(device.state.key), Counters(device.state), FAST)


def catch_up(device: Device, newest: int = 2) -> int | None:
    """What the device believes after it was told of a version; memory and disk agree."""
    keys = device.keys
    keys.catch_up(service_of(device), newest)
    assert device.keys.version == keys.version and device.keys.key_ids == keys.key_ids
    return keys.version


def two_of_two(a: Authority, signers: list[Key]) -> dict[str, Any]:
    """A version 2 of which two root keys have to sign."""
    keys = {"keys": [public_text(a.root), public_text(a.other_root)], "threshold": 2}
    return sign_trust(a.text(2, root=keys), signers)
