"""Uploads: how many parts there are, and who joins them."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("uploads", sa.Column("parts", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("uploads", sa.Column("finisher", sa.String(length=36), nullable=True))
    op.add_column("uploads", sa.Column("finishing_until", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("uploads", "finishing_until")
    op.drop_column("uploads", "finisher")
    op.drop_column("uploads", "parts")
