"""Runs may be parts of longer works, have a priority and an earliest time; a benchmark needs no dataset."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_REQUIRED, _OPTIONAL = "\tdataset_id VARCHAR(36) NOT NULL", "\tdataset_id VARCHAR(36)"
"""With the tab before it: there is an `eval_dataset_id`, too."""


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("part_of", sa.String(length=36), nullable=True))
    op.add_column("runs", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("not_before", UtcDateTime(timezone=True), nullable=True))
    op.create_index("ix_runs_part_of", "runs", ["part_of"])
    _dataset(optional=True)


def downgrade() -> None:
    """Undo. Runs without a dataset cannot be kept."""
    lost = "SELECT id FROM runs WHERE dataset_id IS NULL"
    for table, column in (("run_steps", "run_id"), ("blob_uses", "owner_id"), ("events", "subject_id")):
        op.execute(f"DELETE FROM {table} WHERE {column} IN ({lost})")
    op.execute("DELETE FROM runs WHERE dataset_id IS NULL")
    _dataset(optional=False)
    op.drop_index("ix_runs_part_of", "runs")
    for name in ("part_of", "priority", "not_before"):
        op.drop_column("runs", name)


def _dataset(optional: bool) -> None:
    """SQLite would write the table anew, to which steps refer. Its rows stay as they are, so it is enough to
    change what the schema says of them (https://www.sqlite.org/lang_altertable.html, section 7)."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.alter_column("runs", "dataset_id", nullable=optional)
        return
    before, after = (_REQUIRED, _OPTIONAL) if optional else (_OPTIONAL, _REQUIRED)
    version = connection.scalar(sa.text("PRAGMA schema_version"))
    connection.execute(sa.text("PRAGMA writable_schema = ON"))
    changed = connection.execute(
        sa.text("UPDATE sqlite_schema SET sql = replace(sql, :before, :after) WHERE name = 'runs' AND type = 'table'"),
        {"before": before, "after": after},
    )
    assert changed.rowcount == 1
    connection.execute(sa.text(f"PRAGMA schema_version = {version + 1}"))
    connection.execute(sa.text("PRAGMA writable_schema = OFF"))
