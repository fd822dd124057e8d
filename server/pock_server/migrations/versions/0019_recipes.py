"""Recipes with names and versions, and the one that a build was asked for by.

No foreign key: SQLite would have to write the builds anew, which runs refer to. Who asks for a build locks its recipe.
"""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_NUMBERED, _UNNUMBERED = sa.text("version > 0"), sa.text("version = 0")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "recipes",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("content", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_recipes_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_recipes"),
    )
    op.create_index("ix_recipes_page", "recipes", ["workspace_id", "created_at", "id"])
    columns = ["workspace_id", "name", "version"]
    op.create_index(
        "uq_recipes_version", "recipes", columns, unique=True, sqlite_where=_NUMBERED, postgresql_where=_NUMBERED
    )
    op.create_index("ix_recipes_unnumbered", "recipes", ["id"], sqlite_where=_UNNUMBERED, postgresql_where=_UNNUMBERED)
    op.add_column("builds", sa.Column("recipe_id", sa.String(length=36), nullable=True))
    op.create_index("ix_builds_recipe_id", "builds", ["recipe_id"])


def downgrade() -> None:
    """Undo. Builds keep what their recipes say."""
    op.drop_index("ix_builds_recipe_id", "builds")
    op.drop_column("builds", "recipe_id")
    op.execute("DELETE FROM tags WHERE kind = 'recipe'")
    op.execute("DELETE FROM names WHERE kind = 'recipe'")
    op.drop_table("recipes")
