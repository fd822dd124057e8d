"""Sets and shows policies, and signs them for the devices that have to follow them."""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, Subject, changed, record
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.features import Feature, require
from pock_server.devices.repository import Devices
from pock_server.devices.resting import rest_of
from pock_server.devices.schemas import SignedPolicy
from pock_server.devices.sessions import AgentCaller
from pock_server.devices.tables import DeviceRecord
from pock_server.devices.trust import signer_for
from pock_server.http.fields import canonical_json
from pock_server.http.problems import Failure, Problem
from pock_server.policies.repository import Effective, Policies
from pock_server.policies.schemas import NO_VERSION, DevicePolicyOut, Policy, PoolPolicyOut
from pock_server.policies.tables import PolicyRecord
from pock_server.services import Services

_CONTEXT = b"pock-policy\n"
"""Before what is signed: no signature over work is one over a policy."""


def digest_of(found: Effective) -> str:
    """Names what a device has to follow: by it, a device tells what it keeps."""
    return hashlib.sha256(canonical_json(_contents(found)).encode()).hexdigest()


def _contents(found: Effective) -> dict[str, Any]:
    return {"pool": found.pool, "device": found.device}


MAX_POOLS = 1000
"""Policies of pools in a workspace."""
_NOTHING = digest_of(Effective(None, None))


@dataclass(frozen=True)
class Order:
    """Rules to set, in place of those of the version `expected`; None: of whatever is there."""

    rules: Policy
    expected: str | None = None


def version_of(rules: dict[str, Any] | None) -> str:
    """Names the rules of one policy, so that who changes them can say which ones they saw."""
    return NO_VERSION if rules is None else hashlib.sha256(canonical_json(rules).encode()).hexdigest()


def set_device(unit: Unit, workspace_id: str, device_id: str, order: Order, now: datetime) -> DeviceRecord:
    """Set the device's own policy; a 409 `Problem` if its agent knows none, or somebody has changed it meanwhile."""
    device = Devices(unit.session, workspace_id).require(device_id, lock=True)
    require(device, Feature.POLICIES)
    row = Policies(unit.session, workspace_id).of_device(device_id)
    _set(unit, row, PolicyRecord(workspace_id=workspace_id, device_id=device_id), order, device.name, now)
    return device


def set_pool(unit: Unit, workspace_id: str, pool: str, order: Order, now: datetime) -> PoolPolicyOut:
    """Set the policy of all devices that are in the pool, or come into it; those with agents that know none ignore
    it. A 409 `Problem` if somebody has changed it meanwhile."""
    policies = Policies(unit.session, workspace_id)
    row = policies.of_pool(pool, lock=True)
    if row is None and policies.count(PolicyRecord.pool.is_not(None)) >= MAX_POOLS:
        detail = f"{MAX_POOLS} pools have policies, and no more may; take away those of pools without devices."
        raise Problem(Failure.STATE_CONFLICT, detail)
    rules = _set(unit, row, PolicyRecord(workspace_id=workspace_id, pool=pool), order, pool, now)
    return PoolPolicyOut(pool=pool, policy=order.rules, version=version_of(rules))


def _set(
    unit: Unit, row: PolicyRecord | None, new: PolicyRecord, order: Order, name: str, now: datetime
) -> dict[str, Any]:
    """The rules as they are kept."""
    rules = order.rules.model_dump(exclude_defaults=True)
    if row is None or row.rules != rules:  # a request may be repeated
        _check_unchanged(row, order.expected, name)
    before = {} if row is None else row.rules
    if row is None:
        row, new.id, new.created_at = new, new_id(now), now
        unit.session.add(row)
    row.rules, row.changed_at = rules, now
    unit.session.flush()
    changes = changed(before, rules)
    if changes or row is new:
        subject = Subject(row.device_id or row.id, row.workspace_id)
        record(unit, Action.POLICY_SET, subject, name, now, changes)
    return rules


