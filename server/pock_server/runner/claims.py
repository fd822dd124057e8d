"""A runner's hold on a build, in the database: claimed by compare-and-set, fenced by the attempt's number."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pock_server.artifacts.repository import Artifacts
from pock_server.blobs.repository import Blobs
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.queue import find_next, take_next
from pock_server.builds.repository import AllBuilds
from pock_server.builds.schemas import BuildKind, BuildState, Tune
from pock_server.builds.service import QUEUE
from pock_server.builds.tables import BuildRecord
from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.http.problems import Failure, Problem
from pock_server.searches.service import Searched, store_found
from pock_server.services import Services
from pock_server.tuning.service import begin_tuning

LOST_RUNNER = 2001


@dataclass(frozen=True)
class Claim:
    """One attempt at one build."""

    workspace_id: str
    build_id: str
    attempt: int
    request_id: str | None


@dataclass(frozen=True)
class Built:
    """What a worker made; its blobs are stored already."""

    digest: str
    size: int
    members: dict[str, Any]
    executable: str
    inputs: list[Any]
    summary: dict[str, Any]


@dataclass(frozen=True)
class Broken:
    """Why a worker made nothing."""

    code: int
    detail: str


Outcome = Built | Searched | Broken
"""What came of an attempt."""


@dataclass
class Journal:
    """What a worker said since the last time it was written down: log lines, and the last progress of each stage."""

    lines: list[str] = field(default_factory=list)
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.lines or self.stages)


def claim_next(services: Services) -> Claim | None:
    """Take the next build, in fairness to all workspaces, or None if none may run now or another runner was faster."""
    limit = services.settings.builds_per_workspace
    with services.database.read() as session:
        if find_next(session, limit) is None:
            return None
    now = services.clock.now()
    try:
        with services.database.write() as unit:
            row = take_next(unit.session, limit, now)
            if row is None:
                return None
            lease = now + timedelta(seconds=services.settings.build_lease_seconds)
            attempt = row.attempt + 1
            BUILD_LIFECYCLE.move(
                unit, row, BuildState.RUNNING, now, attempt=attempt, lease_expires_at=lease, started_at=now
            )
            return Claim(row.workspace_id, row.id, attempt, row.request_id)
    except Problem as problem:
        if problem.failure is Failure.STATE_CONFLICT:
            return None
        raise


def still_held(services: Services, claim: Claim) -> bool:
    """Whether the build is still this runner's: not cancelled, not given to another."""
    with services.database.read() as session:
        return _is_held(AllBuilds(session, claim.workspace_id).find(claim.build_id), claim)


def write_down(services: Services, claim: Claim, journal: Journal) -> bool:
    """Store what the worker said and renew the lease; False if the build is no longer this runner's."""
    now = services.clock.now()
    with services.database.write() as unit:
        row = AllBuilds(unit.session, claim.workspace_id).find(claim.build_id, lock=True)
        if row is None or not _is_held(row, claim):
            return False
        row.lease_expires_at = now + timedelta(seconds=services.settings.build_lease_seconds)
        events = Events(unit.session, claim.workspace_id)
        if journal.lines:
            events.append(row.id, "log", {"text": "\n".join(journal.lines)}, now)
        for progress in journal.stages.values():
            row.progress = progress
            events.append(row.id, "progress", progress, now)
        unit.announce(f"build:{row.id}")
    return True


