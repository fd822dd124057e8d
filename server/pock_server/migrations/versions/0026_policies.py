"""Policies of devices and pools, pauses of runs, and devices that rest."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "policies",
        sa.Column("device_id", sa.String(length=36), nullable=True),
        sa.Column("pool", sa.String(length=200), nullable=True),
        sa.Column("rules", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("changed_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_policies_device_id_devices"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_policies_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_policies"),
    )
    op.create_index("uq_policies_device_id", "policies", ["device_id"], unique=True)
    op.create_index("uq_policies_pool", "policies", ["workspace_id", "pool"], unique=True)
    op.add_column("devices", sa.Column("resting", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("devices", sa.Column("policy_counter", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("devices", sa.Column("policy_digest", sa.String(length=64), nullable=True))
    op.add_column("runs", sa.Column("paused", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("runs", sa.Column("seconds_left", sa.Float(), nullable=True))
    op.add_column("runs", sa.Column("paused_seconds", sa.Float(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Undo. A run that is paused has the time until the end of its lease."""
    for name in ("paused_seconds", "seconds_left", "paused"):
        op.drop_column("runs", name)
    for name in ("policy_digest", "policy_counter", "resting"):
        op.drop_column("devices", name)
    op.drop_table("policies")
