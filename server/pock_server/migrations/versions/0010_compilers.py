"""The compiler's description is in the database, where several hosts find the same one; it was a file.

The file is not read: the runner describes the compiler whenever it starts.
"""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "compilers",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.String(length=200), nullable=False),
        sa.Column("targets", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("described_at", UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_compilers"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("compilers")
