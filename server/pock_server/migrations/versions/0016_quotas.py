"""Workspaces: quotas of their own, where these differ from the settings."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("workspaces", sa.Column("quotas", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("workspaces", "quotas")
