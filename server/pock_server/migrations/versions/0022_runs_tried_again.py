"""Runs may wait for a build or another run, and be tried again by a policy."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_TEXT = sa.String(length=36)
_ADDED: dict[str, sa.types.TypeEngine[Any]] = {
    "after_build_id": _TEXT,
    "after_run_id": _TEXT,
    "retries": sa.JSON(),
    "retry_delay_seconds": sa.Float(),
    "retry_of": _TEXT,
    "retried_by": _TEXT,
    "queue_seconds": sa.Float(),
}


def upgrade() -> None:
    """Apply."""
    for name, kind in _ADDED.items():
        op.add_column("runs", sa.Column(name, kind, nullable=True))
    op.add_column("runs", sa.Column("retry", sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Undo. What waits is cancelled: nobody would queue it any more."""
    op.execute("UPDATE runs SET state = 'cancelled', finished_at = created_at WHERE state = 'waiting'")
    for name in ("retry", *_ADDED):
        op.drop_column("runs", name)
