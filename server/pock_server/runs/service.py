"""Accepts, shows and cancels runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.artifacts.tables import ArtifactRecord
from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildState, FailureOut
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.unit import Unit
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceStatus
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.observing.context import request_id, traceparent
from pock_server.runs.brief import brief
from pock_server.runs.envelope import Work
from pock_server.runs.leases import clear_device, lock_run
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.repository import Origin, Runs
from pock_server.runs.schemas import Entry, RunIn, RunOut, RunProgressOut, RunReport, RunState
from pock_server.runs.tables import RunRecord
from pock_server.settings import Settings


def request_run(unit: Unit, workspace_id: str, order: RunIn, settings: Settings, now: datetime) -> RunRecord:
    """Queue a run; a `Problem` says why the device could not do it."""
    build = _finished_build(unit.session, workspace_id, order.build_id)
    device = Devices(unit.session, workspace_id).require(order.device_id, lock=True)  # nobody revokes it meanwhile
    if device.status != DeviceStatus.ACTIVE:
        raise Problem(Failure.STATE_CONFLICT, f"Device {device.name} is {device.status}; choose another one.")
    artifact = _usable_artifact(unit.session, build)
    datasets = Datasets(unit.session, workspace_id)
    blobs = Blobs(unit.session, workspace_id)
    for dataset_id in filter(None, (order.dataset_id, order.eval_dataset_id)):
        dataset = datasets.require(dataset_id)
        blobs.require(dataset.digest)
        check_dataset(dataset, artifact)
    wait = order.queue_deadline_seconds or settings.queue_deadline_seconds
    row = RunRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        build_id=build.id,
        device_id=device.id,
        device_name=device.name,
        target=build.target,
        dataset_id=order.dataset_id,
        eval_dataset_id=order.eval_dataset_id,
        entry=order.entry,
        steps=order.steps,
        threads=order.threads or build.threads,
        seed=order.seed,
        save_weights=order.save_weights,
        deadline_seconds=order.deadline_seconds or settings.run_deadline_seconds,
        queue_ends_at=now + timedelta(seconds=wait),
        state=RunState.QUEUED,
        request_id=request_id(),
        traceparent=traceparent(),
        attempt=0,
        fence=0,
        next_seq=0,
    )
    Runs(unit.session, workspace_id).add(row)
    Events(unit.session, workspace_id).append(row.id, "state", {"state": RunState.QUEUED}, now)
    chosen = made(build_id=row.build_id, device_id=row.device_id, dataset_id=row.dataset_id, steps=row.steps)
    record(unit, Action.RUN_REQUEST, row, _name(build, device.name), now, chosen)
    unit.announce(f"device:{device.id}")
    return row


def _name(build: BuildRecord, device_name: str) -> str:
    return f"{build.name} on {device_name}"[:200]


def _finished_build(session: Session, workspace_id: str, build_id: str) -> BuildRecord:
    build = Builds(session, workspace_id).require(build_id)
    if build.state != BuildState.SUCCEEDED:
        raise Problem(Failure.STATE_CONFLICT, f"Build {build.name} is {build.state}; runs need a succeeded one.")
    return build


def _usable_artifact(session: Session, build: BuildRecord) -> ArtifactRecord:
    artifact = Artifacts(session, build.workspace_id).find(build.artifact_digest or "")
    if artifact is None:
        raise Problem(Failure.STATE_CONFLICT, f"The artifact of build {build.name} was dropped; request it again.")
    blobs = Blobs(session, build.workspace_id)
    for member in artifact.members.values():
        blobs.require(member["sha256"])
    return artifact


def check_dataset(dataset: DatasetRecord, artifact: ArtifactRecord) -> None:
    """Raise a 422 `Problem` unless the dataset has one fitting tensor per model input that is not optional."""
    found: dict[str, Mapping[str, Any]] = {tensor["name"]: tensor for tensor in dataset.tensors}
    for wanted in artifact.inputs:
        name, shape = wanted["name"], list(wanted["shape"])[1:]
        tensor = found.get(name)
        if tensor is None and wanted.get("optional"):
            continue
        if tensor is None:
            detail = f"Dataset {dataset.name} has no tensor {name!r}; it has {', '.join(sorted(found))}."
            raise Problem(Failure.BAD_DATA, detail)
        if tensor["dtype"] != wanted["dtype"] or list(tensor["shape"])[1:] != shape:
            detail = (
                f"Tensor {name!r} of dataset {dataset.name} is {tensor['dtype']}{tensor['shape']}; "
                f"the model needs {wanted['dtype']} with {shape} per sample."
            )
            raise Problem(Failure.BAD_DATA, detail)


def gather_work(session: Session, run: RunRecord) -> Work:
    """The run with everything it needs; all of it belongs to the run's workspace."""
    build = Builds(session, run.workspace_id).require(run.build_id)
    datasets = Datasets(session, run.workspace_id)
    return Work(
        run=run,
        artifact=Artifacts(session, run.workspace_id).require(build.artifact_digest or ""),
        artifact_name=build.name,
        required_bytes=int((build.summary or {}).get("predicted_peak_bytes") or 0),
        train=datasets.require(run.dataset_id),
        evaluation=datasets.require(run.eval_dataset_id) if run.eval_dataset_id else None,
    )


