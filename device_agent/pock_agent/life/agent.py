"""Puts the parts together, and goes round: listen for a job, carry it out, listen again."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from pock_agent.connection import backoff
from pock_agent.connection.heartbeat import Heartbeat
from pock_agent.connection.service import Service
from pock_agent.device.facts import device_facts
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json
from pock_agent.disk.identity import Identity, load_key
from pock_agent.errors import Refused
from pock_agent.job.record import JobRecord
from pock_agent.job.states import State
from pock_agent.job.worker import Device, Worker
from pock_agent.life.listener import Listener
from pock_agent.settings import Settings
from pock_agent.trust.keyring import Keyring
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


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
