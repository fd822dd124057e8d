"""Federations and their rounds."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "federations",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("build_id", sa.String(length=36), nullable=False),
        sa.Column("asked", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("noise_key", sa.String(length=64), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("ends_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("weights_digest", sa.String(length=64), nullable=True),
        sa.Column("weights_bytes", sa.BigInteger(), nullable=True),
        sa.Column("full_weights_bytes", sa.BigInteger(), nullable=True),
        sa.Column("moments_digest", sa.String(length=64), nullable=True),
        sa.Column("up_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_bytes", sa.BigInteger(), nullable=False),
        sa.Column("full_bytes", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.Integer(), nullable=False),
        sa.Column("epsilon", sa.Float(), nullable=True),
        sa.Column("failure", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("state", sa.String(length=20), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("traceparent", sa.String(length=55), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["build_id"], ["builds.id"], name="fk_federations_build_id_builds"),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_federations_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_federations"),
    )
    op.create_index("ix_federations_page", "federations", ["workspace_id", "created_at", "id"])
    op.create_index("ix_federations_state", "federations", ["state"])
    op.create_table(
        "federation_rounds",
        sa.Column("federation_id", sa.String(length=36), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("members", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("loss", sa.Float(), nullable=True),
        sa.Column("step_norm", sa.Float(), nullable=True),
        sa.Column("weights_digest", sa.String(length=64), nullable=True),
        sa.Column("up_bytes", sa.BigInteger(), nullable=False),
        sa.Column("down_bytes", sa.BigInteger(), nullable=False),
        sa.Column("began_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("finished_at", UtcDateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(
            ["federation_id"], ["federations.id"], name="fk_federation_rounds_federation_id_federations"
        ),
        sa.PrimaryKeyConstraint("federation_id", "number", name="pk_federation_rounds"),
    )


def downgrade() -> None:
    """Undo."""
    for table, column in (("blob_uses", "owner_id"), ("events", "subject_id")):
        op.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT id FROM federations)")
    op.drop_table("federation_rounds")
    op.drop_table("federations")
