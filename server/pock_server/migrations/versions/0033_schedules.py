"""Schedules, and the times that they were due."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "schedules",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("cron", sa.String(length=100), nullable=False),
        sa.Column("timezone", sa.String(length=64), nullable=False),
        sa.Column("what", sa.JSON(), nullable=False),
        sa.Column("skip_if_running", sa.Boolean(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_at", UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_schedules_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
    )
    op.create_index("ix_schedules_page", "schedules", ["workspace_id", "created_at", "id"])
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
    op.create_table(
        "schedule_times",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("schedule_id", sa.String(length=36), nullable=False),
        sa.Column("due_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("missed", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=20), nullable=False),
        sa.Column("detail", sa.String(length=1000), nullable=True),
        sa.Column("campaign_id", sa.String(length=36), nullable=True),
        sa.Column("benchmark_id", sa.String(length=36), nullable=True),
        sa.ForeignKeyConstraint(["schedule_id"], ["schedules.id"], name="fk_schedule_times_schedule_id_schedules"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_schedule_times_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_schedule_times"),
    )
    op.create_index("ix_schedule_times_page", "schedule_times", ["schedule_id", "created_at", "id"])


def downgrade() -> None:
    """Undo. What schedules asked for stays."""
    op.drop_table("schedule_times")
    op.drop_table("schedules")
