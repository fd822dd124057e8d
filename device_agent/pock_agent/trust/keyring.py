"""The keys that this device believes: those of its trust document, or the one that it pinned when it enrolled.

The document lies in `trust.json`, written whole before it is used: killed at any point, the agent has one version or
the next.
"""

from __future__ import annotations

import logging
import time

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from pock_agent.connection import backoff
from pock_agent.connection.service import Service
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json, write_json
from pock_agent.disk.identity import Identity, public_key_from_text
from pock_agent.errors import AgentError, ServiceCode, ServiceError, Unreachable, Untrusted
from pock_agent.settings import Settings
from pock_agent.trust.document import Trust, follow, introduced, pin
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)
_STEPS = 64
"""Versions that are fetched at once; whoever makes up an endless chain is asked for more at the next poll only."""


def store_document(directory: StateDirectory, device_id: str, document: JsonObject) -> None:
    """Store the document for this device, durably."""
    write_json(directory.trust, {"device_id": device_id, "document": document})


class Keyring:
    """See the module."""

    def __init__(self, directory: StateDirectory, identity: Identity, settings: Settings) -> None:
        self._directory, self._identity, self._settings = directory, identity, settings
        self._trust = _stored(directory, identity)
        self._failures, self._not_before = 0, 0.0

    @property
    def trust(self) -> Trust | None:
        """The document; None on a device that only pinned a key."""
        return self._trust

    @property
    def version(self) -> int | None:
        """The document's version."""
        return None if self._trust is None else self._trust.version

    @property
    def key_ids(self) -> tuple[str, ...]:
        """The keys that may sign work."""
        return (self._identity.key_id,) if self._trust is None else tuple(self._trust.signing_keys)

    def signing_key(self, key_id: object) -> Ed25519PublicKey | None:
        """The key of this id if it may sign work."""
        if not isinstance(key_id, str):
            return None
        if self._trust is not None:
            return self._trust.signing_keys.get(key_id)
        return public_key_from_text(self._identity.server_public_key) if key_id == self._identity.key_id else None

    def catch_up(self, service: Service, newest: int) -> None:
        """Fetch the versions up to `newest`, each believed because of the one before.

        Trouble is logged: what the device has still holds, and it tries again later. Raises NotWelcome when the service
        expels the device.
        """
        if newest <= (self.version or 0) or time.monotonic() < self._not_before:
            return
        try:
            for _ in range(_STEPS):
                if newest <= (self.version or 0) or not self._step(service):
                    break
            self._failures, self._not_before = 0, 0.0
        except (Unreachable, ServiceError, Untrusted, OSError) as error:
            self._failures += 1
            pause = backoff.delay(self._settings, self._failures, error if isinstance(error, ServiceError) else None)
            self._not_before = time.monotonic() + pause
            log.error("the trust document after version %s is not used: %s", self.version or "none", error)

    def _step(self, service: Service) -> bool:
        """Take one version more; False when the service has none."""
        try:
            if self._trust is None:
                answer = service.introduction()
                key = public_key_from_text(self._identity.server_public_key)
                trust = introduced(answer, self._identity.device_id, self._identity.key_id, key)
                document = answer["document"]
            else:
                document = service.trust_document(self._trust.version + 1)
                trust = follow(document, self._trust)
        except ServiceError as error:
            if error.failure_code == ServiceCode.NOT_FOUND:
                return False
            raise
        store_document(self._directory, self._identity.device_id, document)
        self._trust = trust
        log.info("trust document %d: work is signed by %s", trust.version, ", ".join(trust.signing_keys))
        return True


def _stored(directory: StateDirectory, identity: Identity) -> Trust | None:
    stored = read_json(directory.trust)
    if stored is None:
        return None
    try:
        if stored["device_id"] != identity.device_id:
            raise Untrusted("it belongs to another device")
        return pin(stored["document"])
    except (KeyError, Untrusted) as error:
        raise AgentError(f"{directory.trust} is damaged ({error}); enrol again in a new state directory") from error
