"""Accepts, shows, cancels and forgets searches, and keeps what they found."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pock_server.audit.service import Action, changed, gone, made, record
from pock_server.blobs.repository import Blobs
from pock_server.builds.lifecycle import BUILD_LIFECYCLE
from pock_server.builds.queue import queue_positions
from pock_server.builds.repository import AllBuilds
from pock_server.builds.schemas import BuildKind, BuildState, FailureOut, ProgressOut
from pock_server.builds.service import QUEUE, default_threads, made_meanwhile
from pock_server.builds.tables import BuildRecord
from pock_server.clock import new_id
from pock_server.datasets.repository import Datasets
from pock_server.db.insert import insert_if_absent
from pock_server.db.unit import Unit
from pock_server.events.repository import Events
from pock_server.http.fields import canonical_json
from pock_server.http.problems import Failure, Problem
from pock_server.models.repository import Models
from pock_server.models.tables import ModelRecord
from pock_server.names.schemas import VersionOut
from pock_server.observing.context import request_id, traceparent
from pock_server.recipes.repository import Recipes
from pock_server.recipes.schemas import RecipeIn
from pock_server.recipes.service import Origin, create_recipe
from pock_server.searches.repository import Searches
from pock_server.searches.schemas import FoundOut, SearchIn, SearchOut
from pock_server.searches.tables import SearchRecord
from pock_server.settings import Settings
from pock_server.targets.service import Compiler

_UNLISTED = -1
"""The version of builds that are not listed: their names are nobody's."""
_LATER = {"channels", "joules", "watts", "lr_steps", "ranks", "tries"}
_NEVER = {"recompute": False, "micro_batches": False}
"""Of searches that were asked for before there were these forms of a step."""
_NOT_ASKED = {**{name: SearchIn.model_fields[name].default for name in _LATER}, **_NEVER}


@dataclass(frozen=True)
class Searched:
    """What a worker found; its blobs, which are given with their sizes, are stored already."""

    text: str
    content: dict[str, Any]
    result: tuple[str, int]
    report: tuple[str, int]
    summary: dict[str, Any]


@dataclass(frozen=True)
class Requested:
    """The search that answers a request, and whether the request made it."""

    row: SearchRecord
    created: bool


def request_search(
    unit: Unit,
    workspace_id: str,
    order: SearchIn,
    recipe: dict[str, Any] | None,
    compiler: Compiler,
    settings: Settings,
    now: datetime,
) -> Requested:
    """Queue a search, or find the one that the same request made before. `recipe` is what the order's own recipe says,
    None if it has none. A `Problem` says what could never be searched."""
    if order.minutes * 60 > settings.search_timeout_seconds:
        most = settings.search_timeout_seconds / 60
        detail = f"body.minutes: a search takes {most:g} at most here, all in all (POCK_SEARCH_TIMEOUT_SECONDS)."
        raise Problem(Failure.INVALID, detail)
    if order.recipe_id is not None:
        recipe = Recipes(unit.session, workspace_id).require(order.recipe_id, lock=True).content
    model = Models(unit.session, workspace_id).require(order.model_id)
    _check_datasets(Datasets(unit.session, workspace_id), order)
    threads = order.threads or default_threads(compiler.require_target(order.target))
    fields = _fields(order, model, recipe or {}, threads, compiler.version)
    builds, searches = AllBuilds(unit.session, workspace_id), Searches(unit.session, workspace_id)
    existing = builds.find_live(fields["key"])
    if existing is not None:
        return Requested(searches.require(existing.id), created=False)
    entered = {"id": new_id(now), "workspace_id": workspace_id, "created_at": now}
    row = insert_if_absent(unit.session, BuildRecord, **entered, **fields)
    if row is None:
        return Requested(searches.require(made_meanwhile(builds, fields["key"]).id), created=False)
    search = SearchRecord(
        **entered,
        model_id=model.id,
        dataset_id=order.dataset_id,
        eval_dataset_id=order.eval_dataset_id,
        name=order.name or model.name,
        options=_options(order),
    )
    searches.add(search)
    Events(unit.session, workspace_id).append(row.id, "state", {"state": BuildState.QUEUED}, now)
    new = made(model_id=model.id, dataset_id=order.dataset_id, target=row.target, method=order.method)
    record(unit, Action.SEARCH_REQUEST, search, search.name, now, new)
    unit.announce(QUEUE)
    return Requested(search, created=True)


def _check_datasets(datasets: Datasets, order: SearchIn) -> None:
    """Raise a `Problem` for what stays elsewhere, and for samples that are not alike. Whether they fit the model, which
    nobody here opens, is the worker's to say."""
    rows = [datasets.require(one) for one in (order.dataset_id, order.eval_dataset_id) if one is not None]
    shapes: dict[str, list[int]] = {}
    for row in rows:
        if row.device_id is not None:
            detail = f"Dataset {row.name} stays on a device; a search needs data that were pushed."
            raise Problem(Failure.STATE_CONFLICT, detail)
        for tensor in row.tensors:
            shape = tensor["shape"][1:]
            if shapes.setdefault(tensor["name"], shape) != shape:
                told = (
                    f"{tensor['name']!r} is {shapes[tensor['name']]} a sample in {rows[0].name}, {shape} in {row.name}"
                )
                raise Problem(Failure.BAD_DATA, f"{told}; both must fit the same model.")


