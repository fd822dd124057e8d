"""Devices: columns of the health that their facts tell, by which devices are chosen and sorted."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_BATCH = 500
_DEVICES = sa.table(
    "devices",
    *map(sa.column, ("id", "temperature_c", "throttled")),
    sa.column("facts", sa.JSON(none_as_null=True)),
)


def upgrade() -> None:
    """Apply."""
    op.add_column("devices", sa.Column("temperature_c", sa.Float(), nullable=True))
    op.add_column("devices", sa.Column("throttled", sa.Boolean(), nullable=True))
    _fill(op.get_bind())


def downgrade() -> None:
    """Undo."""
    op.drop_column("devices", "throttled")
    op.drop_column("devices", "temperature_c")


def _fill(connection: sa.Connection) -> None:
    """A few devices at a time, in the order of their ids."""
    query = sa.select(_DEVICES.c.id, _DEVICES.c.facts).order_by(_DEVICES.c.id).limit(_BATCH)
    change = sa.update(_DEVICES).where(_DEVICES.c.id == sa.bindparam("device"))
    change = change.values(
        temperature_c=sa.bindparam("celsius", type_=sa.Float()), throttled=sa.bindparam("slowed", type_=sa.Boolean())
    )
    last = ""
    while rows := connection.execute(query.where(_DEVICES.c.id > last)).all():
        connection.execute(change, [{"device": id, **_known(facts)} for id, facts in rows])
        last = rows[-1].id


def _known(facts: Any) -> dict[str, Any]:
    health = facts.get("health") if isinstance(facts, dict) else None
    health = health if isinstance(health, dict) else {}
    celsius, slowed = health.get("temperature_c"), health.get("throttled")
    number = isinstance(celsius, int | float) and not isinstance(celsius, bool) and -273.15 <= celsius <= 1000
    return {"celsius": celsius if number else None, "slowed": slowed if isinstance(slowed, bool) else None}