def _check_unchanged(row: PolicyRecord | None, expected: str | None, name: str) -> None:
    if expected is not None and version_of(None if row is None else row.rules) != expected:
        detail = f"The policy of {name} is not the one that this is to replace; look at what it says now."
        raise Problem(Failure.CHANGED_MEANWHILE, detail)


def remove_device(unit: Unit, workspace_id: str, device_id: str, expected: str | None, now: datetime) -> None:
    """Take the device's own policy away; harmless if it has none, a 409 `Problem` if it is not the one expected."""
    device = Devices(unit.session, workspace_id).require(device_id, lock=True)
    _remove(unit, Policies(unit.session, workspace_id).of_device(device_id), expected, device.name, now)


def remove_pool(unit: Unit, workspace_id: str, pool: str, expected: str | None, now: datetime) -> None:
    """Take the pool's policy away; a 404 `Problem` if it has none, a 409 one if it is not the one expected."""
    _remove(unit, _required(Policies(unit.session, workspace_id).of_pool(pool, lock=True), pool), expected, pool, now)


def _remove(unit: Unit, row: PolicyRecord | None, expected: str | None, name: str, now: datetime) -> None:
    if row is None:
        return
    _check_unchanged(row, expected, name)
    subject = Subject(row.device_id or row.id, row.workspace_id)
    record(unit, Action.POLICY_REMOVE, subject, name, now, changed(row.rules, {}))
    unit.session.delete(row)


def show_device(policies: Policies, device: DeviceRecord) -> DevicePolicyOut:
    """What the device may do when, as the API shows it."""
    found = policies.effective(device)
    wanted = digest_of(found)
    return DevicePolicyOut(
        policy=None if found.device is None else Policy(**found.device),
        version=version_of(found.device),
        pool=device.pool,
        pool_policy=None if found.pool is None else Policy(**found.pool),
        pool_version=version_of(found.pool),
        known=device.policy_digest == wanted or (wanted == _NOTHING and device.policy_digest is None),
        resting=rest_of(device),
    )


def show_pool(policies: Policies, pool: str) -> PoolPolicyOut:
    """The pool's policy; a 404 `Problem` if it has none."""
    rules = _required(policies.of_pool(pool), pool).rules
    return PoolPolicyOut(pool=pool, policy=Policy(**rules), version=version_of(rules))


def _required(row: PolicyRecord | None, pool: str) -> PolicyRecord:
    if row is None:
        raise Problem(Failure.NOT_FOUND, f"Pool {pool} has no policy.")
    return row


def newer(services: Services, agent: AgentCaller, told: str) -> SignedPolicy | None:
    """What a device that keeps the policies of the digest `told` ("" for none) has to keep instead, if anything."""
    kept = told or _NOTHING
    with services.database.read() as session:
        device = Devices(session, agent.workspace_id).require(agent.device_id)
        wanted = digest_of(Policies(session, agent.workspace_id).effective(device))
        if kept == wanted and (device.policy_digest or _NOTHING) == kept:
            return None
    with services.database.write() as unit:
        device = Devices(unit.session, agent.workspace_id).require(agent.device_id, lock=True)
        found = Policies(unit.session, agent.workspace_id).effective(device)
        device.policy_digest = kept
        if digest_of(found) == kept:
            return None
        device.policy_counter += 1
        return _seal(unit, services, device, found)


def _seal(unit: Unit, services: Services, device: DeviceRecord, found: Effective) -> SignedPolicy:
    signer = signer_for(unit.session, services.keys, device, device.trust_version)
    payload = {
        "type": "pock-policy",
        "format": 1,
        "device_id": device.id,
        "counter": device.policy_counter,
        "issued_at": services.clock.now().isoformat(),
        "digest": digest_of(found),
        "policies": _contents(found),
    }
    raw = json.dumps(payload, sort_keys=True, separators=(",", ":")).encode()
    return SignedPolicy(
        payload=base64.b64encode(raw).decode(), key_id=signer.key_id, signature=signer.sign(_CONTEXT + raw)
    )
