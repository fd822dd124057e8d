"""Accepts, shows, cancels and forgets federations."""

import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any

from pock_server.artifacts.repository import Artifacts
from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.builds.repository import Builds
from pock_server.builds.schemas import BuildState, FailureOut
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.db.unit import Unit
from pock_server.devices.selectors.grammar import BadSelector, parse
from pock_server.events.repository import Events
from pock_server.federations.aggregating import read_trained
from pock_server.federations.ending import drop_updates
from pock_server.federations.lifecycle import FEDERATION_LIFECYCLE
from pock_server.federations.repository import Federations
from pock_server.federations.schemas import (
    FederationIn,
    FederationOut,
    FederationState,
    RoundMemberOut,
    RoundMemberState,
    RoundOut,
)
from pock_server.federations.tables import FederationRecord, FederationRoundRecord
from pock_server.http.problems import Failure, Problem
from pock_server.hub import DUTIES_TOPIC
from pock_server.observing.context import request_id, traceparent
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.schemas import RunState
from pock_server.runs.service import cancel_run
from pock_server.runs.tables import RunRecord
from pock_server.runs.weights import PARAMETERS, weights_named
from pock_server.services import Services


def check_trainable(services: Services, workspace_id: str, build_id: str) -> None:
    """Raise a `Problem` unless this service can aggregate, and what the build trains can be. Reads the store: call it
    outside of a transaction."""
    if find_spec("numpy") is None:
        detail = "This service has no numpy, which aggregation needs: pip install 'pock-server[federation]'."
        raise Problem(Failure.STATE_CONFLICT, detail)
    with services.database.read() as session:
        build = Builds(session, workspace_id).require(build_id)
        artifact = Artifacts(session, workspace_id).find(build.artifact_digest or "")
    if build.state != BuildState.SUCCEEDED or artifact is None or PARAMETERS not in artifact.members:
        detail = f"Build {build.name} is {build.state} or has no artifact any more; a federation needs a succeeded one."
        raise Problem(Failure.STATE_CONFLICT, detail)
    trained = read_trained(services, artifact)
    others = sorted({tensor.dtype for tensor in trained.values()} - {"F32"})
    if not trained or others:
        what = f"trains numbers of type {others[0]}; only F32 can be aggregated" if others else "trains nothing"
        raise Problem(Failure.STATE_CONFLICT, f"Build {build.name} {what}.")


def create_federation(unit: Unit, workspace_id: str, order: FederationIn, now: datetime) -> FederationRecord:
    """Begin a federation whose build was checked; a `Problem` says what it refers to in vain."""
    try:
        parse(order.on)
    except BadSelector as error:
        raise Problem(Failure.INVALID, f"body.on: {error}.") from None
    build = Builds(unit.session, workspace_id).require(order.build_id, lock=True)
    for dataset_id in set((order.datasets or {}).values()):
        Datasets(unit.session, workspace_id).require(dataset_id)
    blobs = Blobs(unit.session, workspace_id)
    artifact = Artifacts(unit.session, workspace_id).require(build.artifact_digest or "")
    initial = None if order.weights_of is None else _initial(unit, order.weights_of, build, now)
    row = FederationRecord(
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        name=order.name,
        build_id=build.id,
        asked=order.model_dump(mode="json"),
        noise_key=secrets.token_hex(32),
        round=1,
        state=FederationState.WAITING,
        ends_at=now + timedelta(seconds=order.round_deadline_seconds),
        started_at=now,
        attempt=0,
        weights_digest=initial,
        weights_bytes=None if initial is None else blobs.require(initial).size,
        full_weights_bytes=artifact.members[PARAMETERS]["size"],
        up_bytes=0,
        down_bytes=0,
        full_bytes=0,
        rejected=0,
        request_id=request_id(),
        traceparent=traceparent(),
    )
    Federations(unit.session, workspace_id).add(row)
    blobs.use(row.id, [] if initial is None else [initial])
    Events(unit.session, workspace_id).append(row.id, "state", {"state": row.state, "round": 1}, now)
    chosen = made(build_id=row.build_id, rounds=order.rounds, on=order.on, aggregation=order.aggregation)
    record(unit, Action.FEDERATION_CREATE, row, row.name, now, chosen)
    unit.announce(DUTIES_TOPIC)
    return row