def cancel_run(unit: Unit, workspace_id: str, run_id: str, now: datetime) -> RunRecord:
    """Cancel a run that is not over; its device learns it at the next renewal or heartbeat. Repeating is harmless."""
    row = lock_run(unit, workspace_id, run_id)
    if row.state != RunState.CANCELLED:
        before, build = row.state, Builds(unit.session, workspace_id).require(row.build_id)
        RUN_LIFECYCLE.move(unit, row, RunState.CANCELLED, now, finished_at=now)
        name = _name(build, row.device_name)
        record(unit, Action.RUN_CANCEL, row, name, now, changed({"state": before}, {"state": row.state}))
        clear_device(unit, row)
    return row


def delete_run(unit: Unit, workspace_id: str, run_id: str, now: datetime) -> None:
    """Forget a run that is over; a 409 `Problem` if it is not."""
    runs = Runs(unit.session, workspace_id)
    row = runs.require(run_id, lock=True)
    if row.state not in RUN_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This run is {row.state}; cancel it first.")
    name = _name(Builds(unit.session, workspace_id).require(row.build_id), row.device_name)
    record(unit, Action.RUN_DELETE, row, name, now, gone(state=row.state, weights_digest=row.weights_digest))
    Blobs(unit.session, workspace_id).release(row.id, now)
    Events(unit.session, workspace_id).forget(row.id)
    runs.forget_steps(row.id)
    unit.session.delete(row)


def show(runs: Runs, rows: Sequence[RunRecord], *, slim: bool = False) -> list[RunOut]:
    """Runs as the API shows them; `slim` as lists do."""
    positions, origins = runs.queue_positions(rows), runs.origins(rows)
    return [_describe(row, positions.get(row.id), origins[row.id], slim) for row in rows]


def _describe(row: RunRecord, position: int | None, origin: Origin, slim: bool) -> RunOut:
    report = brief(row.report) if slim else row.report
    return RunOut(
        id=row.id,
        build_id=row.build_id,
        device_id=row.device_id,
        device_name=row.device_name,
        target=row.target,
        dataset_id=row.dataset_id,
        eval_dataset_id=row.eval_dataset_id,
        model=origin.model,
        recipe=origin.recipe,
        build=origin.build,
        dataset=origin.dataset,
        eval_dataset=origin.eval_dataset,
        entry=Entry(row.entry),
        steps=row.steps,
        threads=row.threads,
        seed=row.seed,
        save_weights=row.save_weights,
        state=RunState(row.state),
        attempt=row.attempt,
        queue_position=position,
        progress=RunProgressOut(**row.progress) if row.progress else None,
        report=RunReport(**report) if report else None,
        weights_digest=row.weights_digest,
        failure=FailureOut(**row.failure) if row.failure else None,
        request_id=row.request_id,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
