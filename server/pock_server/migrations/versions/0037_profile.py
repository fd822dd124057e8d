"""Runs know whether each kernel is timed."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("profile", sa.Boolean(), server_default=sa.false(), nullable=False))


def downgrade() -> None:
    """Undo."""
    op.drop_column("runs", "profile")
