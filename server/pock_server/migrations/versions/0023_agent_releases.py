"""Releases of the agent, signed by root keys."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "agent_releases",
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("rank", sa.BigInteger(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("payload_digest", sa.String(length=64), nullable=False),
        sa.Column("signatures", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("files", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("issued_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("expires_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("downgrade", sa.Boolean(), nullable=False),
        sa.Column("revert", sa.Boolean(), nullable=False),
        sa.Column("notes", sa.String(length=2000), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_agent_releases_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_agent_releases"),
    )
    op.create_index("ix_agent_releases_page", "agent_releases", ["workspace_id", "created_at", "id"])
    op.create_index("uq_agent_releases_payload", "agent_releases", ["workspace_id", "payload_digest"], unique=True)


def downgrade() -> None:
    """Undo. Their files lose their owners, and are collected."""
    op.execute("DELETE FROM blob_uses WHERE owner_id IN (SELECT id FROM agent_releases)")
    op.drop_table("agent_releases")
