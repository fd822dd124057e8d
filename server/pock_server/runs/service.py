"""Accepts, shows and cancels runs."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.artifacts.schemas import Phase
from pock_server.artifacts.service import profiled_phases
from pock_server.artifacts.tables import ArtifactRecord
from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.blobs.faults import BlobFault, StoreFailed
from pock_server.blobs.repository import Blobs
from pock_server.blobs.store import BlobStore
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildState, FailureOut
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.datasets.held_out import HeldShare
from pock_server.datasets.local import find_local, require_usable
from pock_server.datasets.repository import Datasets
from pock_server.datasets.tables import DatasetRecord
from pock_server.db.unit import Unit
from pock_server.devices.features import Feature, require
from pock_server.devices.repository import Devices
from pock_server.devices.states import DeviceStatus
from pock_server.devices.tables import DeviceRecord
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.longer_works.repository import find_longer_works
from pock_server.longer_works.schemas import LongerWork
from pock_server.names.schemas import VersionOut
from pock_server.observing.context import request_id, traceparent
from pock_server.policies.pauses import paused_of
from pock_server.runs.envelope import Work
from pock_server.runs.failures import FailureClass
from pock_server.runs.leases import clear_device, lock_run
from pock_server.runs.lifecycle import RUN_LIFECYCLE
from pock_server.runs.making import DEFAULT_RETRIES, enter
from pock_server.runs.reporting.brief import brief
from pock_server.runs.reporting.phases import tell_phases
from pock_server.runs.reporting.schemas import RunReport
from pock_server.runs.repository import Origin, Runs
from pock_server.runs.schemas import After, Entry, RunIn, RunOut, RunProgressOut, RunState
from pock_server.runs.tables import RunRecord
from pock_server.runs.weights import choose_initial, comes_as_delta, initial_blob, sent_as
from pock_server.settings import Settings

_log = logging.getLogger(__name__)


def request_run(
    unit: Unit,
    workspace_id: str,
    order: RunIn,
    settings: Settings,
    now: datetime,
    part_of: str | None = None,
    not_before: datetime | None = None,
) -> RunRecord:
    """Queue a run; a `Problem` says why the device could not do it. Its wait is counted from `not_before`."""
    build = _build(unit.session, workspace_id, order)
    device = Devices(unit.session, workspace_id).require(order.device_id, lock=True)  # nobody revokes it meanwhile
    if device.status != DeviceStatus.ACTIVE:
        raise Problem(Failure.STATE_CONFLICT, f"Device {device.name} is {device.status}; choose another one.")
    datasets = _datasets_of(unit.session, order, device)
    if build.state == BuildState.SUCCEEDED:
        require_fitting(unit.session, build, datasets)
    else:
        _require_datasets(unit.session, workspace_id, datasets)
    initial = choose_initial(unit.session, order, device, build, now)
    row = RunRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        build_id=build.id,
        device_id=device.id,
        device_name=device.name,
        target=build.target,
        dataset_id=datasets[0],
        eval_dataset_id=datasets[1],
        entry=order.entry,
        steps=order.steps,
        threads=order.threads or build.threads,
        **_training(order, device),
        initial_weights_digest=initial,
        part_of=part_of,
        priority=order.priority,
        not_before=not_before,
        deadline_seconds=order.deadline_seconds or settings.run_deadline_seconds,
        state=RunState.WAITING if order.after else RunState.QUEUED,
        **_waits(order, settings, not_before or now),
        **_policy(order, part_of),
        request_id=request_id(),
        traceparent=traceparent(),
        attempt=0,
        fence=0,
        next_seq=0,
    )
    enter(unit, row, now)
    chosen = made(build_id=row.build_id, device_id=row.device_id, dataset_id=row.dataset_id, steps=row.steps)
    if part_of is None:  # the longer work has an entry of its own
        record(unit, Action.RUN_REQUEST, row, run_name(build, device.name), now, chosen)
    return row


def _training(order: RunIn, device: DeviceRecord) -> dict[str, Any]:
    """How a new run trains, and what comes back; a 409 `Problem` for what the device's agent does not know."""
    if order.held_out is not None:
        require(device, Feature.HELD_OUT)
    if order.profile:
        require(device, Feature.PROFILE)
    return {
        "seed": order.seed,
        "save_weights": order.save_weights,
        "profile": order.profile,
        "weights_form": order.weights_form,
        "held_out": None if order.held_out is None else order.held_out.model_dump(),
    }


def run_name(build: BuildRecord | VersionOut, device_name: str) -> str:
    """What people call a run, in the log of what was done and among what needs them."""
    return f"{build.name} on {device_name}"[:200]


def _waits(order: RunIn, settings: Settings, begin: datetime) -> dict[str, Any]:
    """What a new run waits for, and how long it may wait for its device: from `begin` on, or when that wait is over."""
    seconds = order.queue_deadline_seconds or settings.queue_deadline_seconds
    if order.after is None:
        return {"queue_seconds": seconds, "queue_ends_at": begin + timedelta(seconds=seconds)}
    return {
        "queue_seconds": seconds,
        "after_build_id": order.after.build_id,
        "after_run_id": order.after.run_id,
    }


def _policy(order: RunIn, part_of: str | None) -> dict[str, Any]:
    """How a new run is tried again. Longer works say so themselves: they have to know of each try."""
    default = {} if part_of else DEFAULT_RETRIES
    retries = default if order.retries is None else order.retries
    return {
        "retries": {str(kind): count for kind, count in retries.items()},
        "retry_delay_seconds": order.retry_delay_seconds,
        "retry": 0,
    }


def _build(session: Session, workspace_id: str, order: RunIn) -> BuildRecord:
    """The build to run: a succeeded one; of a run that waits, one that may succeed. What it awaits has to be there."""
    builds = Builds(session, workspace_id)
    build = builds.require(order.build_id)
    if order.after is not None and order.after.run_id is not None:
        Runs(session, workspace_id).require(order.after.run_id)
    elif order.after is not None:
        builds.require(order.after.build_id or "")
    if order.after is not None and build.state in (BuildState.QUEUED, BuildState.RUNNING):
        return build
    if build.state != BuildState.SUCCEEDED:
        detail = f"Build {build.name} is {build.state}; runs need a succeeded one, or wait for it by `after`."
        raise Problem(Failure.STATE_CONFLICT, detail)
    return build


def require_fitting(session: Session, build: BuildRecord, dataset_ids: Iterable[str | None]) -> None:
    """Raise a `Problem` unless the build's artifact and these datasets are there, and fit each other."""
    artifact = _usable_artifact(session, build)
    for dataset in _require_datasets(session, build.workspace_id, dataset_ids):
        check_dataset(dataset, artifact)


def _require_datasets(session: Session, workspace_id: str, dataset_ids: Iterable[str | None]) -> list[DatasetRecord]:
    datasets = [Datasets(session, workspace_id).require(dataset_id) for dataset_id in filter(None, dataset_ids)]
    for dataset in datasets:
        if dataset.device_id is None:
            Blobs(session, workspace_id).require(dataset.digest)
        elif dataset.gone_at is not None:
            raise Problem(Failure.STATE_CONFLICT, f"The device no longer has dataset {dataset.name}.")
    return datasets


def _datasets_of(session: Session, order: RunIn, device: DeviceRecord) -> tuple[str | None, str | None]:
    """What the device is to train and to evaluate on, by id; a 409 `Problem` for what it cannot have."""
    datasets = Datasets(session, device.workspace_id)
    train, evaluation = order.dataset_id, order.eval_dataset_id
    if order.dataset_name is not None:
        train = find_local(datasets, device, order.dataset_name)
    if order.eval_dataset_name is not None:
        evaluation = find_local(datasets, device, order.eval_dataset_name)
    for dataset_id in filter(None, (train, evaluation)):
        require_usable(datasets.require(dataset_id), device)
    return train, evaluation


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
        train=datasets.require(run.dataset_id) if run.dataset_id else None,
        evaluation=datasets.require(run.eval_dataset_id) if run.eval_dataset_id else None,
        initial_weights=initial_blob(session, run),
        as_delta=comes_as_delta(session, run),
    )


