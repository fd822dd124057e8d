"""Enrols this device: a one-time token becomes an identity, and the service's keys are pinned."""

from __future__ import annotations

from dataclasses import dataclass

from pock_agent.connection.service import USER_AGENT
from pock_agent.connection.service import enroll as request_enrollment
from pock_agent.connection.transport import HttpClient
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json
from pock_agent.disk.identity import Identity, create_key, public_key_from_text, public_text
from pock_agent.errors import AgentError, ServiceError, Untrusted
from pock_agent.place.place import Place
from pock_agent.settings import Settings
from pock_agent.trust.document import pin
from pock_agent.trust.keyring import store_document
from pock_agent.values import JsonObject


@dataclass(frozen=True)
class Enrollment:
    """What a person gives to enrol a device. `target` None means: find out. `adb` is the serial of the phone
    that jobs are to run on, None for this machine."""

    url: str
    token: str
    name: str
    target: str | None
    adb: str | None = None


def enroll(wish: Enrollment, directory: StateDirectory, settings: Settings, place: Place) -> Identity:
    """Make a key, trade the token for an identity, pin the service's key. Nothing is kept when the service refuses."""
    client = HttpClient(wish.url, USER_AGENT)
    target = wish.target or place.detect_target(wish.url)
    if target is None:
        raise AgentError("this kind of device is unknown here; name its target with --target (see: pock targets)")
    directory.create()
    directory.lock()
    try:
        present = read_json(directory.identity)
        if present is not None:
            raise AgentError(
                f"{directory.root} is already enrolled at {present.get('url')} as {present.get('name')!r}; "
                "use another --state-dir, or remove it to enrol anew"
            )
        facts = place.facts(target, directory.root)
        key = create_key(directory.key)
        try:
            answer = request_enrollment(client, settings, wish.token, wish.name, public_text(key), facts)
        except ServiceError as error:
            raise AgentError(f"enrolment failed: {error.detail}") from error
        identity = _identity(answer, wish, target)
        _pin_trust(answer, identity, directory)
        identity.save(directory)
        return identity
    finally:
        directory.unlock()


def _identity(answer: JsonObject, wish: Enrollment, target: str) -> Identity:
    try:
        public_key_from_text(answer["server_public_key"])
        return Identity(
            device_id=str(answer["device_id"]),
            name=wish.name,
            url=wish.url,
            target=target,
            server_public_key=answer["server_public_key"],
            key_id=str(answer["key_id"]),
            heartbeat_seconds=float(answer["heartbeat_seconds"]),
            poll_seconds=float(answer["poll_seconds"]),
            adb=wish.adb,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"the service's answer to the enrolment is incomplete: {error!r}") from error


def _pin_trust(answer: JsonObject, identity: Identity, directory: StateDirectory) -> None:
    """Keep the trust document that came with the enrolment; a service of before has none, and pins its one key."""
    if answer.get("trust") is None:
        directory.trust.unlink(missing_ok=True)
        return
    try:
        trust = pin(answer["trust"])
    except Untrusted as error:
        raise AgentError(f"the service's trust document is not good: {error}") from error
    if identity.key_id not in trust.signing_keys:
        raise AgentError(f"the service's trust document does not name its own signing key {identity.key_id!r}")
    store_document(directory, identity.device_id, answer["trust"])
