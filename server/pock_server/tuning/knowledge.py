"""What a build is told: the workspace's entries of its target, as the compiler reads them from a file."""

import json

from sqlalchemy.orm import Session

from pock_server.tuning.repository import Entries, Tunings
from pock_server.tuning.tables import EntryRecord

_HEAD = {"format": "pock-tuning", "version": 1}


def known_lines(session: Session, workspace_id: str, target: str) -> tuple[str, ...]:
    """The lines of the file."""
    rows = Entries(session, workspace_id).known(target)
    return (json.dumps(_HEAD), *sorted(_line(row) for row in rows))


def _line(row: EntryRecord) -> str:
    result = {
        "choice": row.choice["is"] if row.choice is not None else None,
        "ms": row.ms,
        "model_ms": row.model_ms,
        "mode": "fast",
        "tried": len(row.candidates),
        "rejected": int((row.provenance or {}).get("rejected") or 0) if row.candidates else 0,
        "by": row.source,
    }
    created = row.decided_at.timestamp() if row.decided_at else 0.0
    return json.dumps({"inputs": row.inputs, "result": result, "created": created}, sort_keys=True)


def tried_keys(session: Session, workspace_id: str, target: str, tuning_id: str) -> tuple[str, ...]:
    """Workloads that a tuning need not try: it did, or another one is at it."""
    found: set[str] = set()
    for row in Tunings(session, workspace_id).open_of(target):
        found.update(one["key"] for one in row.pack)
        if row.id == tuning_id:
            found.update(row.tried)
    return tuple(sorted(found))
