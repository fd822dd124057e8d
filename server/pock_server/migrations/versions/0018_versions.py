"""Models, datasets and builds are versions of their names, numbered in the order they were made; tags name versions.

Processes of before go on beside these tables for as long as an upgrade takes. What they make has version 0 until the
sweeper numbers it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_KINDS = {"models": "model", "datasets": "dataset", "builds": "build"}
_NUMBERED, _UNNUMBERED = sa.text("version > 0"), sa.text("version = 0")


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "names",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_names_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("workspace_id", "kind", "name", name="pk_names"),
    )
    op.create_table(
        "tags",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("tag", sa.String(length=64), nullable=False),
        sa.Column("object_id", sa.String(length=36), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_tags_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("workspace_id", "kind", "name", "tag", name="pk_tags"),
    )
    op.create_index("ix_tags_object_id", "tags", ["object_id"])
    for table, kind in _KINDS.items():
        _number(table, kind)


def _number(table: str, kind: str) -> None:
    op.add_column(table, sa.Column("version", sa.Integer(), nullable=False, server_default="0"))
    op.execute(
        f"UPDATE {table} SET version = numbered.number FROM (SELECT id, row_number() OVER "
        f"(PARTITION BY workspace_id, name ORDER BY created_at, id) AS number FROM {table}) AS numbered "
        f"WHERE numbered.id = {table}.id"
    )
    op.execute(
        "INSERT INTO names (workspace_id, kind, name, last_version) "
        f"SELECT workspace_id, '{kind}', name, max(version) FROM {table} GROUP BY workspace_id, name"
    )
    columns = ["workspace_id", "name", "version"]
    op.create_index(
        f"uq_{table}_version", table, columns, unique=True, sqlite_where=_NUMBERED, postgresql_where=_NUMBERED
    )
    op.create_index(f"ix_{table}_unnumbered", table, ["id"], sqlite_where=_UNNUMBERED, postgresql_where=_UNNUMBERED)


def downgrade() -> None:
    """Undo."""
    for table in reversed(_KINDS):
        op.drop_index(f"ix_{table}_unnumbered", table)
        op.drop_index(f"uq_{table}_version", table)
        op.drop_column(table, "version")
    op.drop_table("tags")
    op.drop_table("names")
