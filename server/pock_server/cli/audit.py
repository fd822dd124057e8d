"""`pock-server audit`: the audit log as text, or as JSON lines to keep elsewhere."""

from datetime import UTC, datetime
from typing import Annotated

import typer

from pock_server.audit.repository import Filter, export
from pock_server.audit.schemas import AuditEntry
from pock_server.audit.service import describe
from pock_server.auth.repository import find_workspace
from pock_server.cli.common import DataDir, migrated, refuse


def audit(
    since: Annotated[
        str | None, typer.Option(help="Moment as RFC 3339 writes it, e.g. 2026-11-01 or 2026-11-01T12:00Z; UTC.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Moment before which entries are wanted.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Name of the workspace; default: the whole service.")] = None,
    data_dir: DataDir = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Print who changed what, oldest first."""
    services = migrated(data_dir)
    workspace_id = None
    if workspace is not None:
        with services.database.read() as session:
            home = find_workspace(session, workspace)
        if home is None:
            raise refuse(f"there is no workspace {workspace}")
        workspace_id = home.id
    wanted = Filter(workspace_id=workspace_id, since=_moment("--since", since), until=_moment("--until", until))
    for rows in export(services.database, wanted):
        for row in rows:
            entry = describe(row)
            print(entry.model_dump_json() if as_json else _line(entry))


def _moment(option: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise refuse(f"{option} is {text}, which is no moment; write it like 2026-11-01T12:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _line(entry: AuditEntry) -> str:
    """What one line says; names are quoted, because people choose them."""
    changes = " ".join(f"{field}={change.before!r}->{change.after!r}" for field, change in entry.changes.items())
    who = f"{entry.actor.kind} {entry.actor.name!r}"
    what = f"{entry.action} {entry.object.id} {entry.object.name!r}"
    where = f"from {entry.address}" if entry.address else ""
    return "  ".join(filter(None, [f"{entry.at:%Y-%m-%dT%H:%M:%SZ}", who, what, changes, where]))
