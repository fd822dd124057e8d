"""Old idempotency keys are found by an index: every guarded request deletes them."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])


def downgrade() -> None:
    """Undo."""
    op.drop_index("ix_idempotency_keys_created_at", "idempotency_keys")
