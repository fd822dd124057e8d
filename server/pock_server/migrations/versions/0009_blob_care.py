"""Blobs: who uses them, when they were wanted and checked, which are damaged; builds whose artifact is gone."""

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_OLD_LIVE = sa.text("state IN ('queued', 'running', 'succeeded')")
_LIVE = sa.text("state IN ('queued', 'running', 'succeeded') AND retired_at IS NULL")
_USE = sa.text(
    "INSERT INTO blob_uses (workspace_id, owner_id, digest) "
    "SELECT CAST(:workspace_id AS VARCHAR(36)), CAST(:owner_id AS VARCHAR(36)), CAST(:digest AS VARCHAR(64)) "
    "WHERE EXISTS (SELECT 1 FROM blobs WHERE workspace_id = :workspace_id AND digest = :digest)"
)


def upgrade() -> None:
    """Apply."""
    op.add_column("blobs", sa.Column("used_at", UtcDateTime(timezone=True), nullable=True))
    op.add_column("blobs", sa.Column("checked_at", UtcDateTime(timezone=True), nullable=True))
    op.execute("UPDATE blobs SET used_at = created_at, checked_at = created_at")
    with op.batch_alter_table("blobs") as table:
        table.alter_column("used_at", existing_type=UtcDateTime(timezone=True), nullable=False)
        table.alter_column("checked_at", existing_type=UtcDateTime(timezone=True), nullable=False)
    op.create_index("ix_blobs_digest", "blobs", ["digest"])
    op.create_index("ix_blobs_checked_at", "blobs", ["checked_at"])
    op.create_table(
        "quarantined_blobs",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("reason", sa.String(length=200), nullable=False),
        sa.Column("found_at", UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_quarantined_blobs"),
    )
    op.create_table(
        "blob_uses",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("owner_id", sa.String(length=36), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id", "digest"], ["blobs.workspace_id", "blobs.digest"], name="fk_blob_uses_workspace_id_blobs"
        ),
        sa.PrimaryKeyConstraint("workspace_id", "owner_id", "digest", name="pk_blob_uses"),
    )
    op.create_index("ix_blob_uses_digest", "blob_uses", ["digest"])
    for rows in _batches(_uses(op.get_bind())):
        op.get_bind().execute(_USE, rows)
    op.add_column("builds", sa.Column("retired_at", UtcDateTime(timezone=True), nullable=True))
    op.drop_index("uq_builds_live_key", "builds")
    op.create_index(
        "uq_builds_live_key", "builds", ["workspace_id", "key"], unique=True, sqlite_where=_LIVE, postgresql_where=_LIVE
    )


def downgrade() -> None:
    """Undo. Of builds of one key, the retired ones count as failed: the code before knows one live build a key."""
    op.execute("UPDATE builds SET state = 'failed' WHERE retired_at IS NOT NULL AND state = 'succeeded'")
    op.drop_index("uq_builds_live_key", "builds")
    op.create_index(
        "uq_builds_live_key",
        "builds",
        ["workspace_id", "key"],
        unique=True,
        sqlite_where=_OLD_LIVE,
        postgresql_where=_OLD_LIVE,
    )
    op.drop_column("builds", "retired_at")
    op.drop_table("blob_uses")
    op.drop_table("quarantined_blobs")
    op.drop_index("ix_blobs_checked_at", "blobs")
    op.drop_index("ix_blobs_digest", "blobs")
    op.drop_column("blobs", "checked_at")
    op.drop_column("blobs", "used_at")


def _uses(connection: sa.Connection) -> Iterator[tuple[str, str, str]]:
    """(workspace, owner, digest) of everything that needs a blob."""
    json = sa.JSON()
    models = sa.table("models", *map(sa.column, ("workspace_id", "id", "digest")), sa.column("external", json))
    datasets = sa.table("datasets", *map(sa.column, ("workspace_id", "id", "digest")))
    artifacts = sa.table(
        "artifacts", *map(sa.column, ("workspace_id", "build_id", "digest")), sa.column("members", json)
    )
    builds = sa.table("builds", *map(sa.column, ("workspace_id", "id", "artifact_digest")))
    runs = sa.table("runs", *map(sa.column, ("workspace_id", "id", "weights_digest")))
    for row in connection.execute(sa.select(models)):
        for digest in {row.digest, *row.external.values()}:
            yield row.workspace_id, row.id, digest
    for row in connection.execute(sa.select(datasets)):
        yield row.workspace_id, row.id, row.digest
    made = sa.and_(builds.c.workspace_id == artifacts.c.workspace_id, builds.c.artifact_digest == artifacts.c.digest)
    for row in connection.execute(sa.select(artifacts, builds.c.id.label("owner_id")).join(builds, made)):
        for digest in {row.digest, *(member["sha256"] for member in row.members.values())}:
            yield row.workspace_id, row.owner_id, digest
    for row in connection.execute(sa.select(runs).where(runs.c.weights_digest.is_not(None))):
        yield row.workspace_id, row.id, row.weights_digest


def _batches(uses: Iterator[tuple[str, str, str]]) -> Iterator[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    for workspace_id, owner_id, digest in uses:
        batch.append({"workspace_id": workspace_id, "owner_id": owner_id, "digest": digest})
        if len(batch) == 1000:
            yield batch
            batch = []
    if batch:
        yield batch
