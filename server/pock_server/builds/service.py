"""Accepts, shows and cancels builds."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from pock_server.artifacts.repository import Artifacts
from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.queue import queue_positions
from pock_server.builds.repository import AllBuilds, Builds
from pock_server.builds.schemas import BuildIn, BuildOut, BuildState, FailureOut, ProgressOut, SummaryOut, Tune
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.db.insert import insert_if_absent
from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.http.fields import canonical_json
from pock_server.http.problems import Failure, Problem
from pock_server.models.repository import Models
from pock_server.models.tables import ModelRecord
from pock_server.names.schemas import VersionOut
from pock_server.observing.context import request_id, traceparent
from pock_server.observing.facts import Counted
from pock_server.recipes.repository import Recipes
from pock_server.targets.service import Compiler
from pock_server.tuning.repository import Entries

QUEUE = "builds"
"""Topic that wakes runners."""


@dataclass(frozen=True)
class Requested:
    """The build that answers a request, and whether the request made it."""

    row: BuildRecord
    created: bool


def request_build(
    unit: Unit, workspace_id: str, order: BuildIn, recipe: dict[str, Any] | None, compiler: Compiler, now: datetime
) -> Requested:
    """Queue a build, or find the one that the same request made before. `recipe` is what the order's own recipe says,
    None if it names one."""
    if recipe is None:
        recipe = Recipes(unit.session, workspace_id).require(order.recipe_id or "", lock=True).content
    model = Models(unit.session, workspace_id).require(order.model_id)
    target = compiler.require_target(order.target)
    threads = order.threads or default_threads(target)
    knowledge = Entries(unit.session, workspace_id).revision(order.target) if order.tune == Tune.FLEET else None
    key = build_key(model, recipe, order.target, threads, compiler.version, knowledge)
    builds, name = Builds(unit.session, workspace_id), order.name or model.name
    builds.hold(name)
    existing = AllBuilds(unit.session, workspace_id).find_live(key)
    if existing is not None:
        unit.happened(Counted("builds_requested", "same"))
        return Requested(existing, created=False)
    row = insert_if_absent(
        unit.session,
        BuildRecord,
        id=new_id(now),
        workspace_id=workspace_id,
        created_at=now,
        key=key,
        model_id=model.id,
        model_name=model.name,
        name=name,
        version=builds.next_version(name),
        target=order.target,
        threads=threads,
        priority=order.priority,
        tune=order.tune,
        recipe_id=order.recipe_id,
        recipe=recipe,
        compiler_version=compiler.version,
        state=BuildState.QUEUED,
        request_id=request_id(),
        traceparent=traceparent(),
        attempt=0,
    )
    if row is None:
        return Requested(made_meanwhile(AllBuilds(unit.session, workspace_id), key), created=False)
    Events(unit.session, workspace_id).append(row.id, "state", {"state": BuildState.QUEUED}, now)
    new = made(version=row.version, model_id=model.id, target=row.target, threads=threads)
    record(unit, Action.BUILD_REQUEST, row, row.name, now, new)
    unit.announce(QUEUE)
    unit.happened(Counted("builds_requested", "new"))
    return Requested(row, created=True)


def made_meanwhile(builds: AllBuilds, key: str) -> BuildRecord:
    """What the same request, served at the same time, has made; a 409 `Problem` if that is over again."""
    row = builds.find_live(key)
    if row is None:
        raise Problem(Failure.STATE_CONFLICT, "The same was asked for, and ended, at this moment; ask for it again.")
    return row


def default_threads(target: Mapping[str, Any]) -> int:
    """The target's cores, 1 if its description does not say."""
    cores = target.get("cores")
    return cores if isinstance(cores, int) and 1 <= cores <= 256 else 1