def cancel_run(unit: Unit, workspace_id: str, run_id: str, now: datetime) -> RunRecord:
    """Cancel a run that is not over; its device learns it at the next renewal or heartbeat. Repeating is harmless."""
    row = lock_run(unit, workspace_id, run_id)
    if row.state != RunState.CANCELLED:
        before, build = row.state, Builds(unit.session, workspace_id).require(row.build_id)
        RUN_LIFECYCLE.move(unit, row, RunState.CANCELLED, now, finished_at=now)
        name = run_name(build, row.device_name)
        record(unit, Action.RUN_CANCEL, row, name, now, changed({"state": before}, {"state": row.state}))
        clear_device(unit, row)
    return row


def stop_run(unit: Unit, workspace_id: str, run_id: str, now: datetime) -> None:
    """Cancel a part of a longer work, whose own cancelling is recorded; nothing happens if it is over."""
    row = lock_run(unit, workspace_id, run_id)
    if row.state not in RUN_LIFECYCLE.final:
        RUN_LIFECYCLE.move(unit, row, RunState.CANCELLED, now, finished_at=now)
        clear_device(unit, row)


def delete_run(unit: Unit, workspace_id: str, run_id: str, now: datetime) -> None:
    """Forget a run that is over; a 409 `Problem` if it is not."""
    runs = Runs(unit.session, workspace_id)
    row = runs.require(run_id, lock=True)
    if row.state not in RUN_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This run is {row.state}; cancel it first.")
    name = run_name(Builds(unit.session, workspace_id).require(row.build_id), row.device_name)
    record(unit, Action.RUN_DELETE, row, name, now, gone(state=row.state, weights_digest=row.weights_digest))
    Blobs(unit.session, workspace_id).release(row.id, now)
    Events(unit.session, workspace_id).forget(row.id)
    runs.forget_steps(row.id)
    unit.session.delete(row)


def show(runs: Runs, rows: Sequence[RunRecord], *, slim: bool = False) -> list[RunOut]:
    """Runs as the API shows them; `slim` as lists do."""
    positions, origins = runs.queue_positions(rows), runs.origins(rows)
    works = find_longer_works(runs.session, runs.workspace_id, {row.part_of for row in rows if row.part_of})
    return [
        _describe(row, positions.get(row.id), origins[row.id], works.get(row.part_of or ""), slim=slim) for row in rows
    ]


def show_whole(runs: Runs, row: RunRecord, store: BlobStore) -> RunOut:
    """A run as the API shows it alone: profiled kernels have the phases of their nodes, if its artifact is there."""
    (shown,) = show(runs, [row])
    kernels = shown.report and shown.report.train and shown.report.train.kernels
    if kernels:
        tell_phases(kernels, _phases(runs.session, row, store))
    return shown


def _phases(session: Session, row: RunRecord, store: BlobStore) -> list[Phase]:
    build = Builds(session, row.workspace_id).require(row.build_id)
    artifact = Artifacts(session, row.workspace_id).find(build.artifact_digest or "")
    try:
        return [] if artifact is None else profiled_phases(artifact, store)
    except (BlobFault, StoreFailed) as error:
        _log.warning("The phases of the kernels of run %s are not known: %s", row.id, error)
        return []


def _describe(row: RunRecord, position: int | None, origin: Origin, work: LongerWork | None, *, slim: bool) -> RunOut:
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
        profile=row.profile,
        held_out=None if row.held_out is None else HeldShare(**row.held_out),
        initial_weights_digest=row.initial_weights_digest,
        part_of=row.part_of,
        longer_work=work,
        priority=row.priority,
        not_before=row.not_before,
        after=_after(row),
        retries={FailureClass(kind): count for kind, count in (row.retries or {}).items()},
        retry=row.retry,
        retry_of=row.retry_of,
        retried_by=row.retried_by,
        state=RunState(row.state),
        attempt=row.attempt,
        queue_position=position,
        progress=RunProgressOut(**row.progress) if row.progress else None,
        paused=paused_of(row),
        report=RunReport(**report) if report else None,
        weights_digest=row.weights_digest,
        weights_form=sent_as(row),
        weights_bytes=row.weights_bytes,
        full_weights_bytes=row.full_weights_bytes,
        failure=FailureOut(**row.failure) if row.failure else None,
        request_id=row.request_id,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def _after(row: RunRecord) -> After | None:
    if row.after_build_id is None and row.after_run_id is None:
        return None
    return After(build_id=row.after_build_id, run_id=row.after_run_id)
