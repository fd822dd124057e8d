"""How a run comes to be: asked for, or as the next try of one that failed.

The policy of tries counts by class of failure and goes on from run to run: what one try has used up, the next one
lacks. The next try is made in the transaction of the failure: neither can be lost without the other.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from pock_server.blobs.repository import Blobs
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceStatus
from pock_server.events.repository import Events
from pock_server.runs.failures import FailureClass, class_of
from pock_server.runs.repository import Runs
from pock_server.runs.schemas import RunState
from pock_server.runs.tables import RunRecord

DEFAULT_RETRIES: Mapping[FailureClass, int] = {FailureClass.TRANSIENT: 3}
"""Of a run that a person asks for and names none: what passes by itself. All else would most likely fail again."""
_LONGEST_DELAY = timedelta(days=1)
_DOUBLINGS = 16
_OF_ONE_TRY = frozenset(
    {
        "id",
        "created_at",
        "state",
        "attempt",
        "started_at",
        "after_build_id",
        "after_run_id",
        "retries",
        "retry",
        "retry_of",
        "retried_by",
        "not_before",
        "queue_ends_at",
        "run_ends_at",
        "paused",
        "seconds_left",
        "paused_seconds",
        "fence",
        "lease_expires_at",
        "next_seq",
        "progress",
        "report",
        "weights_digest",
        "weights_sent_as",
        "weights_bytes",
        "full_weights_bytes",
        "failure",
        "finished_at",
    }
)
"""Columns that a next try does not take over."""


def enter(unit: Unit, row: RunRecord, now: datetime) -> None:
    """Add a new run, and tell its device."""
    Runs(unit.session, row.workspace_id).add(row)
    if row.initial_weights_digest is not None:
        Blobs(unit.session, row.workspace_id).use(row.id, (row.initial_weights_digest,))
    Events(unit.session, row.workspace_id).append(row.id, "state", {"state": row.state}, now)
    unit.announce(f"device:{row.device_id}")


def try_again(unit: Unit, run: RunRecord, now: datetime) -> RunRecord | None:
    """The next try of a run that has just failed, which `run` names from now on, or None where its policy has none left
    or its device will never come back."""
    kind = class_of((run.failure or {}).get("code", 0))
    left = (run.retries or {}).get(kind, 0)
    if left <= 0 or kind is FailureClass.DEPENDENCY:
        return None
    if Devices(unit.session, run.workspace_id).require(run.device_id).status != DeviceStatus.ACTIVE:
        return None
    delay = min(timedelta(seconds=run.retry_delay_seconds or 0) * 2 ** min(run.retry, _DOUBLINGS), _LONGEST_DELAY)
    same = {column.key: getattr(run, column.key) for column in RunRecord.__table__.columns}
    row = RunRecord(
        **{name: value for name, value in same.items() if name not in _OF_ONE_TRY},
        id=new_id(now),
        created_at=now,
        state=RunState.QUEUED,
        attempt=0,
        fence=0,
        next_seq=0,
        retries={**(run.retries or {}), str(kind): left - 1},
        retry=run.retry + 1,
        retry_of=run.id,
        not_before=now + delay,
        queue_ends_at=now + delay + timedelta(seconds=run.queue_seconds or 0),
    )
    enter(unit, row, now)
    run.retried_by = row.id
    return row
