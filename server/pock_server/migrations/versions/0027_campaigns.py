"""Campaigns: builds on devices with seeds, and their cells."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "campaigns",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("traceparent", sa.String(length=55), nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("wanted", sa.JSON(), nullable=False),
        sa.Column("build_ids", sa.JSON(), nullable=False),
        sa.Column("missing_targets", sa.JSON(), nullable=False),
        sa.Column("schedule_id", sa.String(length=36), nullable=True),
        sa.Column("ends_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("canary_ended_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("ending", sa.String(length=20), nullable=True),
        sa.Column("failure", sa.JSON(), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_campaigns_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_campaigns"),
    )
    op.create_index("ix_campaigns_page", "campaigns", ["workspace_id", "created_at", "id"])
    op.create_index("ix_campaigns_state", "campaigns", ["state"])
    op.create_index("ix_campaigns_schedule_id", "campaigns", ["schedule_id"])
    op.create_table(
        "campaign_cells",
        sa.Column("campaign_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("build_id", sa.String(length=36), nullable=False),
        sa.Column("device_id", sa.String(length=36), nullable=False),
        sa.Column("device_name", sa.String(length=200), nullable=False),
        sa.Column("target", sa.String(length=100), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("canary", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("run_id", sa.String(length=36), nullable=True),
        sa.Column("failure", sa.JSON(), nullable=True),
        sa.Column("measured", sa.JSON(), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["campaign_id"], ["campaigns.id"], name="fk_campaign_cells_campaign_id_campaigns"),
        sa.PrimaryKeyConstraint("campaign_id", "number", name="pk_campaign_cells"),
    )
    op.create_index("ix_campaign_cells_state", "campaign_cells", ["campaign_id", "state", "device_id"])


def downgrade() -> None:
    """Undo. Runs that campaigns asked for stay; what happened to campaigns goes."""
    op.execute("DELETE FROM events WHERE subject_id IN (SELECT id FROM campaigns)")
    op.drop_table("campaign_cells")
    op.drop_table("campaigns")
