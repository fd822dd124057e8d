"""Builds and runs: the request that asked for them, as logs and traces name it."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_TABLES = ("builds", "runs")


def upgrade() -> None:
    """Apply."""
    for table in _TABLES:
        op.add_column(table, sa.Column("request_id", sa.String(length=128), nullable=True))
        op.add_column(table, sa.Column("traceparent", sa.String(length=55), nullable=True))


def downgrade() -> None:
    """Undo."""
    for table in _TABLES:
        op.drop_column(table, "traceparent")
        op.drop_column(table, "request_id")