def build_key(
    model: ModelRecord,
    recipe: dict[str, Any],
    target: str,
    threads: int,
    compiler_version: str,
    knowledge: str | None = None,
) -> str:
    """SHA-256 of everything that decides the result of a build; `knowledge` changes with what the fleet found, None
    where that is not asked."""
    inputs: dict[str, Any] = {
        "model": model.digest,
        "external": model.external,
        "recipe": recipe,
        "target": target,
        "threads": threads,
        "compiler": compiler_version,
    }
    if knowledge is not None:
        inputs["knowledge"] = knowledge
    return hashlib.sha256(canonical_json(inputs).encode()).hexdigest()


def cancel_build(unit: Unit, workspace_id: str, build_id: str, now: datetime) -> BuildRecord:
    """Cancel a build that is not over; its runner stops the child. Cancelling twice changes nothing."""
    row = Builds(unit.session, workspace_id).require(build_id, lock=True)
    if row.state != BuildState.CANCELLED:
        before = row.state
        BUILD_LIFECYCLE.move(unit, row, BuildState.CANCELLED, now, finished_at=now)
        record(unit, Action.BUILD_CANCEL, row, row.name, now, changed({"state": before}, {"state": row.state}))
    return row


def delete_build(unit: Unit, workspace_id: str, build_id: str, now: datetime) -> None:
    """Forget a build that is over and has no runs, its log, and its artifact; a 409 `Problem` otherwise."""
    builds = Builds(unit.session, workspace_id)
    row = builds.require(build_id, lock=True)
    if row.state not in BUILD_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"Build {row.name} is {row.state}; cancel it first.")
    runs = builds.count_runs(row.id)
    if runs:
        raise Problem(Failure.STATE_CONFLICT, f"Build {row.name} has {runs} runs; delete them first.")
    federations = builds.count_federations(row.id)
    if federations:
        raise Problem(Failure.STATE_CONFLICT, f"Build {row.name} has {federations} federations; delete them first.")
    record(unit, Action.BUILD_DELETE, row, row.name, now, gone(state=row.state, artifact_digest=row.artifact_digest))
    drop_artifact(unit.session, row, now)
    builds.forget_tags(row)
    Events(unit.session, workspace_id).forget(row.id)
    unit.session.delete(row)


def drop_artifact(session: Session, row: BuildRecord, now: datetime) -> None:
    """The build no longer needs its artifact, which goes unless another build made the same."""
    Blobs(session, row.workspace_id).release(row.id, now)
    if row.artifact_digest is not None:
        other = Builds(session, row.workspace_id).other_maker(row)
        Artifacts(session, row.workspace_id).give_up(row.artifact_digest, other.id if other else None)


def read_log(events: Events, build_id: str) -> str:
    """The build's log."""
    return "".join(str(row.data["text"]) + "\n" for row in events.of_kind(build_id, "log"))


def show(builds: Builds, rows: Sequence[BuildRecord]) -> list[BuildOut]:
    """Builds as the API shows them."""
    session, home = builds.session, builds.workspace_id
    positions, tags = queue_positions(session, rows), builds.tags_of(rows)
    models = Models(session, home).versions(row.model_id for row in rows)
    recipes = Recipes(session, home).versions(row.recipe_id for row in rows)
    return [
        _describe(row, positions.get(row.id), tags[row.id], models[row.model_id], recipes.get(row.recipe_id or ""))
        for row in rows
    ]


def _describe(
    row: BuildRecord, position: int | None, tags: list[str], model: VersionOut, recipe: VersionOut | None
) -> BuildOut:
    return BuildOut(
        id=row.id,
        model_id=row.model_id,
        model_name=row.model_name,
        model=model,
        name=row.name,
        version=row.version,
        tags=tags,
        target=row.target,
        threads=row.threads,
        priority=row.priority,
        tune=Tune(row.tune),
        recipe=row.recipe,
        recipe_version=recipe,
        compiler_version=row.compiler_version,
        state=BuildState(row.state),
        progress=ProgressOut(**row.progress) if row.progress else None,
        queue_position=position,
        summary=SummaryOut(**row.summary) if row.summary else None,
        artifact_digest=row.artifact_digest,
        failure=FailureOut(**row.failure) if row.failure else None,
        request_id=row.request_id,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )
