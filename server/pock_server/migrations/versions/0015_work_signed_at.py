"""Devices: the latest time that work was signed with, which the next piece is not signed before."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("devices", sa.Column("work_signed_at", UtcDateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("devices", "work_signed_at")
