"""Devices: labels, and columns of what their facts say, by which devices are chosen; tokens give labels along."""

import re
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_BATCH = 500
_VERSION = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?(?:\.([0-9]{1,6}))?(?![0-9])")
_COLUMNS = ("agent_rank", "arch", "memory_bytes", "cores")
_DEVICES = sa.table(
    "devices", *map(sa.column, ("id", "agent_version", *_COLUMNS)), sa.column("facts", sa.JSON(none_as_null=True))
)


def upgrade() -> None:
    """Apply."""
    op.add_column("enrolment_tokens", sa.Column("labels", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("devices", sa.Column("agent_rank", sa.BigInteger(), nullable=True))
    op.add_column("devices", sa.Column("arch", sa.String(length=40), nullable=True))
    op.add_column("devices", sa.Column("memory_bytes", sa.BigInteger(), nullable=True))
    op.add_column("devices", sa.Column("cores", sa.Integer(), nullable=True))
    op.create_table(
        "device_labels",
        sa.Column("device_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=63), nullable=False),
        sa.Column("value", sa.String(length=200), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_device_labels_device_id_devices"),
        sa.PrimaryKeyConstraint("device_id", "key", name="pk_device_labels"),
    )
    _fill(op.get_bind())


def downgrade() -> None:
    """Undo."""
    op.drop_table("device_labels")
    for column in reversed(_COLUMNS):
        op.drop_column("devices", column)
    op.drop_column("enrolment_tokens", "labels")


def _fill(connection: sa.Connection) -> None:
    """A few devices at a time, in the order of their ids."""
    query = sa.select(_DEVICES.c.id, _DEVICES.c.facts, _DEVICES.c.agent_version).order_by(_DEVICES.c.id).limit(_BATCH)
    change = sa.update(_DEVICES).where(_DEVICES.c.id == sa.bindparam("device"))
    change = change.values({column: sa.bindparam(column) for column in _COLUMNS})
    last = ""
    while rows := connection.execute(query.where(_DEVICES.c.id > last)).all():
        connection.execute(change, [{"device": id, **_known(facts, version)} for id, facts, version in rows])
        last = rows[-1].id


def _known(facts: Any, version: str | None) -> dict[str, Any]:
    facts = facts if isinstance(facts, dict) else {}
    machine = facts.get("machine")
    return {
        "agent_rank": _rank(version or ""),
        "arch": machine[:40] if isinstance(machine, str) else None,
        "memory_bytes": _count(facts.get("memory_bytes"), 2**63 - 1),
        "cores": _count(facts.get("cpus"), 2**31 - 1),
    }


def _rank(version: str) -> int | None:
    found = _VERSION.match(version)
    if found is None:
        return None
    major, minor, patch = (int(part or 0) for part in found.groups())
    return (major * 10**6 + minor) * 10**6 + patch


def _count(value: Any, largest: int) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest
    return value if known else None
