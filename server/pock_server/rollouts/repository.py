"""Queries on rollouts and their devices."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, func, select, update
from sqlalchemy.orm import Session

from pock_server.agent_releases.tables import AgentReleaseRecord
from pock_server.db.repository import Repository
from pock_server.devices.tables import DeviceRecord
from pock_server.rollouts.lifecycle import UNFINISHED
from pock_server.rollouts.states import RolloutState, UpdateState
from pock_server.rollouts.tables import RolloutDeviceRecord, RolloutRecord


class Rollouts(Repository[RolloutRecord]):
    """The rollouts of one workspace."""

    row_class = RolloutRecord
    noun = "rollout"

    def counts(self, rollouts: Collection[str]) -> dict[str, dict[UpdateState, int]]:
        """How many devices of each rollout are in each state."""
        mine = (RolloutDeviceRecord.workspace_id == self.workspace_id, RolloutDeviceRecord.rollout_id.in_(rollouts))
        query = select(RolloutDeviceRecord.rollout_id, RolloutDeviceRecord.state, func.count()).where(*mine)
        found: dict[str, dict[UpdateState, int]] = {one: {} for one in rollouts}
        for rollout_id, state, count in self.session.execute(
            query.group_by(RolloutDeviceRecord.rollout_id, RolloutDeviceRecord.state)
        ):
            found[rollout_id][UpdateState(state)] = count
        return found


class RolloutDevices(Repository[RolloutDeviceRecord]):
    """The devices of the rollouts of one workspace."""

    row_class = RolloutDeviceRecord
    noun = "device of a rollout"

    def of(self, rollout_id: str, device_id: str, lock: bool = False) -> RolloutDeviceRecord | None:
        """One device of one rollout."""
        query = self.select().where(
            RolloutDeviceRecord.rollout_id == rollout_id, RolloutDeviceRecord.device_id == device_id
        )
        if lock:
            query = query.with_for_update().execution_options(populate_existing=True)
        return self.session.scalars(query).one_or_none()

    def busy(self, devices: Collection[str]) -> RolloutDeviceRecord | None:
        """One of these devices that another rollout, which is not over, is about to change; None if there is none."""
        query = self.select().join(RolloutRecord, RolloutRecord.id == RolloutDeviceRecord.rollout_id)
        open_ones = RolloutDeviceRecord.state.in_((UpdateState.PENDING, UpdateState.OFFERED, UpdateState.INSTALLING))
        mine = (RolloutDeviceRecord.device_id.in_(devices), RolloutRecord.state.in_(UNFINISHED))
        return self.session.scalars(query.where(*mine, open_ones | RolloutDeviceRecord.reverting).limit(1)).first()

    def change(
        self, rollout_id: str, conditions: Sequence[ColumnElement[bool]], values: Mapping[str, Any], now: datetime
    ) -> list[str]:
        """Change the devices of the rollout that meet the conditions; their ids."""
        changed = (
            update(RolloutDeviceRecord)
            .where(RolloutDeviceRecord.workspace_id == self.workspace_id, RolloutDeviceRecord.rollout_id == rollout_id)
            .where(*conditions)
            .values(changed_at=now, **values)
            .returning(RolloutDeviceRecord.device_id)
            .execution_options(synchronize_session=False)
        )
        return list(self.session.scalars(changed))

    def standings(self, rollout_id: str, since: datetime) -> list[tuple[int, str, bool, int]]:
        """(stage, state, whether it is there, count) of the rollout's devices."""
        there = (DeviceRecord.last_seen_at.is_not(None)) & (DeviceRecord.last_seen_at >= since)
        query = (
            select(RolloutDeviceRecord.stage, RolloutDeviceRecord.state, there, func.count())
            .join(DeviceRecord, DeviceRecord.id == RolloutDeviceRecord.device_id)
            .where(RolloutDeviceRecord.workspace_id == self.workspace_id, RolloutDeviceRecord.rollout_id == rollout_id)
            .group_by(RolloutDeviceRecord.stage, RolloutDeviceRecord.state, there)
        )
        return [(stage, state, seen, count) for stage, state, seen, count in self.session.execute(query)]


def offered(session: Session, device_id: str) -> str | None:
    """The rollout that offers something to the device. Asked with every poll: one query by an index."""
    query = select(RolloutDeviceRecord.rollout_id).where(
        RolloutDeviceRecord.device_id == device_id, RolloutDeviceRecord.offering
    )
    return session.scalars(query.limit(1)).first()


def offer_of(session: Session, device_id: str) -> tuple[RolloutDeviceRecord, RolloutRecord, AgentReleaseRecord] | None:
    """What is offered to the device."""
    query = (
        select(RolloutDeviceRecord, RolloutRecord, AgentReleaseRecord)
        .join(RolloutRecord, RolloutRecord.id == RolloutDeviceRecord.rollout_id)
        .join(AgentReleaseRecord, AgentReleaseRecord.id == RolloutRecord.release_id)
        .where(RolloutDeviceRecord.device_id == device_id, RolloutDeviceRecord.offering)
    )
    found = session.execute(query.limit(1)).first()
    return None if found is None else (found[0], found[1], found[2])


def is_offered_file(session: Session, device_id: str, digest: str) -> bool:
    """Whether the device may fetch this file as part of an offer."""
    found = offer_of(session, device_id)
    return found is not None and any(file["sha256"] == digest for file in found[2].files.values())


def unfinished(session: Session) -> list[tuple[str, str]]:
    """Workspaces and ids of the rollouts that something may be to be done for."""
    states = (RolloutState.RUNNING, RolloutState.REVERTING)
    query = select(RolloutRecord.workspace_id, RolloutRecord.id).where(RolloutRecord.state.in_(states))
    return [(workspace_id, row_id) for workspace_id, row_id in session.execute(query)]
