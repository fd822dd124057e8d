"""Builds have a priority, and workspaces a turn: when a build of theirs was begun last."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("builds", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("workspaces", sa.Column("last_build_at", UtcDateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("workspaces", "last_build_at")
    op.drop_column("builds", "priority")
