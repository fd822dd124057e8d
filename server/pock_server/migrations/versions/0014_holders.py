"""Requests that are served, and uploads that are checked, name the process at it, so that its death frees them."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("idempotency_keys", sa.Column("holder", sa.String(length=16), nullable=True))
    op.add_column("uploads", sa.Column("finishing_by", sa.String(length=16), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("uploads", "finishing_by")
    op.drop_column("idempotency_keys", "holder")
