"""Puts the parts together, and goes round: listen for a job, carry it out, listen again."""

from __future__ import annotations

import logging
import time
from pathlib import Path

from pock_agent import __version__
from pock_agent.connection import backoff
from pock_agent.connection.heartbeat import Heartbeat
from pock_agent.connection.service import Service
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import read_json
from pock_agent.disk.identity import Identity, load_key
from pock_agent.disk.local_data import LocalData
from pock_agent.errors import AgentError, Away, Refused
from pock_agent.job.record import JobRecord, load_job, manifest_of
from pock_agent.job.states import State
from pock_agent.job.worker import Resources, Worker
from pock_agent.life.listener import Listener
from pock_agent.life.local_data import LocalDataTopic
from pock_agent.place.choice import HERE, Wish, place_for
from pock_agent.place.place import Place
from pock_agent.policy.keeper import PolicyKeeper, PolicyTopic
from pock_agent.settings import Settings
from pock_agent.trust.keyring import Keyring
from pock_agent.update.standing import Standing
from pock_agent.update.updater import Surroundings, Updater
from pock_agent.values import JsonObject

log = logging.getLogger(__name__)


def run(directory: StateDirectory, settings: Settings, once: bool = False, wish: Wish = HERE) -> bool:
    """Listen and work until stopped; with `once`, until one job is over. Whether the last job succeeded.

    Raises AgentError when the directory is in use or not enrolled, NotWelcome when the service expelled the device,
    Replaced when the launcher is to start another version of the agent.
    """
    directory.lock()
    try:
        identity = Identity.load(directory)
        place = place_for(wish, identity.adb, identity.device_id)
        keyring = Keyring(directory, identity, settings)
        counters = Counters(directory)
        service = Service(identity, load_key(directory.key), counters, settings)
        policies = PolicyKeeper(directory, identity.device_id, settings, place)
        heartbeat = Heartbeat(
            service,
            settings,
            identity.heartbeat_seconds,
            lambda: _facts(place, identity, directory),
            (PolicyTopic(policies, keyring), LocalDataTopic(LocalData(directory), service)),
        )
        around = Surroundings(directory, identity, keyring, counters, service, settings)
        updater = Updater(around, lambda: policies.verdict().reason or None)
        listener = Listener(around, updater, policies)
        heartbeat.start()
        try:
            updater.begin()
            _clear(place, directory)
            return _work(listener, Resources(directory, service, heartbeat, policies, settings, place), once)
        finally:
            heartbeat.stop()
    finally:
        directory.unlock()


def _facts(place: Place, identity: Identity, directory: StateDirectory) -> JsonObject | None:
    """None while the place cannot be reached: the service keeps what it was told."""
    try:
        return place.facts(identity.target, directory.root)
    except AgentError as error:
        log.warning("no facts: %s", error)
        return None


def _clear(place: Place, directory: StateDirectory) -> None:
    """Remove what a job left that was in hand when the agent was killed."""
    try:
        place.clear(directory.job_folder)
    except Away as error:
        log.warning("%s", error)


def _work(listener: Listener, resources: Resources, once: bool) -> bool:
    job = listener.interrupted_job()
    refusals = 0
    while True:
        try:
            record, manifest = job or listener.next_job()
        except Refused:
            if once:
                return False
            refusals += 1
            time.sleep(backoff.delay(resources.settings, refusals))
            continue
        job, refusals = None, 0
        final = Worker(resources, record, manifest).carry_out()
        log.info("run %s: %s", manifest.run_id, final.state.value)
        if once:
            return _succeeded(final)


def _succeeded(record: JobRecord) -> bool:
    return record.state is State.REPORTED and (record.result or {}).get("state") == "succeeded"


def status(root: Path) -> JsonObject:
    """What `pock-agent status` shows; AgentError when nothing is enrolled there."""
    directory = StateDirectory(root)
    identity = Identity.load(directory)
    keyring = Keyring(directory, identity, Settings())
    record = read_json(directory.job_record)
    return {
        "device_id": identity.device_id,
        "name": identity.name,
        "url": identity.url,
        "target": identity.target,
        "adb": identity.adb,
        "state_dir": str(root),
        "version": __version__,
        "update": Standing(directory).read(),
        "trust_version": keyring.version,
        "signing_keys": list(keyring.key_ids),
        "running_process": directory.running_process(),
        "job": None if record is None else {"state": record.get("state"), "starts": record.get("starts")},
        "last_job": read_json(directory.last_job),
    }


def self_check(root: Path) -> None:
    """Read all that an agent keeps there, changing nothing; raises AgentError for what this version cannot read."""
    directory = StateDirectory(root)
    identity = Identity.load(directory)
    load_key(directory.key)
    Counters(directory)
    keyring = Keyring(directory, identity, Settings())
    record = load_job(directory)
    if record is not None:
        manifest_of(record, identity, keyring)
    Standing(directory).read()