def _options(order: SearchIn) -> dict[str, Any]:
    """What the compiler's search is called with. What came later is there if it was asked for, so that the same request
    has the key that it had."""
    same = order.model_dump(mode="json", include={"step_ms", "method", "prefer", "minutes", "confirm", "seed"})
    later = order.model_dump(mode="json", include=_LATER, exclude_defaults=True)
    forms = {"recompute": order.recompute is not False, "micro_batches": order.micro_batches}
    return {"memory": order.memory_bytes, **same, **later, **({} if order.memory_bytes is None else forms)}


def _fields(
    order: SearchIn, model: ModelRecord, recipe: dict[str, Any], threads: int, compiler_version: str
) -> dict[str, Any]:
    """The columns of a search's build; its key is the SHA-256 of all that decides the result, and of its name."""
    fixed: dict[str, Any] = {
        "kind": BuildKind.SEARCH,
        "model_id": model.id,
        "target": order.target,
        "threads": threads,
        "recipe": recipe,
        "compiler_version": compiler_version,
    }
    name = order.name or model.name
    data = [order.dataset_id, order.eval_dataset_id]
    key = canonical_json({**fixed, "data": data, "options": _options(order), "name": name})
    return {
        **fixed,
        "key": hashlib.sha256(key.encode()).hexdigest(),
        "recipe_id": order.recipe_id,
        "model_name": model.name,
        "name": name,
        "version": _UNLISTED,
        "priority": order.priority,
        "state": BuildState.QUEUED,
        "request_id": request_id(),
        "traceparent": traceparent(),
        "attempt": 0,
    }


def store_found(unit: Unit, build: BuildRecord, found: Searched, now: datetime) -> None:
    """Keep what a search found: the recipe as the next version of its name, the rest as blobs."""
    row = Searches(unit.session, build.workspace_id).require(build.id, lock=True)
    blobs, stored = Blobs(unit.session, build.workspace_id), dict((found.result, found.report))
    for digest in sorted(stored):
        blobs.remember(digest, stored[digest], now)
    blobs.use(build.id, stored)
    order, origin = RecipeIn(name=row.name, text=found.text), Origin(row.model_id, row.id)
    row.recipe_id = create_recipe(unit, build.workspace_id, order, found.content, now, origin).row.id
    row.result_digest, row.report_digest, row.found = found.result[0], found.report[0], found.summary
    unit.session.flush()


def cancel_search(unit: Unit, workspace_id: str, search_id: str, now: datetime) -> SearchRecord:
    """Cancel a search that is not over; its runner stops the child. Cancelling twice changes nothing."""
    build, row = _locked(unit, workspace_id, search_id)
    if build.state != BuildState.CANCELLED:
        before = build.state
        BUILD_LIFECYCLE.move(unit, build, BuildState.CANCELLED, now, finished_at=now)
        record(unit, Action.SEARCH_CANCEL, row, row.name, now, changed({"state": before}, {"state": build.state}))
    return row


def delete_search(unit: Unit, workspace_id: str, search_id: str, now: datetime) -> None:
    """Forget a search that is over, its log and what it found, but for the recipe; a 409 `Problem` otherwise."""
    build, row = _locked(unit, workspace_id, search_id)
    if build.state not in BUILD_LIFECYCLE.final:
        raise Problem(Failure.STATE_CONFLICT, f"This search is {build.state}; cancel it first.")
    record(unit, Action.SEARCH_DELETE, row, row.name, now, gone(state=build.state, recipe_id=row.recipe_id))
    Blobs(unit.session, workspace_id).release(row.id, now)
    Events(unit.session, workspace_id).forget(row.id)
    unit.session.delete(row)
    unit.session.flush()
    unit.session.delete(build)


def _locked(unit: Unit, workspace_id: str, search_id: str) -> tuple[BuildRecord, SearchRecord]:
    """The build, before the search: as those lock them who do it."""
    searches = Searches(unit.session, workspace_id)
    searches.require(search_id)
    build = AllBuilds(unit.session, workspace_id).require(search_id, lock=True)
    return build, searches.require(search_id, lock=True)


def show(searches: Searches, rows: Sequence[SearchRecord]) -> list[SearchOut]:
    """Searches as the API shows them."""
    session, home = searches.session, searches.workspace_id
    builds = searches.builds(rows)
    positions = queue_positions(session, builds.values())
    known = {
        **Models(session, home).versions(row.model_id for row in rows),
        **Datasets(session, home).versions(one for row in rows for one in (row.dataset_id, row.eval_dataset_id)),
        **Recipes(session, home).versions(row.recipe_id for row in rows),
    }
    return [_describe(row, builds[row.id], known, positions.get(row.id)) for row in rows]


def _describe(row: SearchRecord, build: BuildRecord, known: dict[str, VersionOut], position: int | None) -> SearchOut:
    same = {**_NOT_ASKED, **row.options}
    memory_bytes = same.pop("memory")
    return SearchOut(
        id=row.id,
        model=known[row.model_id],
        dataset=known[row.dataset_id],
        eval_dataset=known.get(row.eval_dataset_id or ""),
        target=build.target,
        threads=build.threads,
        recipe=build.recipe,
        memory_bytes=memory_bytes,
        **same,
        name=row.name,
        priority=build.priority,
        compiler_version=build.compiler_version,
        state=BuildState(build.state),
        progress=ProgressOut(**build.progress) if build.progress else None,
        queue_position=position,
        found=FoundOut(**row.found) if row.found else None,
        recipe_version=known.get(row.recipe_id or ""),
        result_digest=row.result_digest,
        report_digest=row.report_digest,
        failure=FailureOut(**build.failure) if build.failure else None,
        request_id=build.request_id,
        created_at=row.created_at,
        started_at=build.started_at,
        finished_at=build.finished_at,
    )
