"""Writes the audit log, in the transaction of the change: both happen or neither.

Every service function that changes something for a person, or lets a device in or out, calls `record` once, after the
change. Who acts is known to the unit of work, so nothing below an endpoint or a command passes it on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from pock_server.audit.schemas import AuditActor, AuditChange, AuditEntry, AuditObject
from pock_server.audit.tables import AuditRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit

WHOLE_SERVICE = ""
"""In place of a workspace's id; such entries are read on the command line only."""


class Action(StrEnum):
    """`KIND.VERB`; the kind is that of the changed object."""

    WORKSPACE_CREATE = "workspace.create"
    WORKSPACE_CHANGE = "workspace.change"
    MEMBER_ADD = "member.add"
    MEMBER_CHANGE = "member.change"
    API_KEY_CREATE = "api_key.create"
    API_KEY_REVOKE = "api_key.revoke"
    SESSION_OPEN = "session.open"
    SESSION_END = "session.end"
    UPLOAD_START = "upload.start"
    UPLOAD_FINISH = "upload.finish"
    MODEL_CREATE = "model.create"
    MODEL_TAG = "model.tag"
    MODEL_UNTAG = "model.untag"
    MODEL_DELETE = "model.delete"
    DATASET_CREATE = "dataset.create"
    DATASET_TAG = "dataset.tag"
    DATASET_UNTAG = "dataset.untag"
    DATASET_DELETE = "dataset.delete"
    RECIPE_CREATE = "recipe.create"
    RECIPE_TAG = "recipe.tag"
    RECIPE_UNTAG = "recipe.untag"
    RECIPE_DELETE = "recipe.delete"
    BUILD_REQUEST = "build.request"
    BUILD_CANCEL = "build.cancel"
    BUILD_TAG = "build.tag"
    BUILD_UNTAG = "build.untag"
    BUILD_DELETE = "build.delete"
    SEARCH_REQUEST = "search.request"
    SEARCH_CANCEL = "search.cancel"
    SEARCH_DELETE = "search.delete"
    RUN_REQUEST = "run.request"
    RUN_CANCEL = "run.cancel"
    RUN_DELETE = "run.delete"
    BENCHMARK_REQUEST = "benchmark.request"
    BENCHMARK_CANCEL = "benchmark.cancel"
    BENCHMARK_DELETE = "benchmark.delete"
    WEBHOOK_CREATE = "webhook.create"
    WEBHOOK_CHANGE = "webhook.change"
    WEBHOOK_DELETE = "webhook.delete"
    CAMPAIGN_CREATE = "campaign.create"
    CAMPAIGN_PAUSE = "campaign.pause"
    CAMPAIGN_RESUME = "campaign.resume"
    CAMPAIGN_CANCEL = "campaign.cancel"
    CAMPAIGN_DELETE = "campaign.delete"
    SCHEDULE_CREATE = "schedule.create"
    SCHEDULE_CHANGE = "schedule.change"
    SCHEDULE_DELETE = "schedule.delete"
    FEDERATION_CREATE = "federation.create"
    FEDERATION_CANCEL = "federation.cancel"
    FEDERATION_DELETE = "federation.delete"
    ENROLMENT_TOKEN_CREATE = "enrolment_token.create"
    DEVICE_ENROL = "device.enrol"
    DEVICE_CHANGE = "device.change"
    DEVICE_QUARANTINE = "device.quarantine"
    DEVICE_REVOKE = "device.revoke"
    AGENT_RELEASE_CREATE = "agent_release.create"
    AGENT_RELEASE_DELETE = "agent_release.delete"
    POLICY_SET = "policy.set"
    POLICY_REMOVE = "policy.remove"
    ROLLOUT_CREATE = "rollout.create"
    ROLLOUT_PAUSE = "rollout.pause"
    ROLLOUT_RESUME = "rollout.resume"
    ROLLOUT_CANCEL = "rollout.cancel"
    ROLLOUT_ROLL_BACK = "rollout.roll_back"
    TUNING_CANCEL = "tuning.cancel"
    TUNING_DROP = "tuning.drop"
    TUNING_IMPORT = "tuning.import"
    BACKUP_MAKE = "backup.make"
    TRUST_PUBLISH = "trust.publish"
    WRAPPING_KEY_ROTATE = "wrapping_key.rotate"


class Changed(Protocol):
    """A row that an entry can be about; `Subject` stands in for what is no row of a workspace."""

    @property
    def id(self) -> str:
        """Its id."""

    @property
    def workspace_id(self) -> str:
        """Whose it is."""


@dataclass(frozen=True)
class Subject:
    """What was changed, and in which workspace, or in the `WHOLE_SERVICE`."""

    id: str
    workspace_id: str


Changes = Mapping[str, Mapping[str, Any]]
"""{field: {"before": value, "after": value}}."""


def made(**fields: Any) -> Changes:
    """The fields of something new."""
    return changed({}, fields)


def gone(**fields: Any) -> Changes:
    """The fields of something that is deleted."""
    return changed(fields, {})


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """The fields that differ; one that is missing is None. Values are JSON values."""
    return {
        field: {"before": before.get(field), "after": after.get(field)}
        for field in {**before, **after}
        if before.get(field) != after.get(field)
    }


def record(unit: Unit, action: Action, row: Changed, name: str, now: datetime, changes: Changes | None = None) -> None:
    """Write that the unit's actor has done `action` to `row`, which people know as `name`."""
    actor = unit.by
    unit.session.add(
        AuditRecord(
            id=new_id(now),
            workspace_id=row.workspace_id,
            created_at=now,
            action=action,
            object_kind=action.split(".")[0],
            object_id=row.id,
            object_name=name,
            changes=dict(changes or {}),
            actor_kind=actor.kind,
            actor_name=actor.name,
            member_id=actor.member_id,
            key_id=actor.key_id,
            session_id=actor.session_id,
            device_id=actor.device_id,
            address=actor.source.address,
            user_agent=actor.source.user_agent,
            request_id=actor.source.request_id,
        )
    )
    unit.session.flush()


def describe(row: AuditRecord) -> AuditEntry:
    """The entry as API and command line show it."""
    return AuditEntry.model_validate(
        {
            "id": row.id,
            "at": row.created_at,
            "workspace_id": row.workspace_id or None,
            "action": row.action,
            "object": AuditObject(kind=row.object_kind, id=row.object_id, name=row.object_name),
            "changes": {field: AuditChange(**change) for field, change in row.changes.items()},
            "actor": AuditActor.model_validate(
                {
                    "kind": row.actor_kind,
                    "name": row.actor_name,
                    "member_id": row.member_id,
                    "key_id": row.key_id,
                    "session_id": row.session_id,
                    "device_id": row.device_id,
                }
            ),
            "address": row.address,
            "user_agent": row.user_agent,
            "request_id": row.request_id,
        }
    )
