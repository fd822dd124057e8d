"""Finds what was lost: runs and builds whose holder went silent, deadlines that passed, uploads nobody finished."""

import logging
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from pock_server.audit.repository import drop_before
from pock_server.blobs.repository import Uploads, stale_uploads
from pock_server.builds.repository import AllBuilds, Builds, running_builds
from pock_server.builds.schemas import BuildState
from pock_server.datasets.repository import Datasets
from pock_server.db.base import WorkspaceRow
from pock_server.idempotency.service import forget_old
from pock_server.models.repository import Models
from pock_server.names.repository import VersionedRepository
from pock_server.names.service import number
from pock_server.runner.claims import take_from_lost_runner
from pock_server.runner.duties import Duty, Row, fulfil
from pock_server.runs.leases import lock_run, sweep
from pock_server.runs.repository import Runs, overdue_runs
from pock_server.services import Services
from pock_server.sessions.repository import drop_dead
from pock_server.trust.start import renew

_UPLOAD_LIFE = timedelta(hours=24)
_AUDIT_BATCH = 1000
_NUMBER_BATCH = 100
_log = logging.getLogger(__name__)


def sweep_all(services: Services) -> None:
    """Deal with everything lost; each in a transaction of its own, so that one cannot hold up the others."""
    _forget(services)
    fulfil(services, _LOST)
    for versioned in (Models, Datasets, Builds):
        _number(services, versioned)
    with services.database.write() as unit:
        forget_old(unit, services.clock.now())
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


def _sweep_run(services: Services, workspace_id: str, run_id: str) -> None:
    now = services.clock.now()
    with services.database.write() as unit:
        lock_run(unit, workspace_id, run_id)
        for run in Runs(unit.session, workspace_id).overdue(run_id, now):
            sweep(unit, run, services.settings, now)


def _sweep_build(services: Services, workspace_id: str, build_id: str) -> None:
    with services.database.write() as unit:
        row = AllBuilds(unit.session, workspace_id).require(build_id, lock=True)
        lost = row.lease_expires_at is not None and row.lease_expires_at < services.clock.now()
        if lost and row.state == BuildState.RUNNING:
            take_from_lost_runner(unit, row, services)


def _drop_upload(services: Services, workspace_id: str, upload_id: str) -> None:
    with services.database.write() as unit:
        keys = Uploads(unit.session, workspace_id).drop_stale(upload_id, services.clock.now())
    if keys is not None:
        _log.info("upload %s is dropped: nobody finished it", upload_id)
    services.blobs.delete_objects(keys or ())


def _rows(found: Iterable[WorkspaceRow]) -> list[Row]:
    return [(row.workspace_id, row.id) for row in found]


_LOST = (
    Duty("run", lambda session, now: _rows(overdue_runs(session, now)), _sweep_run),
    Duty("build", lambda session, now: _rows(running_builds(session, now)), _sweep_build),
    Duty("upload", lambda session, now: _rows(stale_uploads(session, now - _UPLOAD_LIFE)), _drop_upload),
)
