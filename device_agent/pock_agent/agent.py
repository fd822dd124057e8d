"""Puts the parts together: enrolment, and the loop of listening and working."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from pathlib import Path

from pock_agent import backoff
from pock_agent.errors import AgentError, Refused, ServiceError, Untrusted
from pock_agent.facts import device_facts
from pock_agent.heartbeat import Heartbeat
from pock_agent.identity import Counters, Identity, create_key, load_key, public_key_from_text, public_text
from pock_agent.job import JobRecord
from pock_agent.keyring import Keyring, keep
from pock_agent.life import State
from pock_agent.listener import Listener
from pock_agent.service import USER_AGENT, Service
from pock_agent.service import enroll as request_enrollment
from pock_agent.settings import Settings
from pock_agent.storage import JsonObject, StateDirectory, read_json
from pock_agent.target import detect_target
from pock_agent.transport import HttpClient
from pock_agent.trust import pin
from pock_agent.worker import Device, Worker

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Enrollment:
    """What a person gives to enrol a device. `target` None means: find out."""

    url: str
    token: str
    name: str
    target: str | None


def enroll(wish: Enrollment, state: StateDirectory, settings: Settings) -> Identity:
    """Make a key, trade the token for an identity, pin the service's key. Nothing is kept when the service refuses."""
    client = HttpClient(wish.url, USER_AGENT)
    target = wish.target or detect_target(wish.url)
    if target is None:
        raise AgentError("this kind of device is unknown here; name its target with --target (see: pock targets)")
    state.create()
    state.lock()
    try:
        present = read_json(state.identity)
        if present is not None:
            raise AgentError(
                f"{state.root} is already enrolled at {present.get('url')} as {present.get('name')!r}; "
                "use another --state-dir, or remove it to enrol anew"
            )
        facts = device_facts(target, state.root)
        key = create_key(state.key)
        try:
            answer = request_enrollment(client, settings, wish.token, wish.name, public_text(key), facts)
        except ServiceError as error:
            raise AgentError(f"enrolment failed: {error.detail}") from error
        identity = _identity(answer, wish, target)
        _pin_trust(answer, identity, state)
        identity.save(state)
        return identity
    finally:
        state.unlock()


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
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"the service's answer to the enrolment is incomplete: {error!r}") from error


def _pin_trust(answer: JsonObject, identity: Identity, state: StateDirectory) -> None:
    """Keep the trust document that came with the enrolment; a service of before has none, and pins its one key."""
    if answer.get("trust") is None:
        state.trust.unlink(missing_ok=True)
        return
    try:
        trust = pin(answer["trust"])
    except Untrusted as error:
        raise AgentError(f"the service's trust document is not good: {error}") from error
    if identity.key_id not in trust.signing_keys:
        raise AgentError(f"the service's trust document does not name its own signing key {identity.key_id!r}")
    keep(state, identity.device_id, answer["trust"])


def run(state: StateDirectory, settings: Settings, once: bool = False) -> bool:
    """Listen and work until stopped; with `once`, until one job is over. Whether the last job succeeded.

    Raises AgentError when the directory is in use or not enrolled, NotWelcome when the service expelled the device.
    """
    state.lock()
    try:
        identity = Identity.load(state)
        keys = Keyring(state, identity, settings)
        counters = Counters(state)
        service = Service(identity, load_key(state.key), counters, settings)
        heartbeat = Heartbeat(
            service, settings, identity.heartbeat_seconds, lambda: device_facts(identity.target, state.root)
        )
        listener = Listener(state, identity, keys, counters, service, settings)
        heartbeat.start()
        try:
            return _work(listener, Device(state, service, heartbeat, settings), once)
        finally:
            heartbeat.stop()
    finally:
        state.unlock()


def _work(listener: Listener, device: Device, once: bool) -> bool:
    job = listener.interrupted_job()
    refusals = 0
    while True:
        try:
            record, manifest = job or listener.next_job()
        except Refused:
            if once:
                return False
            refusals += 1
            time.sleep(backoff.delay(device.settings, refusals))
            continue
        job, refusals = None, 0
        final = Worker(device, record, manifest).carry_out()
        log.info("run %s: %s", manifest.run_id, final.state.value)
        if once:
            return _succeeded(final)


def _succeeded(record: JobRecord) -> bool:
    return record.state is State.REPORTED and (record.result or {}).get("state") == "succeeded"


def status(root: Path) -> JsonObject:
    """What `pock-agent status` shows; AgentError when nothing is enrolled there."""
    state = StateDirectory(root)
    identity = Identity.load(state)
    keys = Keyring(state, identity, Settings())
    record = read_json(state.job)
    return {
        "device_id": identity.device_id,
        "name": identity.name,
        "url": identity.url,
        "target": identity.target,
        "state_dir": str(root),
        "trust_version": keys.version,
        "signing_keys": list(keys.key_ids),
        "running_process": state.running_process(),
        "job": None if record is None else {"state": record.get("state"), "starts": record.get("starts")},
        "last_job": read_json(state.last_job),
    }