def finish(services: Services, claim: Claim, outcome: Outcome) -> None:
    """End the build; nothing happens if it is no longer this runner's."""
    now = services.clock.now()
    with services.database.write() as unit:
        row = AllBuilds(unit.session, claim.workspace_id).find(claim.build_id, lock=True)
        if row is None or not _is_held(row, claim):
            return
        if isinstance(outcome, Broken):
            failure = {"code": outcome.code, "detail": outcome.detail}
            BUILD_LIFECYCLE.move(unit, row, BuildState.FAILED, now, failure=failure, finished_at=now)
            return
        if isinstance(outcome, Searched):
            store_found(unit, row, outcome, now)
            BUILD_LIFECYCLE.move(unit, row, BuildState.SUCCEEDED, now, summary=outcome.summary, finished_at=now)
            return
        _store_artifact(unit, claim, outcome, services)
        BUILD_LIFECYCLE.move(
            unit,
            row,
            BuildState.SUCCEEDED,
            now,
            artifact_digest=outcome.digest,
            summary=outcome.summary,
            finished_at=now,
        )
        if row.kind == BuildKind.MODEL and row.tune == Tune.FLEET:
            begin_tuning(unit, row, now)


def _store_artifact(unit: Unit, claim: Claim, built: Built, services: Services) -> None:
    now = services.clock.now()
    blobs = Blobs(unit.session, claim.workspace_id)
    stored = {built.digest: built.size, **{member["sha256"]: member["size"] for member in built.members.values()}}
    for digest in sorted(stored):
        blobs.remember(digest, stored[digest], now)
    blobs.use(claim.build_id, stored)
    Artifacts(unit.session, claim.workspace_id).add(
        digest=built.digest,
        size=built.size,
        build_id=claim.build_id,
        members=built.members,
        executable=built.executable,
        inputs=built.inputs,
        created_at=now,
    )


def give_back(services: Services, claim: Claim) -> None:
    """The runner stops: let another one take the build, without counting this attempt."""
    with services.database.write() as unit:
        row = AllBuilds(unit.session, claim.workspace_id).find(claim.build_id, lock=True)
        if row is not None and _is_held(row, claim):
            _requeue(unit, row, services, row.attempt - 1, "the runner stopped")


def put_off(services: Services, claim: Claim, why: Broken, counted: bool) -> None:
    """The runner cannot do it now: the build waits again. It fails, as `why` says, after the last attempt that counts,
    or when it was asked for longer ago than the queue's deadline."""
    now = services.clock.now()
    with services.database.write() as unit:
        row = AllBuilds(unit.session, claim.workspace_id).find(claim.build_id, lock=True)
        if row is None or not _is_held(row, claim):
            return
        last = now - row.created_at > timedelta(seconds=services.settings.queue_deadline_seconds)
        if last or (counted and row.attempt >= services.settings.max_attempts):
            failure = {"code": why.code, "detail": f"{why.detail} Given up after {row.attempt} attempts."}
            BUILD_LIFECYCLE.move(unit, row, BuildState.FAILED, now, failure=failure, finished_at=now)
            return
        text = f"back to the queue: {why.detail}"
        Events(unit.session, claim.workspace_id).append(row.id, "log", {"text": text}, now)
        _requeue(unit, row, services, row.attempt if counted else row.attempt - 1, why.detail)


def take_from_lost_runner(unit: Unit, row: BuildRecord, services: Services) -> None:
    """The runner went silent: the build waits again, or fails after its last attempt."""
    if row.attempt < services.settings.max_attempts:
        _requeue(unit, row, services, row.attempt, "the runner was lost")
        return
    now = services.clock.now()
    failure = {"code": LOST_RUNNER, "detail": f"Given up after {row.attempt} attempts: the build process was lost."}
    BUILD_LIFECYCLE.move(unit, row, BuildState.FAILED, now, failure=failure, finished_at=now)


def _requeue(unit: Unit, row: BuildRecord, services: Services, attempt: int, reason: str) -> None:
    nothing = {"lease_expires_at": None, "started_at": None, "progress": None}
    BUILD_LIFECYCLE.move(unit, row, BuildState.QUEUED, services.clock.now(), reason, attempt=attempt, **nothing)
    unit.announce(QUEUE)


def _is_held(row: BuildRecord | None, claim: Claim) -> bool:
    return row is not None and row.state == BuildState.RUNNING and row.attempt == claim.attempt
