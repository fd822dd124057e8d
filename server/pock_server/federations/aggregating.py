"""The aggregation of a round, in a child process: what it is given, and what becomes of what it leaves.

It parses what devices sent and computes on all weights, which may take long: the serving process does neither.
"""

import hashlib
import json
import logging
import subprocess
import sys
import threading
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from pock_server.aggregation.task import (
    MOMENTS,
    WEIGHTS,
    Contribution,
    Options,
    Outcome,
    Rule,
    Task,
    read_outcome,
    write_task,
)
from pock_server.artifacts.repository import Artifacts
from pock_server.artifacts.service import MANIFEST
from pock_server.artifacts.tables import ArtifactRecord
from pock_server.blobs.faults import BlobFault
from pock_server.blobs.repository import Blobs
from pock_server.builds.repository import Builds
from pock_server.db.unit import Unit
from pock_server.federations import privacy
from pock_server.federations.ending import drop_updates, fail
from pock_server.federations.lifecycle import FEDERATION_LIFECYCLE
from pock_server.federations.repository import Federations
from pock_server.federations.schemas import FederationIn, FederationState, RoundMemberState
from pock_server.federations.tables import FederationRecord, FederationRoundRecord
from pock_server.hub import DUTIES_TOPIC
from pock_server.runner.workplace import workplace
from pock_server.runs.weights import PARAMETERS
from pock_server.services import Services
from pock_server.weights.tensors import Tensor

_log = logging.getLogger(__name__)
_CRASHED, _BAD_DATA = 2001, 10004
_TRIES = 3
_ITEM_TYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "f64": "F64"}
_turn = threading.Semaphore(1)
_begun: set[str] = set()
"""Federations whose round this process aggregates at this moment, or is about to: a second one would be in vain."""


@dataclass(frozen=True)
class _Round:
    """A round that is to be aggregated: what the child is told, and which blob each of its files is."""

    number: int
    task: Task
    files: dict[str, str]


def read_trained(services: Services, artifact: ArtifactRecord) -> dict[str, Tensor]:
    """What a build trains, by name, in the artifact's order."""
    manifest: dict[str, Any] = json.loads(services.blobs.read(artifact.members[MANIFEST]["sha256"]))
    return {
        one["name"]: Tensor(_ITEM_TYPES.get(one["dtype"], "U8"), tuple(one["shape"]))
        for one in manifest["tensors"]
        if one["role"] == "param" and one["trained"] != "frozen"
    }


def in_background(services: Services, workspace_id: str, federation_id: str) -> None:
    """Aggregate in a thread, unless this process does that already; one round at a time."""
    if federation_id in _begun:
        return
    _begun.add(federation_id)
    thread = threading.Thread(target=_in_turn, args=(services, workspace_id, federation_id), daemon=True)
    thread.start()


def _in_turn(services: Services, workspace_id: str, federation_id: str) -> None:
    try:
        with _turn:
            aggregate(services, workspace_id, federation_id)
    except Exception:
        _log.exception("federation %s was not aggregated; it is tried again", federation_id)
    finally:
        _begun.discard(federation_id)


def aggregate(services: Services, workspace_id: str, federation_id: str) -> None:
    """Make the weights of the present round and move the federation on. Done again, it makes the same."""
    found = _gather(services, workspace_id, federation_id)
    if found is None:
        return
    with workplace(services.settings.effective_work_dir) as folder:
        try:
            for name, digest in found.files.items():
                services.blobs.download(digest, folder / name)
        except BlobFault as error:
            _give_up(services, workspace_id, federation_id, found.number, str(error))
            return
        write_task(folder, found.task)
        trouble = _run_child(folder, services.settings.aggregation_timeout_seconds)
        if trouble is not None:
            _give_up(services, workspace_id, federation_id, found.number, trouble)
            return
        outcome = read_outcome(folder)
        made = {name: services.blobs.put_file(folder / name) for name in (WEIGHTS, MOMENTS) if (folder / name).exists()}
    with services.database.write() as unit:
        row = Federations(unit.session, workspace_id).require(federation_id, lock=True)
        if (row.state, row.round) == (FederationState.AGGREGATING, found.number):
            _settle(unit, row, outcome, made, services.clock.now())


