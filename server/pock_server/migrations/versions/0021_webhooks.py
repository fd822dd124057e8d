"""Webhooks, and what is sent to them."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def _row(table: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=f"fk_{table}_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    )


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "webhooks",
        sa.Column("url", sa.String(length=2000), nullable=False),
        sa.Column("events", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("description", sa.String(length=200), nullable=True),
        sa.Column("wrapped_secret", sa.String(length=400), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("failing_since", UtcDateTime(timezone=True), nullable=True),
        sa.Column("disabled_reason", sa.String(length=500), nullable=True),
        *_row("webhooks"),
    )
    op.create_index("ix_webhooks_page", "webhooks", ["workspace_id", "created_at", "id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook_id", sa.String(length=36), nullable=False),
        sa.Column("event", sa.String(length=40), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("next_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("problem", sa.String(length=500), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        *_row("webhook_deliveries"),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], name="fk_webhook_deliveries_webhook_id_webhooks"),
    )
    op.create_index("ix_webhook_deliveries_page", "webhook_deliveries", ["workspace_id", "created_at", "id"])
    op.create_index("ix_webhook_deliveries_webhook", "webhook_deliveries", ["webhook_id", "created_at", "id"])
    op.create_index("ix_webhook_deliveries_due", "webhook_deliveries", ["state", "next_at"])


def downgrade() -> None:
    """Undo. What is not sent yet is lost."""
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
