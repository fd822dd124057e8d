"""Builds, artifacts and events."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "builds",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("model_id", sa.String(length=36), nullable=False),
        sa.Column("model_name", sa.String(length=200), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("target", sa.String(length=100), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("recipe", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("compiler_version", sa.String(length=200), nullable=False),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_expires_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("progress", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("summary", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("artifact_digest", sa.String(length=64), nullable=True),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("started_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_builds_model_id_models"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_builds_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_builds"),
    )
    op.create_index("ix_builds_page", "builds", ["workspace_id", "created_at", "id"], unique=False)
    op.create_index("ix_builds_state", "builds", ["state"], unique=False)
    op.create_index(
        "uq_builds_live_key",
        "builds",
        ["workspace_id", "key"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'running', 'succeeded')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'succeeded')"),
    )
    op.create_table(
        "artifacts",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("build_id", sa.String(length=36), nullable=False),
        sa.Column("members", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("executable", sa.String(length=200), nullable=False),
        sa.Column("inputs", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["build_id"], ["builds.id"], name="fk_artifacts_build_id_builds"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_artifacts_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("workspace_id", "digest", name="pk_artifacts"),
    )
    op.create_table(
        "events",
        sa.Column("subject_id", sa.String(length=36), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("data", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_events_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("subject_id", "seq", name="pk_events"),
    )


def downgrade() -> None:
    """Undo."""
    op.drop_table("events")
    op.drop_table("artifacts")
    op.drop_table("builds")
