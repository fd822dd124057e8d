"""The audit log of a server as its tests read it."""

import json
from typing import Any

from sqlalchemy import func, select

from pock_server.audit.repository import Filter, export
from pock_server.audit.service import describe
from pock_server.audit.tables import AuditRecord
from tests.server.harness import Server


def entries(server: Server) -> list[dict[str, Any]]:
    """All entries, oldest first."""
    found = export(server.services.database, Filter())
    return [json.loads(describe(row).model_dump_json()) for rows in found for row in rows]


def new_since(before: list[dict[str, Any]], server: Server) -> list[dict[str, Any]]:
    """The entries that are not among those of before."""
    return [entry for entry in entries(server) if entry not in before]


def count(server: Server) -> int:
    with server.services.database.read() as session:
        return session.scalar(select(func.count()).select_from(AuditRecord)) or 0
