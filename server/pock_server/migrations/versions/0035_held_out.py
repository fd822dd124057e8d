"""Runs know which share of their data the device holds out."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("held_out", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("runs", "held_out")
