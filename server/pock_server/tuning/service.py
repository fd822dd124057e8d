"""Begins and ends tunings, decides entries, drops what a device said, takes entries from elsewhere, shows all of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, Subject, changed, gone, made, record
from pock_server.builds.schemas import FailureOut
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.unit import Unit
from pock_server.devices.repository import Devices
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.observing.context import request_id, traceparent
from pock_server.tuning.lifecycle import TUNING_LIFECYCLE, TuningState
from pock_server.tuning.packs import BadPack, Workload, check_inputs, key_of
from pock_server.tuning.repository import Distrusted, Entries, Measurements, Tunings
from pock_server.tuning.schemas import Source, Standing, TuningEntryOut, TuningImportIn, TuningOut
from pock_server.tuning.tables import EntryRecord, MeasurementRecord, TuningRecord
from pock_server.tuning.votes import Ballot, Timed, decide

MOST_ENTRIES = 100_000
"""Of one workspace, when entries are imported."""


def begin_tuning(unit: Unit, build: BuildRecord, now: datetime) -> None:
    """A build for the fleet's knowledge succeeded: what it did not know is to be tried, unless that is under way."""
    counted = (build.summary or {}).get("tuning")
    wanted = counted.get("to_try") if isinstance(counted, dict) else None
    tunings = Tunings(unit.session, build.workspace_id)
    same = [one for one in tunings.open_of(build.target) if one.model_id == build.model_id]
    if not isinstance(wanted, int) or wanted < 1 or any(one.recipe == build.recipe for one in same):
        return
    row = TuningRecord(
        id=new_id(now),
        workspace_id=build.workspace_id,
        created_at=now,
        state=TuningState.BUILDING,
        attempt=0,
        started_at=now,
        request_id=request_id() or build.request_id,
        traceparent=traceparent() or build.traceparent,
        build_id=build.id,
        build_name=build.name,
        model_id=build.model_id,
        recipe=build.recipe,
        target=build.target,
        threads=build.threads,
        compiler_version=build.compiler_version,
        packs=0,
        pack=[],
        heard=[],
        tried=[],
        decided=0,
        waits_since=now,
    )
    tunings.add(row)
    unit.announce(DUTIES_TOPIC)


def cancel_tuning(unit: Unit, workspace_id: str, tuning_id: str, now: datetime) -> TuningRecord:
    """Stop a tuning; what was decided stays. Its runs end by themselves. Cancelling twice changes nothing."""
    row = Tunings(unit.session, workspace_id).require(tuning_id, lock=True)
    if row.state != TuningState.CANCELLED:
        before = row.state
        TUNING_LIFECYCLE.move(unit, row, TuningState.CANCELLED, now, finished_at=now)
        record(unit, Action.TUNING_CANCEL, row, row.build_name, now, changed({"state": before}, {"state": row.state}))
    return row


def settle(unit: Unit, entry: EntryRecord, alone: bool, now: datetime) -> bool:
    """Decide an entry by what devices measured; whether it is decided. `alone`: no other device can be asked."""
    measured = Measurements(unit.session, entry.workspace_id).of_entry(entry)
    verdict = decide([_ballot(one) for one in measured], alone)
    if verdict is None:
        return False
    for one in measured:
        one.standing = Standing.COUNTED if one.device_id in verdict.agreeing else Standing.OUTVOTED
    entry.choice = {"is": entry.candidates[verdict.index]["choice"]}
    entry.ms, entry.model_ms = round(verdict.ms, 6), round(verdict.model_ms, 6)
    entry.devices, entry.source, entry.decided_at = len(verdict.agreeing), Source.FLEET, now
    told = [one.provenance for one in measured if one.device_id in verdict.agreeing]
    entry.provenance = {"rejected": verdict.rejected, "measurements": told[:8]}
    unit.session.flush()
    return True


def _ballot(row: MeasurementRecord) -> Ballot:
    candidates = tuple(Timed(one["ms"], one["least"], one["interval"], one["wrong"]) for one in row.candidates)
    return Ballot(row.device_id, bool(row.provenance.get("emulated")), candidates)


