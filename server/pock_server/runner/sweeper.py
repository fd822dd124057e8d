"""Finds what was lost: runs and builds whose holder went silent, deadlines that passed, uploads nobody finished."""

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pock_server.audit.repository import drop_before
from pock_server.blobs.repository import Uploads, stale_uploads
from pock_server.builds.repository import Builds, running_builds
from pock_server.builds.schemas import BuildState
from pock_server.datasets.repository import Datasets
from pock_server.http.problems import DATABASE_DOWN, Problem
from pock_server.idempotency.service import forget_old
from pock_server.models.repository import Models
from pock_server.names.repository import VersionedRepository
from pock_server.names.service import number
from pock_server.runner.claims import take_from_lost_runner
from pock_server.runs.leases import lock_run, sweep
from pock_server.runs.repository import Runs, overdue_runs
from pock_server.services import Services
from pock_server.sessions.repository import drop_dead
from pock_server.trust.start import renew

_UPLOAD_LIFE = timedelta(hours=24)
_AUDIT_BATCH = 1000
_NUMBER_BATCH = 100
_Task = Callable[[Services, str, str], None]
"""Deals with one row, given its workspace and id, in transactions of its own."""
_log = logging.getLogger(__name__)


def sweep_all(services: Services) -> None:
    """Deal with everything lost; each in a transaction of its own, so that one cannot hold up the others."""
    now = services.clock.now()
    with services.database.read() as session:
        runs = [(row.workspace_id, row.id) for row in overdue_runs(session, now)]
        builds = [(row.workspace_id, row.id) for row in running_builds(session, now)]
        uploads = [(row.workspace_id, row.id) for row in stale_uploads(session, now - _UPLOAD_LIFE)]
    _forget(services)
    for workspace_id, run_id in runs:
        _alone(services, _sweep_run, workspace_id, run_id)
    for workspace_id, build_id in builds:
        _alone(services, _sweep_build, workspace_id, build_id)
    for workspace_id, upload_id in uploads:
        _alone(services, _drop_upload, workspace_id, upload_id)
    for versioned in (Models, Datasets, Builds):
        _number(services, versioned)
    with services.database.write() as unit:
        forget_old(unit, now)
    renew(services)


def _forget(services: Services) -> None:
    """Drop browser sessions that ended by themselves, and a batch of audit entries that are older than they must be."""
    settings, now = services.settings, services.clock.now()
    with services.database.write() as unit:
        drop_dead(unit.session, now, timedelta(seconds=settings.browser_idle_seconds))
        drop_before(unit.session, now - timedelta(days=settings.audit_days), _AUDIT_BATCH)


def _number(services: Services, versioned: type[VersionedRepository[Any]]) -> None:
    """Give rows a version that a process of before versions made: it runs beside us while a service is upgraded."""
    with services.database.read() as session:
        rows = versioned(session, "").unnumbered(_NUMBER_BATCH)
    for row in rows:
        with services.database.write() as unit:
            number(versioned(unit.session, row.workspace_id), row.id)


def _alone(services: Services, task: _Task, workspace_id: str, row_id: str) -> None:
    try:
        task(services, workspace_id, row_id)
    except Problem as problem:  # somebody moved the row first: then it is not lost
        _log.info("sweeper: %s", problem.detail)
    except DATABASE_DOWN:
        raise
    except Exception:
        _log.exception("the sweeper could not deal with %s; it goes on with others", row_id)


def _sweep_run(services: Services, workspace_id: str, run_id: str) -> None:
    now = services.clock.now()
    with services.database.write() as unit:
        lock_run(unit, workspace_id, run_id)
        for run in Runs(unit.session, workspace_id).overdue(run_id, now):
            sweep(unit, run, services.settings, now)


def _sweep_build(services: Services, workspace_id: str, build_id: str) -> None:
    with services.database.write() as unit:
        row = Builds(unit.session, workspace_id).require(build_id, lock=True)
        lost = row.lease_expires_at is not None and row.lease_expires_at < services.clock.now()
        if lost and row.state == BuildState.RUNNING:
            take_from_lost_runner(unit, row, services)


def _drop_upload(services: Services, workspace_id: str, upload_id: str) -> None:
    with services.database.write() as unit:
        keys = Uploads(unit.session, workspace_id).drop_stale(upload_id, services.clock.now())
    if keys is not None:
        _log.info("upload %s is dropped: nobody finished it", upload_id)
    services.blobs.delete_objects(keys or ())
