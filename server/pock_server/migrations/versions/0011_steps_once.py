"""Steps are stored once: an event of steps says which, and no longer repeats them.

Nothing has to change on the way up: events that carry their steps are understood. On the way down they get them back.
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_JSON = sa.JSON()
_EVENTS = sa.table("events", *map(sa.column, ("subject_id", "seq", "kind")), sa.column("data", _JSON))
_STEPS = sa.table("run_steps", *map(sa.column, ("run_id", "fence", "step", "loss", "ms")))


def upgrade() -> None:
    """Apply."""


def downgrade() -> None:
    """Undo."""
    connection = op.get_bind()
    for event in connection.execute(sa.select(_EVENTS).where(_EVENTS.c.kind == "steps")).all():
        if "items" in event.data:
            continue
        mine = (_STEPS.c.run_id == event.subject_id, _STEPS.c.fence == event.data["fence"])
        steps = sa.select(_STEPS).where(*mine, _STEPS.c.step.between(event.data["first"], event.data["last"]))
        rows = connection.execute(steps.order_by(_STEPS.c.step))
        items = [{"step": row.step, "loss": row.loss, "ms": row.ms} for row in rows]
        here = (_EVENTS.c.subject_id == event.subject_id, _EVENTS.c.seq == event.seq)
        connection.execute(sa.update(_EVENTS).where(*here).values(data={"items": items}))
