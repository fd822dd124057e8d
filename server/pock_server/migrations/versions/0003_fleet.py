"""Enrolment tokens, devices and runs."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "enrolment_tokens",
        sa.Column("name", sa.String(length=200), nullable=True),
        sa.Column("pool", sa.String(length=200), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("used_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name="fk_enrolment_tokens_workspace_id_workspaces"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_enrolment_tokens"),
    )
    op.create_table(
        "devices",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("pool", sa.String(length=200), nullable=False),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("public_key", sa.String(length=44), nullable=False),
        sa.Column("target", sa.String(length=100), nullable=True),
        sa.Column("facts", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("agent_version", sa.String(length=100), nullable=True),
        sa.Column("last_seen_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("current_run_id", sa.String(length=36), nullable=True),
        sa.Column("session_counter", sa.Integer(), nullable=False),
        sa.Column("session_id", sa.String(length=36), nullable=True),
        sa.Column("session_hash", sa.String(length=64), nullable=True),
        sa.Column("session_expires_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("work_counter", sa.Integer(), nullable=False),
        sa.Column("token_id", sa.String(length=36), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["token_id"], ["enrolment_tokens.id"], name="fk_devices_token_id_enrolment_tokens"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_devices_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_devices"),
    )
    op.create_index("ix_devices_page", "devices", ["workspace_id", "created_at", "id"], unique=False)
    op.create_index("uq_devices_session_id", "devices", ["session_id"], unique=True)
    op.create_table(
        "runs",
        sa.Column("build_id", sa.String(length=36), nullable=False),
        sa.Column("device_id", sa.String(length=36), nullable=False),
        sa.Column("device_name", sa.String(length=200), nullable=False),
        sa.Column("target", sa.String(length=100), nullable=False),
        sa.Column("dataset_id", sa.String(length=36), nullable=False),
        sa.Column("eval_dataset_id", sa.String(length=36), nullable=True),
        sa.Column("entry", sa.String(length=20), nullable=False),
        sa.Column("steps", sa.Integer(), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("save_weights", sa.Boolean(), nullable=False),
        sa.Column("deadline_seconds", sa.Float(), nullable=False),
        sa.Column("queue_ends_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("run_ends_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("next_seq", sa.Integer(), nullable=False),
        sa.Column("progress", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("report", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("weights_digest", sa.String(length=64), nullable=True),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["build_id"], ["builds.id"], name="fk_runs_build_id_builds"),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_runs_dataset_id_datasets"),
        sa.ForeignKeyConstraint(["device_id"], ["devices.id"], name="fk_runs_device_id_devices"),
        sa.ForeignKeyConstraint(["eval_dataset_id"], ["datasets.id"], name="fk_runs_eval_dataset_id_datasets"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_runs_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_device_state", "runs", ["device_id", "state"], unique=False)
    op.create_index("ix_runs_page", "runs", ["workspace_id", "created_at", "id"], unique=False)
    op.create_index("ix_runs_state", "runs", ["state"], unique=False)
    op.create_table(
        "run_steps",
        sa.Column("run_id", sa.String(length=36), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.Column("ms", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_steps_run_id_runs"),
        sa.PrimaryKeyConstraint("run_id", "fence", "step", name="pk_run_steps"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("run_steps")
    op.drop_table("runs")
    op.drop_table("devices")
    op.drop_table("enrolment_tokens")
