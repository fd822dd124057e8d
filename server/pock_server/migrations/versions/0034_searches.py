"""Searches, which builds of a kind of their own do, and the recipes that they found."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "searches",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("model_id", sa.String(length=36), nullable=False),
        sa.Column("dataset_id", sa.String(length=36), nullable=False),
        sa.Column("eval_dataset_id", sa.String(length=36), nullable=True),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("options", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("found", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("recipe_id", sa.String(length=36), nullable=True),
        sa.Column("result_digest", sa.String(length=64), nullable=True),
        sa.Column("report_digest", sa.String(length=64), nullable=True),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_searches_workspace_id_workspaces"),
        sa.ForeignKeyConstraint(["model_id"], ["models.id"], name="fk_searches_model_id_models"),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name="fk_searches_dataset_id_datasets"),
        sa.ForeignKeyConstraint(["eval_dataset_id"], ["datasets.id"], name="fk_searches_eval_dataset_id_datasets"),
        sa.PrimaryKeyConstraint("id", name="pk_searches"),
    )
    op.create_index("ix_searches_page", "searches", ["workspace_id", "created_at", "id"])
    for column in ("model_id", "dataset_id", "eval_dataset_id"):
        op.create_index(f"ix_searches_{column}", "searches", [column])
    for column in ("model_id", "search_id"):
        op.add_column("recipes", sa.Column(column, sa.String(length=36), nullable=True))
    op.create_index("ix_recipes_model_id", "recipes", ["model_id"])


def downgrade() -> None:
    """Undo. Searches go with their builds, which nobody else could do; the recipes that they found stay."""
    op.drop_index("ix_recipes_model_id", "recipes")
    for column in ("model_id", "search_id"):
        op.drop_column("recipes", column)
    op.drop_table("searches")
    builds = "SELECT id FROM builds WHERE kind = 'search'"
    for table, column in (("blob_uses", "owner_id"), ("events", "subject_id")):
        op.execute(f"DELETE FROM {table} WHERE {column} IN ({builds})")
    op.execute("DELETE FROM builds WHERE kind = 'search'")