def _gather(services: Services, workspace_id: str, federation_id: str) -> _Round | None:
    """Everything that the round is made of; None where there is nothing to aggregate any more."""
    with services.database.read() as session:
        federations = Federations(session, workspace_id)
        row = federations.require(federation_id)
        if row.state != FederationState.AGGREGATING:
            return None
        present = federations.present(row)
        samples = {member["run_id"]: member["samples"] for member in present.members}
        runs = [run for run in federations.runs(row, present) if run.weights_digest is not None]
        build = Builds(session, workspace_id).require(row.build_id)
        artifact = Artifacts(session, workspace_id).require(build.artifact_digest or "")
    base = artifact.members[PARAMETERS]["sha256"]
    files = {"base": base, **{f"sent-{place}": run.weights_digest or "" for place, run in enumerate(runs)}}
    given = {"current": row.weights_digest, "moments": row.moments_digest}
    files |= {name: digest for name, digest in given.items() if digest is not None}
    contributions = (Contribution(run.id, f"sent-{place}", samples[run.id]) for place, run in enumerate(runs))
    task = Task(
        base="base",
        base_digest=base,
        current="current" if row.weights_digest else None,
        moments="moments" if row.moments_digest else None,
        trained=read_trained(services, artifact),
        contributions=tuple(contributions),
        options=_options(row),
    )
    return _Round(row.round, task, files)


def _options(row: FederationRecord) -> Options:
    order = FederationIn(**row.asked)
    return Options(
        rule=Rule(order.aggregation),
        server_learning_rate=order.server_learning_rate,
        clip_norm=order.clip_norm,
        norm_bound=order.norm_bound,
        noise=order.noise_multiplier,
        noise_key=hashlib.sha256(f"{row.noise_key}/{row.round}".encode()).hexdigest(),
    )


def _run_child(folder: Path, seconds: float) -> str | None:
    """Aggregate in a child; what went wrong, or None."""
    command = [sys.executable, "-m", "pock_server.aggregation", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, start_new_session=True, check=False)
    except subprocess.TimeoutExpired:
        return f"it took more than {seconds:g} s (POCK_AGGREGATION_TIMEOUT_SECONDS)"
    if done.returncode == 0:
        return None
    said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["nothing"]
    return f"it ended with status {done.returncode} and said {said[0]:.300}"


def _give_up(services: Services, workspace_id: str, federation_id: str, number: int, error: str) -> None:
    """Count the try; after the last one the federation fails."""
    _log.error("round %d of federation %s was not aggregated: %s", number, federation_id, error)
    now = services.clock.now()
    with services.database.write() as unit:
        row = Federations(unit.session, workspace_id).require(federation_id, lock=True)
        if (row.state, row.round) != (FederationState.AGGREGATING, number):
            return
        row.attempt += 1
        if row.attempt >= _TRIES:
            fail(unit, row, _CRASHED, f"Round {number} could not be aggregated, {_TRIES} times: {error}.", now)


def _settle(
    unit: Unit, row: FederationRecord, outcome: Outcome, made: dict[str, tuple[str, int]], now: datetime
) -> None:
    """End the round with what came of it."""
    federations, order = Federations(unit.session, row.workspace_id), FederationIn(**row.asked)
    present = federations.present(row)
    _note(present, outcome)
    row.rejected += len(outcome.rejected)
    present.finished_at, present.step_norm = now, outcome.step_norm
    drop_updates(unit, row, now)
    if len(outcome.accepted) < order.minimum:
        reasons = "; ".join(dict.fromkeys(one.reason for one in outcome.rejected))
        what = f"{len(outcome.accepted)} contributions to round {row.round} count, and {order.minimum} must"
        fail(unit, row, _BAD_DATA, f"Only {what}: {reasons:.1000}.", now)
        return
    blobs = Blobs(unit.session, row.workspace_id)
    blobs.release(row.id, now)
    for digest, size in made.values():
        blobs.remember(digest, size, now)
        blobs.use(row.id, (digest,))
    row.weights_digest, row.weights_bytes = made[WEIGHTS]
    row.moments_digest = made[MOMENTS][0] if MOMENTS in made else None
    present.weights_digest = row.weights_digest
    if order.noise_multiplier is not None:
        row.epsilon = privacy.spent(order.noise_multiplier, row.round, order.delta)
    if row.round == order.rounds:
        FEDERATION_LIFECYCLE.move(unit, row, FederationState.SUCCEEDED, now, finished_at=now, ends_at=None)
        return
    row.round, row.attempt = row.round + 1, 0
    ends_at = now + timedelta(seconds=order.round_deadline_seconds)
    FEDERATION_LIFECYCLE.move(unit, row, FederationState.WAITING, now, f"round {row.round}", ends_at=ends_at)
    unit.announce(DUTIES_TOPIC)


def _note(present: FederationRoundRecord, outcome: Outcome) -> None:
    """Write down whose contributions count."""
    known: dict[str, dict[str, Any]] = {
        one.run_id: {"state": RoundMemberState.ACCEPTED, "norm": one.norm, "clipped": one.clipped, "part": one.part}
        for one in outcome.accepted
    }
    known |= {one.run_id: {"state": RoundMemberState.REJECTED, "reason": one.reason[:500]} for one in outcome.rejected}
    present.members = [{**member, **known.get(member["run_id"], {})} for member in present.members]