def drop_device(unit: Unit, workspace_id: str, device_id: str, now: datetime) -> None:
    """Forget all that a device measured, and that it was not believed. What rested on its word is unknown again."""
    device = Devices(unit.session, workspace_id).require(device_id, lock=True)
    dropped = Measurements(unit.session, workspace_id).drop_device(device_id)
    entries = Entries(unit.session, workspace_id)
    for target, key in dropped:
        entry = entries.by_keys(target, [key]).get(key)
        if entry is not None and entry.source == Source.FLEET and not settle(unit, entry, alone=True, now=now):
            forget(entry)
    distrust = Distrusted(unit.session, workspace_id).find(device_id, lock=True)
    if distrust is not None:
        unit.session.delete(distrust)
    if not dropped and distrust is None:
        return
    about = gone(measurements=len(dropped), distrusted=distrust.reason if distrust else None)
    record(unit, Action.TUNING_DROP, Subject(device.id, workspace_id), device.name, now, about)


def forget(entry: EntryRecord) -> None:
    """The entry's choice is unknown again."""
    entry.choice, entry.ms, entry.model_ms, entry.provenance = None, None, None, None
    entry.decided_at, entry.devices = None, 0


def import_entries(unit: Unit, workspace_id: str, order: TuningImportIn, now: datetime) -> tuple[int, int]:
    """Take entries from elsewhere: (new ones, those that were there). A `Problem` says which one is none."""
    entries = Entries(unit.session, workspace_id)
    wanted: dict[str, Any] = {}
    for number, one in enumerate(order.entries):
        try:
            check_inputs(dict(one.inputs), [one.choice])
        except BadPack as error:
            raise Problem(Failure.INVALID, f"body.entries.{number}: {error}") from None
        wanted[key_of(dict(one.inputs))] = one
    there, added = entries.by_keys(order.target, wanted), 0
    for key in sorted(wanted):
        one, row = wanted[key], there.get(key)
        if row is not None and row.decided_at is not None:
            continue
        if row is None:
            row = entries.add(_new_entry(workspace_id, order.target, key, dict(one.inputs), now))
        row.choice, row.ms, row.model_ms = {"is": one.choice}, one.ms, one.model_ms
        row.source, row.provenance, row.decided_at = Source.IMPORT, one.provenance, now
        added += 1
    unit.session.flush()
    if entries.count() > MOST_ENTRIES:
        raise Problem(Failure.STATE_CONFLICT, f"This would make more than {MOST_ENTRIES} entries in the workspace.")
    if added:
        about = made(target=order.target, added=added)
        record(unit, Action.TUNING_IMPORT, Subject(workspace_id, workspace_id), order.target, now, about)
    return added, len(wanted) - added


def _new_entry(workspace_id: str, target: str, key: str, inputs: dict[str, str], now: datetime) -> EntryRecord:
    return EntryRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        key=key,
        target=target,
        family=inputs["family"][:100],
        inputs=inputs,
        candidates=[],
        devices=0,
        source=Source.FLEET,
    )


def offer(unit: Unit, tuning: TuningRecord, pack_id: str, workloads: Sequence[Workload], now: datetime) -> None:
    """Devices are to try these workloads: each has an entry with the candidates of this pack."""
    entries = Entries(unit.session, tuning.workspace_id)
    there = entries.by_keys(tuning.target, [one.key for one in workloads])
    for one in sorted(workloads, key=lambda one: str(one.key)):
        row = there.get(one.key)
        if row is None:
            row = entries.add(_new_entry(tuning.workspace_id, tuning.target, one.key, one.inputs, now))
        row.candidates = [{"choice": way.choice, "text": way.text} for way in one.candidates]
        row.pack_id = pack_id


def show_entry(row: EntryRecord) -> TuningEntryOut:
    """An entry as the API shows it."""
    choice = row.choice["is"] if row.choice is not None else None
    texts = [one["text"] for one in row.candidates if row.choice is not None and one["choice"] == choice]
    return TuningEntryOut(
        id=row.id,
        key=row.key,
        target=row.target,
        family=row.family,
        inputs=row.inputs,
        choice=choice,
        choice_text=texts[0] if texts else None,
        candidates=len(row.candidates),
        ms=row.ms,
        model_ms=row.model_ms,
        devices=row.devices,
        source=Source(row.source),
        provenance=row.provenance,
        created_at=row.created_at,
        decided_at=row.decided_at,
    )


def show_tuning(row: TuningRecord) -> TuningOut:
    """A tuning as the API shows it."""
    return TuningOut(
        id=row.id,
        build_id=row.build_id,
        build_name=row.build_name,
        target=row.target,
        threads=row.threads,
        state=TuningState(row.state),
        packs=row.packs,
        tried=len(row.tried),
        trying=len(row.pack),
        decided=row.decided,
        failure=FailureOut(**row.failure) if row.failure else None,
        created_at=row.created_at,
        finished_at=row.finished_at,
    )
