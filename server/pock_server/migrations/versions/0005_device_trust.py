"""Devices: the signing key that each trusts, and when its last session was asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("devices", sa.Column("signing_key_id", sa.String(length=16), nullable=True))
    op.add_column("devices", sa.Column("session_issued_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("devices", "session_issued_at")
    op.drop_column("devices", "signing_key_id")
