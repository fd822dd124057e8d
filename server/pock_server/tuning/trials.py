"""Builds and runs of packs: made by the same workers and devices as everybody's, and never before theirs."""

import hashlib
from datetime import datetime, timedelta

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from pock_server.builds.schemas import BuildKind, BuildState
from pock_server.builds.service import QUEUE, delete_build, drop_artifact
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.presence import is_in
from pock_server.devices.states import DeviceState, DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.events.repository import Events
from pock_server.http.fields import canonical_json
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.schemas import Entry, RunIn
from pock_server.runs.service import delete_run, request_run
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings
from pock_server.tuning.lifecycle import OPEN_TUNINGS, TUNING_LIFECYCLE, TuningState
from pock_server.tuning.reports import duration
from pock_server.tuning.tables import DistrustRecord, TuningRecord

LAST = -100
"""Priority of trials: a device takes everything else first."""
ROUNDS = 15
"""Times that each candidate is run, if it does not take too long."""
_LAST_BUILD = -10
_DEADLINE_SECONDS = 900
_DAY = timedelta(days=1)


def request_pack(unit: Unit, tuning: TuningRecord, now: datetime) -> str:
    """Queue a build of the next pack; its id. It has no version: it is not listed."""
    key = canonical_json(["trials", tuning.id, tuning.packs])
    row = BuildRecord(
        id=new_id(now),
        workspace_id=tuning.workspace_id,
        created_at=now,
        key=hashlib.sha256(key.encode()).hexdigest(),
        kind=BuildKind.TRIALS,
        model_id=tuning.model_id,
        model_name=tuning.build_name,
        name=f"trials for {tuning.build_name}"[:200],
        version=-1,
        target=tuning.target,
        threads=tuning.threads,
        priority=_LAST_BUILD,
        recipe=tuning.recipe,
        compiler_version=tuning.compiler_version,
        state=BuildState.QUEUED,
        request_id=tuning.request_id,
        traceparent=tuning.traceparent,
        tuning_id=tuning.id,
        attempt=0,
    )
    unit.session.add(row)
    unit.session.flush()
    Events(unit.session, tuning.workspace_id).append(row.id, "state", {"state": BuildState.QUEUED}, now)
    unit.announce(QUEUE)
    return row.id


def retire_pack(session: Session, build: BuildRecord, now: datetime) -> None:
    """Nobody runs the pack any more: its bytes may go."""
    if build.retired_at is None:
        build.retired_at = now
        drop_artifact(session, build, now)


def forget_trials(unit: Unit, workspace_id: str, model_id: str, now: datetime) -> None:
    """The model is being deleted: nothing more is tried for it, and its packs go with their runs. A 409 `Problem` if a
    device is at one of them."""
    session = unit.session
    for tuning in session.scalars(select(TuningRecord).where(TuningRecord.model_id == model_id)):
        if tuning.state in OPEN_TUNINGS:
            TUNING_LIFECYCLE.move(unit, tuning, TuningState.CANCELLED, now, finished_at=now)
    packs = list(session.scalars(select(BuildRecord.id).where(BuildRecord.model_id == model_id)))
    for run_id in session.scalars(select(RunRecord.id).where(RunRecord.build_id.in_(packs))).all():
        delete_run(unit, workspace_id, run_id, now)
    for pack_id in packs:
        delete_build(unit, workspace_id, pack_id, now)
    session.flush()


def ask(unit: Unit, tuning: TuningRecord, device_id: str, settings: Settings, now: datetime) -> None:
    """Have a device run the present pack when it has nothing else to do."""
    order = RunIn(
        build_id=tuning.pack_build_id or "",
        device_id=device_id,
        entry=Entry.BENCH,
        steps=ROUNDS,
        threads=tuning.threads,
        priority=LAST,
        deadline_seconds=_DEADLINE_SECONDS,
        queue_deadline_seconds=max(1, int(settings.tuning_patience_seconds)),
    )
    request_run(unit, tuning.workspace_id, order, settings, now, part_of=tuning.id)


def candidates_for(session: Session, tuning: TuningRecord, asked: set[str]) -> list[DeviceRecord]:
    """The devices that could measure a target's packs, idle or not, but for those that were asked before."""
    distrusted = exists().where(DistrustRecord.id == DeviceRecord.id)
    query = select(DeviceRecord).where(
        DeviceRecord.workspace_id == tuning.workspace_id,
        DeviceRecord.target == tuning.target,
        DeviceRecord.status == DeviceStatus.ACTIVE,
        DeviceRecord.id.not_in(asked),
        ~distrusted,
    )
    return list(session.scalars(query.order_by(DeviceRecord.id).limit(1000)))


def idle_among(session: Session, tuning: TuningRecord, asked: set[str], since: datetime) -> list[str]:
    """Of those the ones that are there and have nothing to do."""
    busy = exists().where(RunRecord.device_id == DeviceRecord.id, RunRecord.state.in_(OPEN))
    query = select(DeviceRecord.id).where(
        DeviceRecord.id.in_([row.id for row in candidates_for(session, tuning, asked)]),
        is_in(DeviceState.ONLINE, since),
        ~busy,
    )
    return list(session.scalars(query.order_by(DeviceRecord.id)))


def seconds_today(session: Session, device_id: str, now: datetime) -> float:
    """How long a device ran trials in the last 24 hours."""
    build = select(BuildRecord.id).where(BuildRecord.kind == BuildKind.TRIALS)
    query = select(RunRecord.started_at, RunRecord.finished_at).where(
        RunRecord.device_id == device_id, RunRecord.finished_at > now - _DAY, RunRecord.build_id.in_(build)
    )
    return sum(duration(started, finished) for started, finished in session.execute(query))
