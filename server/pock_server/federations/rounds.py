"""What becomes of federations: the leading process asks this again and again, for each that is not over.

Nothing of it is in memory alone. A round begins, and ends, in one transaction each, with its runs; between them the
service may die wherever it likes. The aggregation in between is made of what is stored, and makes the same bytes each
time, so one that was cut off is simply done again.
"""

import statistics
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pock_server.db.unit import Unit
from pock_server.devices.presence import heard_since
from pock_server.federations.aggregating import in_background
from pock_server.federations.choice import Member, choose
from pock_server.federations.ending import drop_updates, fail
from pock_server.federations.lifecycle import FEDERATION_LIFECYCLE
from pock_server.federations.repository import Federations
from pock_server.federations.schemas import FederationIn, FederationState, RoundMemberState
from pock_server.federations.service import cancel_open_runs
from pock_server.federations.tables import FederationRecord, FederationRoundRecord
from pock_server.http.problems import Failure, Problem
from pock_server.runs.lifecycle import OPEN
from pock_server.runs.schemas import RunIn, RunState, WeightsForm
from pock_server.runs.service import request_run
from pock_server.runs.tables import RunRecord
from pock_server.services import Services

_TIMEOUT = 10001
Start = Callable[[Services, str, str], None]


def advance(services: Services, workspace_id: str, federation_id: str, start: Start = in_background) -> None:
    """Do for a federation what is to be done now; `start` begins the aggregation of a round."""
    with services.database.read() as session:
        row = Federations(session, workspace_id).require(federation_id)
        state = row.state
    if state == FederationState.WAITING:
        _begin(services, workspace_id, federation_id)
    elif state == FederationState.TRAINING:
        _end(services, workspace_id, federation_id)
    if state in (FederationState.TRAINING, FederationState.AGGREGATING):
        with services.database.read() as session:
            row = Federations(session, workspace_id).require(federation_id)
        if row.state == FederationState.AGGREGATING:
            start(services, workspace_id, federation_id)


def _locked(unit: Unit, workspace_id: str, federation_id: str, state: FederationState) -> FederationRecord:
    """The federation, locked; a 409 `Problem` if somebody moved it on."""
    row = Federations(unit.session, workspace_id).require(federation_id, lock=True)
    if row.state != state:
        raise Problem(Failure.STATE_CONFLICT, f"This federation is {row.state} by now.")
    return row


def _begin(services: Services, workspace_id: str, federation_id: str) -> None:
    """Begin the next round if enough devices are there: all of its runs in one transaction."""
    now = services.clock.now()
    since = heard_since(now, services.fleet.heartbeat_seconds())
    with services.database.write() as unit:
        row = _locked(unit, workspace_id, federation_id, FederationState.WAITING)
        order = FederationIn(**row.asked)
        members = choose(unit.session, row, since)
        if len(members) < order.minimum:
            if row.ends_at is not None and row.ends_at < now:
                here = f"{len(members)} devices with data could take part in round {row.round}"
                detail = f"Only {here}, and {order.minimum} must; see that they are online, and go on."
                fail(unit, row, _TIMEOUT, detail, now)
            return
        told = [_request(services, unit, row, order, member, now) for member in members]
        began = FederationRoundRecord(
            federation_id=row.id,
            number=row.round,
            members=told,
            up_bytes=0,
            down_bytes=len(told) * (row.weights_bytes or 0),
            began_at=now,
        )
        unit.session.add(began)
        row.down_bytes += began.down_bytes
        row.full_bytes += len(told) * (row.full_weights_bytes or 0)
        ends_at = now + timedelta(seconds=order.round_deadline_seconds)
        FEDERATION_LIFECYCLE.move(unit, row, FederationState.TRAINING, now, f"round {row.round}", ends_at=ends_at)


def _request(
    services: Services, unit: Unit, row: FederationRecord, order: FederationIn, member: Member, now: datetime
) -> dict[str, Any]:
    """Ask for the run of a member; what the round notes of it."""
    wanted = RunIn(
        build_id=row.build_id,
        device_id=member.device.id,
        dataset_id=member.dataset.id,
        steps=member.steps,
        threads=order.threads,
        seed=member.seed,
        save_weights=True,
        weights_form=WeightsForm.DELTA,
        weights_of=row.weights_digest,
        deadline_seconds=order.round_deadline_seconds,
        queue_deadline_seconds=order.round_deadline_seconds,
        priority=order.priority,
    )
    run = request_run(unit, row.workspace_id, wanted, services.settings, now, part_of=row.id)
    device = {"device_id": member.device.id, "device_name": member.device.name}
    return {**device, "run_id": run.id, "samples": member.dataset.samples}


def _end(services: Services, workspace_id: str, federation_id: str) -> None:
    """End the training of a round when all have answered, or when its time is over and enough have."""
    now = services.clock.now()
    with services.database.write() as unit:
        row = _locked(unit, workspace_id, federation_id, FederationState.TRAINING)
        federations = Federations(unit.session, workspace_id)
        present = federations.present(row)
        runs = federations.runs(row, present)
        late = row.ends_at is not None and row.ends_at < now
        if not late and any(run.state in OPEN for run in runs):
            return
        cancel_open_runs(unit, row, now)
        answered = [run for run in runs if run.state == RunState.SUCCEEDED and run.weights_digest is not None]
        _note(row, present, runs)
        minimum = FederationIn(**row.asked).minimum
        if len(answered) < minimum:
            whole = f"{len(answered)} of {len(present.members)} devices answered in round {row.round}"
            drop_updates(unit, row, now)
            fail(unit, row, _TIMEOUT, f"Only {whole}, and {minimum} must: {_why(runs)}", now)
            return
        FEDERATION_LIFECYCLE.move(unit, row, FederationState.AGGREGATING, now, f"round {row.round}", ends_at=None)


def _note(row: FederationRecord, present: FederationRoundRecord, runs: Sequence[RunRecord]) -> None:
    """Write down what became of the members, how much they sent, and how well they did."""
    of = {run.id: run for run in runs}
    members = []
    for member in present.members:
        run = of.get(member["run_id"])
        state, reason = RoundMemberState.FAILED, "its run was deleted"
        if run is not None and run.state == RunState.SUCCEEDED and run.weights_digest is not None:
            state, reason = RoundMemberState.ANSWERED, ""
        elif run is not None and run.state == RunState.CANCELLED:
            state, reason = RoundMemberState.LATE, "it did not answer in time, or its run was cancelled"
        elif run is not None:
            reason = (run.failure or {}).get("detail", "it sent no weights")
        members.append({**member, "state": state, "reason": reason[:500] or None})
    losses = [loss for run in runs if (loss := _last_loss(run)) is not None]
    present.members, present.loss = members, statistics.fmean(losses) if losses else None
    present.up_bytes = sum(run.weights_bytes or 0 for run in runs)
    row.up_bytes += present.up_bytes
    row.full_bytes += sum(run.full_weights_bytes or 0 for run in runs)


def _last_loss(run: RunRecord) -> float | None:
    losses = ((run.report or {}).get("train") or {}).get("loss")
    last = losses[-1] if isinstance(losses, list) and losses else None
    return float(last) if isinstance(last, int | float) and abs(last) < 1e30 else None


def _why(runs: Sequence[RunRecord]) -> str:
    """What most of those that failed say."""
    said = [(run.failure or {}).get("detail", "") for run in runs if run.state == RunState.FAILED]
    return statistics.mode(said) if said else "the others did not answer in time."
