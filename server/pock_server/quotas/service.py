"""Counts what a workspace has against what it may have, after adding and before the commit.

Whoever adds takes the workspace's row first and counts then, so of two who add at once one sees the other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.orm import Session

from pock_server.agent_releases.tables import AgentReleaseRecord
from pock_server.audit.service import Action, Subject, changed, record
from pock_server.auth.repository import lock_workspace
from pock_server.auth.tables import ApiKeyRecord, WorkspaceRecord
from pock_server.blobs.tables import BlobRecord, UploadRecord
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.campaigns.lifecycle import OPEN as OPEN_CAMPAIGN
from pock_server.campaigns.tables import CampaignRecord
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.base import WorkspaceRow
from pock_server.db.unit import Unit
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord, EnrolmentTokenRecord
from pock_server.federations.lifecycle import OPEN as OPEN_FEDERATIONS
from pock_server.federations.tables import FederationRecord
from pock_server.http.problems import Failure, Problem
from pock_server.models.tables import ModelRecord
from pock_server.recipes.tables import RecipeRecord
from pock_server.rollouts.lifecycle import UNFINISHED
from pock_server.rollouts.tables import RolloutRecord
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.tables import RunRecord
from pock_server.schedules.tables import ScheduleRecord
from pock_server.settings import Settings
from pock_server.webhooks.tables import WebhookRecord

Count = Callable[[Session, str, datetime], int]


@dataclass(frozen=True)
class Bound:
    """One thing that is counted: what it is called, its setting, and what helps when there is too much of it."""

    failure: Failure
    noun: str
    setting: str
    way_out: str
    count: Count

    @property
    def name(self) -> str:
        """What operators call it."""
        return self.setting.removeprefix("quota_")


def _rows(table: type[WorkspaceRow], *conditions: ColumnElement[bool]) -> Count:
    query = select(func.count()).select_from(table).where(*conditions)
    return lambda session, workspace_id, _now: session.scalars(query.where(table.workspace_id == workspace_id)).one()


def _bytes(session: Session, workspace_id: str, _now: datetime) -> int:
    """What is stored and what was announced: an upload takes its room from the beginning."""
    stored = select(func.coalesce(func.sum(BlobRecord.size), 0)).where(BlobRecord.workspace_id == workspace_id)
    announced = select(func.coalesce(func.sum(UploadRecord.size), 0)).where(
        UploadRecord.workspace_id == workspace_id, UploadRecord.complete.is_(False)
    )
    return int(session.scalars(stored).one()) + int(session.scalars(announced).one())


def _keys(session: Session, workspace_id: str, now: datetime) -> int:
    return _rows(ApiKeyRecord, ApiKeyRecord.revoked_at.is_(None), ApiKeyRecord.expires_at > now)(
        session, workspace_id, now
    )


def _tokens(session: Session, workspace_id: str, now: datetime) -> int:
    return _rows(EnrolmentTokenRecord, EnrolmentTokenRecord.used_at.is_(None), EnrolmentTokenRecord.expires_at > now)(
        session, workspace_id, now
    )


class Quota(Enum):
    """What is bounded."""

    BYTES = Bound(
        Failure.QUOTA_BYTES, "bytes stored or announced", "quota_bytes", "wait for open uploads to end", _bytes
    )
    MODELS = Bound(Failure.QUOTA_MODELS, "models", "quota_models", "use those you have", _rows(ModelRecord))
    DATASETS = Bound(Failure.QUOTA_DATASETS, "datasets", "quota_datasets", "use those you have", _rows(DatasetRecord))
    RECIPES = Bound(Failure.QUOTA_RECIPES, "recipes", "quota_recipes", "use those you have", _rows(RecipeRecord))
    AGENT_RELEASES = Bound(
        Failure.QUOTA_AGENT_RELEASES,
        "agent releases",
        "quota_agent_releases",
        "delete old ones",
        _rows(AgentReleaseRecord),
    )
    ROLLOUTS = Bound(
        Failure.QUOTA_ROLLOUTS,
        "rollouts that are not over",
        "quota_open_rollouts",
        "cancel some",
        _rows(RolloutRecord, RolloutRecord.state.in_(UNFINISHED)),
    )
    DEVICES = Bound(
        Failure.QUOTA_DEVICES,
        "devices",
        "quota_devices",
        "revoke those that you do not need",
        _rows(DeviceRecord, DeviceRecord.status != DeviceStatus.REVOKED),
    )
    BUILDS = Bound(
        Failure.QUOTA_BUILDS,
        "builds queued or running",
        "quota_open_builds",
        "wait for some to end, or cancel them",
        _rows(BuildRecord, BuildRecord.state.in_((BuildState.QUEUED, BuildState.RUNNING))),
    )
    RUNS = Bound(
        Failure.QUOTA_RUNS,
        "runs that are not over",
        "quota_open_runs",
        "wait for some to end, or cancel them",
        _rows(RunRecord, RunRecord.state.in_(OPEN)),
    )
    SCHEDULES = Bound(
        Failure.QUOTA_SCHEDULES,
        "schedules",
        "quota_schedules",
        "delete those that you do not need",
        _rows(ScheduleRecord),
    )
    CAMPAIGNS = Bound(
        Failure.QUOTA_CAMPAIGNS,
        "campaigns that are not over",
        "quota_open_campaigns",
        "wait for some to end, or cancel them",
        _rows(CampaignRecord, CampaignRecord.state.in_(OPEN_CAMPAIGN)),
    )
    FEDERATIONS = Bound(
        Failure.QUOTA_FEDERATIONS,
        "federations that are not over",
        "quota_open_federations",
        "wait for some to end, or cancel them",
        _rows(FederationRecord, FederationRecord.state.in_(OPEN_FEDERATIONS)),
    )
    KEYS = Bound(Failure.QUOTA_KEYS, "valid API keys", "quota_keys", "revoke those that you do not need", _keys)
    TOKENS = Bound(Failure.QUOTA_TOKENS, "unused enrolment tokens", "quota_tokens", "use them, or wait", _tokens)
    WEBHOOKS = Bound(Failure.QUOTA_WEBHOOKS, "webhooks", "quota_webhooks", "delete some", _rows(WebhookRecord))
    UPLOADS = Bound(
        Failure.QUOTA_UPLOADS,
        "unfinished uploads",
        "quota_open_uploads",
        "finish some, or wait",
        _rows(UploadRecord, UploadRecord.complete.is_(False)),
    )


MAX_LIMIT = 2**53
"""JSON numbers of other programs end here."""


@dataclass(frozen=True)
class Standing:
    """What a workspace has of one thing and may have; `own`: by a limit of its own, not by the setting."""

    quota: str
    noun: str
    used: int
    limit: int
    own: bool
    way_out: str


def standings(session: Session, settings: Settings, workspace: WorkspaceRecord, now: datetime) -> list[Standing]:
    """Everything that is counted."""
    own = workspace.quotas or {}
    return [
        Standing(
            quota=quota.value.name,
            noun=quota.value.noun,
            used=quota.value.count(session, workspace.id, now),
            limit=_limit(quota.value, own, settings),
            own=quota.value.name in own,
            way_out=quota.value.way_out,
        )
        for quota in Quota
    ]


def set_quotas(unit: Unit, workspace: WorkspaceRecord, wanted: Mapping[str, int | None], now: datetime) -> None:
    """Give a workspace limits of its own; None: that of the settings again. A 422 `Problem` names what is wrong."""
    names = [quota.value.name for quota in Quota]
    for name, limit in wanted.items():
        if name not in names:
            raise Problem(Failure.INVALID, f"There is no quota {name[:80]!r}; there are {', '.join(names)}.")
        if limit is not None and limit > MAX_LIMIT:
            raise Problem(Failure.INVALID, f"{name} may be {MAX_LIMIT} at most.")
    lock_workspace(unit.session, workspace.id)
    unit.session.refresh(workspace)
    before = workspace.quotas or {}
    after = {name: limit for name, limit in {**before, **wanted}.items() if limit is not None}
    workspace.quotas = after or None
    unit.session.flush()
    changes = changed(before, after)
    if changes:
        record(unit, Action.WORKSPACE_CHANGE, Subject(workspace.id, workspace.id), workspace.name, now, changes)


def _limit(bound: Bound, own: Mapping[str, int], settings: Settings) -> int:
    return int(own.get(bound.name, getattr(settings, bound.setting)))


def check(unit: Unit, settings: Settings, workspace_id: str, now: datetime, *quotas: Quota) -> None:
    """Raise a 409 `Problem`, which undoes what was added, if the workspace has too much of something now."""
    unit.session.flush()
    # Not FOR UPDATE: that would also stop everybody else who adds a row that refers to the workspace.
    mine = select(WorkspaceRecord.quotas).where(WorkspaceRecord.id == workspace_id).with_for_update(key_share=True)
    own = unit.session.scalars(mine).one() or {}
    for quota in quotas:
        bound = quota.value
        limit, found = _limit(bound, own, settings), bound.count(unit.session, workspace_id, now)
        if found > limit:
            detail = f"This would make {found} {bound.noun} in the workspace, which may have {limit}: {bound.way_out}."
            raise Problem(bound.failure, detail)
