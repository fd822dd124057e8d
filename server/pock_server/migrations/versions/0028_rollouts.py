"""Rollouts of releases of the agent, and how their devices stand."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0028"
down_revision = "0027"
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
    numbers = ("canary", "stage", "healthy_seconds", "check_in_seconds", "max_failed", "attempt")
    op.create_table(
        "rollouts",
        sa.Column("release_id", sa.String(length=36), nullable=False),
        sa.Column("version", sa.String(length=20), nullable=False),
        sa.Column("selector", sa.String(length=2000), nullable=False),
        sa.Column("stages", sa.JSON(none_as_null=True), nullable=False),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in numbers),
        sa.Column("reason", sa.String(length=500), nullable=False),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("started_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("traceparent", sa.String(length=55), nullable=True),
        sa.ForeignKeyConstraint(["release_id"], ["agent_releases.id"], name="fk_rollouts_release_id_agent_releases"),
        *_row("rollouts"),
    )
    op.create_index("ix_rollouts_page", "rollouts", ["workspace_id", "created_at", "id"])
    op.create_index("ix_rollouts_state", "rollouts", ["state"])
    op.create_table(
        "rollout_devices",
        sa.Column("rollout_id", sa.String(length=36), nullable=False),
        sa.Column("device_id", sa.String(length=36), nullable=False),
        sa.Column("device_name", sa.String(length=200), nullable=False),
        sa.Column("stage", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("detail", sa.String(length=500), nullable=False),
        sa.Column("version_before", sa.String(length=100), nullable=True),
        sa.Column("offering", sa.Boolean(), nullable=False),
        sa.Column("reverting", sa.Boolean(), nullable=False),
        sa.Column("checked_in_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("changed_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["rollout_id"], ["rollouts.id"], name="fk_rollout_devices_rollout_id_rollouts"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_rollout_devices_device_id_devices"),
        *_row("rollout_devices"),
    )
    op.create_index("ix_rollout_devices_page", "rollout_devices", ["workspace_id", "created_at", "id"])
    op.create_index("uq_rollout_devices_device", "rollout_devices", ["rollout_id", "device_id"], unique=True)
    op.create_index("ix_rollout_devices_offering", "rollout_devices", ["device_id", "offering"])


def downgrade() -> None:
    """Undo."""
    op.execute("DELETE FROM events WHERE subject_id IN (SELECT id FROM rollouts)")
    op.drop_table("rollout_devices")
    op.drop_table("rollouts")
