"""What the leading process does for tunings: has packs built, has devices run them, and decides by what they report.

All that is known lies in rows, and each step is one transaction: repeating one is harmless, and so is a service that is
killed between two of them.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildState
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.presence import heard_since
from pock_server.devices.repository import Devices
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.schemas import RunState
from pock_server.runs.tables import RunRecord
from pock_server.services import Services
from pock_server.tuning.lifecycle import TUNING_LIFECYCLE, TuningState
from pock_server.tuning.packs import LISTED, BadPack, Workload, read_pack
from pock_server.tuning.reports import Told, Unbelievable, read_report
from pock_server.tuning.repository import Distrusted, Entries, Measurements, Tunings, open_tunings, pack_runs
from pock_server.tuning.schemas import Standing
from pock_server.tuning.service import offer, settle
from pock_server.tuning.tables import DistrustRecord, EntryRecord, MeasurementRecord, TuningRecord
from pock_server.tuning.trials import ask, candidates_for, idle_among, request_pack, retire_pack, seconds_today
from pock_server.tuning.votes import AGREED

NOTHING_LEFT = 2008
"""Failure code of a build of trials that had nothing to try."""
_BAD_PACK = 2001


def due(session: Session, now: datetime) -> list[tuple[str, str]]:
    """Tunings of all workspaces that are not over."""
    return [(row.workspace_id, row.id) for row in open_tunings(session, now)]


def go_on(services: Services, workspace_id: str, tuning_id: str) -> None:
    """Take the next step of a tuning, if there is one."""
    with services.database.read() as session:
        row = Tunings(session, workspace_id).require(tuning_id)
        build = Builds(session, workspace_id).find(row.pack_build_id or "")
        artifact = Artifacts(session, workspace_id).find((build.artifact_digest if build else None) or "")
        if _waits(services, session, row, build):
            return
    workloads: list[Workload] | BadPack | None = None
    if row.state == TuningState.BUILDING and build is not None and build.state == BuildState.SUCCEEDED:
        try:
            workloads = read_pack(services.blobs, artifact.members.get(LISTED) if artifact else None)
        except BadPack as error:
            workloads = error
    with services.database.write() as unit:
        seen = row
        row = Tunings(unit.session, workspace_id).require(tuning_id, lock=True)
        if (row.state, row.pack_build_id) != (seen.state, seen.pack_build_id):
            return  # another process was faster
        if row.state == TuningState.BUILDING:
            _build(unit, row, build, workloads, services.clock.now())
        elif row.state == TuningState.MEASURING:
            _Measuring(services, unit, row).go_on()


def _waits(services: Services, session: Session, row: TuningRecord, build: BuildRecord | None) -> bool:
    """Whether there is nothing to do before a worker or a device has done something."""
    if row.state == TuningState.BUILDING:
        return build is not None and build.state in (BuildState.QUEUED, BuildState.RUNNING)
    runs = pack_runs(session, row)
    if any(run.state not in OPEN and run.id not in row.heard for run in runs):
        return False
    if any(run.state in OPEN for run in runs) and len(runs) >= AGREED:
        return True
    now, asked = services.clock.now(), {run.device_id for run in runs}
    waited = now - row.waits_since > timedelta(seconds=services.settings.tuning_patience_seconds)
    since = heard_since(now, services.fleet.heartbeat_seconds())
    left = candidates_for(session, row, asked) and not idle_among(session, row, asked, since)
    return bool(left) and not waited and row.state == TuningState.MEASURING


def _build(
    unit: Unit,
    row: TuningRecord,
    build: BuildRecord | None,
    workloads: list[Workload] | BadPack | None,
    now: datetime,
) -> None:
    """Ask for a pack, or take over what came of it; `build` and its `workloads` are as they were read before."""
    if row.pack_build_id is None:
        row.pack_build_id, row.waits_since = request_pack(unit, row, now), now
        row.packs += 1
    elif build is None or build.state in (BuildState.FAILED, BuildState.CANCELLED):
        failure = (build.failure if build else None) or {"code": _BAD_PACK, "detail": "The pack's build was lost."}
        if failure["code"] == NOTHING_LEFT:
            TUNING_LIFECYCLE.move(unit, row, TuningState.SUCCEEDED, now, finished_at=now)
        else:
            TUNING_LIFECYCLE.move(unit, row, TuningState.FAILED, now, failure=failure, finished_at=now)
    elif isinstance(workloads, BadPack):
        failure = {"code": _BAD_PACK, "detail": str(workloads)}
        TUNING_LIFECYCLE.move(unit, row, TuningState.FAILED, now, failure=failure, finished_at=now)
    elif workloads is not None:
        offer(unit, row, build.id, workloads, now)
        pack = [{"key": one.key, "least_ms": one.least_ms, "candidates": len(one.candidates)} for one in workloads]
        TUNING_LIFECYCLE.move(unit, row, TuningState.MEASURING, now, pack=pack, heard=[], waits_since=now)


class _Measuring:
    """One look at a pack that devices run."""

    def __init__(self, services: Services, unit: Unit, row: TuningRecord) -> None:
        self._services, self._unit, self._row = services, unit, row
        self._settings, self._now = services.settings, services.clock.now()
        self._session, self._home = unit.session, row.workspace_id
        self._measurements = Measurements(unit.session, row.workspace_id)

    def go_on(self) -> None:
        """Read new reports, decide, and ask further devices or go on to the next pack."""
        runs = pack_runs(self._session, self._row)
        ended = [run for run in runs if run.state not in OPEN]
        for run in ended:
            if run.id not in self._row.heard:
                self._hear(run)
        self._doubt()
        running, asked = len(runs) - len(ended), {run.device_id for run in runs}
        others = candidates_for(self._session, self._row, asked)
        waited = self._now - self._row.waits_since > timedelta(seconds=self._settings.tuning_patience_seconds)
        enough = len(asked) >= self._settings.tuning_devices
        over = not running and (not others or waited or enough)
        undecided = [entry for entry in self._entries() if not settle(self._unit, entry, over, self._now)]
        if over or not (undecided or running):
            self._end_pack(len(undecided))
        elif not enough:
            self._ask(running, asked)

    def _hear(self, run: RunRecord) -> None:
        """Keep what a run's report says, or what is wrong with it."""
        self._row.heard, self._row.waits_since = [*self._row.heard, run.id], self._now
        if run.state != RunState.SUCCEEDED:
            return
        try:
            told = read_report(run, self._row.pack)
        except Unbelievable as error:
            if error.lies:
                self._distrust(run.device_id, run.id, str(error))
            return
        emulated = bool(told.provenance.get("emulated")) and not self._settings.tuning_emulated
        self._keep(run, told, Standing.DROPPED if emulated else Standing.COUNTED)

    def _keep(self, run: RunRecord, told: Told, standing: Standing) -> None:
        device = Devices(self._session, self._home).require(run.device_id)
        how = {"device": device.name, "agent": device.agent_version, "measured_at": self._now.isoformat()}
        for one, candidates in zip(self._row.pack, told.workloads, strict=True):
            self._measurements.add(
                MeasurementRecord(
                    id=new_id(self._now),
                    workspace_id=self._home,
                    created_at=self._now,
                    pack_id=self._row.pack_build_id,
                    run_id=run.id,
                    device_id=run.device_id,
                    key=one["key"],
                    target=self._row.target,
                    candidates=[vars(candidate) for candidate in candidates],
                    standing=standing,
                    provenance={**told.provenance, **how, "device_id": run.device_id},
                )
            )

    def _doubt(self) -> None:
        """A device computes wrong numbers where the model's own choice is wrong on it, or what others compute rightly.
        What it measured of this pack does not count, and it is not asked again."""
        found = [one for one in self._measurements.of_pack(self._row.pack_build_id or "") if _counts(one)]
        right = {(one.key, number) for one in found for number, way in enumerate(one.candidates) if not way["wrong"]}
        for one in found:
            wrong = [number for number, way in enumerate(one.candidates) if way["wrong"]]
            if 0 in wrong or any((one.key, number) in right for number in wrong):
                self._distrust(one.device_id, one.run_id, "it computes other numbers than the reference")
        bad = {row.id for row in Distrusted(self._session, self._home).find_all({one.device_id for one in found})}
        for one in found:
            if one.device_id in bad:
                one.standing = Standing.DROPPED
        self._session.flush()

    def _distrust(self, device_id: str, run_id: str, reason: str) -> None:
        known = Distrusted(self._session, self._home)
        if known.find(device_id) is None:
            row = {"id": device_id, "workspace_id": self._home, "created_at": self._now, "run_id": run_id}
            known.add(DistrustRecord(**row, reason=reason[:500]))

    def _entries(self) -> list[EntryRecord]:
        """Those of the pack that this pack has not decided yet."""
        found = Entries(self._session, self._home).by_keys(self._row.target, [one["key"] for one in self._row.pack])
        mine = [entry for entry in found.values() if entry.pack_id == self._row.pack_build_id]
        since = self._row.started_at or self._row.created_at
        return [entry for entry in mine if entry.decided_at is None or entry.decided_at < since]

    def _ask(self, running: int, asked: set[str]) -> None:
        """Ask idle devices, as many as may still be needed."""
        since = heard_since(self._now, self._services.fleet.heartbeat_seconds())
        most = min(self._settings.tuning_parallel, max(1, AGREED - len(asked) + running)) - running
        for device_id in idle_among(self._session, self._row, asked, since):
            if most < 1:
                return
            if seconds_today(self._session, device_id, self._now) < self._settings.tuning_seconds_per_day:
                ask(self._unit, self._row, device_id, self._settings, self._now)
                most -= 1

    def _end_pack(self, undecided: int) -> None:
        """Everything was decided, or nobody is left to ask: the next pack, if workloads are left."""
        row, builds = self._row, Builds(self._session, self._home)
        build = builds.find(row.pack_build_id or "", lock=True)
        left = ((build.summary or {}).get("left") if build else 0) or 0
        if build is not None:
            retire_pack(self._session, build, self._now)
        after: dict[str, Any] = {
            "tried": [*row.tried, *(one["key"] for one in row.pack)],
            "decided": row.decided + len(row.pack) - undecided,
            "pack": [],
        }
        if left:
            after |= {"pack_build_id": None}
            TUNING_LIFECYCLE.move(self._unit, row, TuningState.BUILDING, self._now, **after)
        else:
            TUNING_LIFECYCLE.move(self._unit, row, TuningState.SUCCEEDED, self._now, finished_at=self._now, **after)


def _counts(row: MeasurementRecord) -> bool:
    return row.standing != Standing.DROPPED