def _initial(unit: Unit, weights_of: str, build: BuildRecord, now: datetime) -> str:
    digest = weights_named(unit.session, weights_of, build)
    return Blobs(unit.session, build.workspace_id).take(digest, now).digest


def cancel_federation(unit: Unit, workspace_id: str, federation_id: str, now: datetime) -> FederationRecord:
    """Cancel a federation that is not over, and its runs. Repeating is harmless."""
    federations = Federations(unit.session, workspace_id)
    row = federations.require(federation_id, lock=True)
    if row.state != FederationState.CANCELLED:
        before = row.state
        if before == FederationState.TRAINING:
            cancel_open_runs(unit, row, now)
        if before in (FederationState.TRAINING, FederationState.AGGREGATING):
            drop_updates(unit, row, now)
        FEDERATION_LIFECYCLE.move(unit, row, FederationState.CANCELLED, now, finished_at=now, ends_at=None)
        changes = changed({"state": before}, {"state": row.state})
        record(unit, Action.FEDERATION_CANCEL, row, row.name, now, changes)
    return row


def cancel_open_runs(unit: Unit, row: FederationRecord, now: datetime) -> None:
    """End the runs of the present round that are not over."""
    federations = Federations(unit.session, row.workspace_id)
    for run in sorted(federations.runs(row, federations.present(row)), key=lambda run: run.device_id):
        if run.state in OPEN:
            cancel_run(unit, row.workspace_id, run.id, now)


def delete_federation(unit: Unit, workspace_id: str, federation_id: str, now: datetime) -> None:
    """Forget a federation that is over; its runs stay. A 409 `Problem` if it is not."""
    federations = Federations(unit.session, workspace_id)
    row = federations.require(federation_id, lock=True)
    if row.state not in FEDERATION_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This federation is {row.state}; cancel it first.")
    record(unit, Action.FEDERATION_DELETE, row, row.name, now, gone(state=row.state, weights_digest=row.weights_digest))
    Blobs(unit.session, workspace_id).release(row.id, now)
    Events(unit.session, workspace_id).forget(row.id)
    federations.forget_rounds(row)
    unit.session.delete(row)


def show(row: FederationRecord) -> FederationOut:
    """The federation as the API shows it."""
    order = FederationIn(**row.asked)
    same = ("name", "build_id", "on", "rounds", "devices_per_round", "minimum", "aggregation", "delta")
    kept = (
        *("id", "round", "ends_at", "weights_digest", "weights_bytes", "full_weights_bytes", "up_bytes", "down_bytes"),
        *("full_bytes", "rejected", "epsilon", "request_id", "created_at", "started_at", "finished_at"),
    )
    return FederationOut(
        **{name: getattr(order, name) for name in same},
        **{name: getattr(row, name) for name in kept},
        state=FederationState(row.state),
        failure=FailureOut(**row.failure) if row.failure else None,
    )


def show_round(row: FederationRoundRecord, runs: Mapping[str, RunRecord]) -> RoundOut:
    """A round as the API shows it; `runs` by their ids."""
    return RoundOut(
        number=row.number,
        members=[_member(member, runs.get(member["run_id"])) for member in row.members],
        loss=row.loss,
        step_norm=row.step_norm,
        weights_digest=row.weights_digest,
        up_bytes=row.up_bytes,
        down_bytes=row.down_bytes,
        began_at=row.began_at,
        finished_at=row.finished_at,
    )


def _member(told: dict[str, Any], run: RunRecord | None) -> RoundMemberOut:
    """What is written down of a member, or else what its run says."""
    found = RoundMemberOut(**{"state": RoundMemberState.TRAINING, **told})
    if "state" in told or run is None:
        return found
    if run.state == RunState.SUCCEEDED:
        return found.model_copy(update={"state": RoundMemberState.ANSWERED})
    if run.state in (RunState.FAILED, RunState.CANCELLED):
        return found.model_copy(update={"state": RoundMemberState.FAILED, "reason": (run.failure or {}).get("detail")})
    return found
