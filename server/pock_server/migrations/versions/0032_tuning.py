"""Tuning by the fleet: searches, entries, measurements, devices that are not believed; builds of trials."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def _row(table: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name=f"fk_{table}_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
    )


def _text(name: str, length: int, optional: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.String(length=length), nullable=optional)


def _json(name: str, optional: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=optional)


def _moment(name: str, optional: bool = True) -> sa.Column[object]:
    return sa.Column(name, UtcDateTime(timezone=True), nullable=optional)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "tunings",
        *(_text(name, 36) for name in ("build_id", "model_id")),
        *(_text(name, 200) for name in ("build_name", "compiler_version")),
        _text("target", 100),
        _text("state", 20),
        _text("pack_build_id", 36, optional=True),
        _text("request_id", 128, optional=True),
        _text("traceparent", 55, optional=True),
        *(_json(name) for name in ("recipe", "pack", "heard", "tried")),
        _json("failure", optional=True),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("threads", "packs", "decided", "attempt")),
        _moment("waits_since", optional=False),
        _moment("started_at"),
        _moment("finished_at"),
        *_row("tunings"),
    )
    op.create_index("ix_tunings_page", "tunings", ["workspace_id", "created_at", "id"])
    op.create_index("ix_tunings_state", "tunings", ["state"])
    op.create_table(
        "tuning_entries",
        _text("key", 64),
        _text("target", 100),
        _text("family", 100),
        _text("source", 20),
        _text("pack_id", 36, optional=True),
        *(_json(name) for name in ("inputs", "candidates")),
        *(_json(name, optional=True) for name in ("choice", "provenance")),
        *(sa.Column(name, sa.Float(), nullable=True) for name in ("ms", "model_ms")),
        sa.Column("devices", sa.Integer(), nullable=False),
        _moment("decided_at"),
        *_row("tuning_entries"),
    )
    op.create_index("ix_tuning_entries_page", "tuning_entries", ["workspace_id", "created_at", "id"])
    op.create_index("uq_tuning_entries_key", "tuning_entries", ["workspace_id", "target", "key"], unique=True)
    op.create_index("ix_tuning_entries_decided", "tuning_entries", ["workspace_id", "target", "decided_at"])
    op.create_table(
        "tuning_measurements",
        *(_text(name, 36) for name in ("pack_id", "run_id", "device_id")),
        _text("key", 64),
        _text("target", 100),
        _text("standing", 20),
        *(_json(name) for name in ("candidates", "provenance")),
        *_row("tuning_measurements"),
    )
    op.create_index("ix_tuning_measurements_key", "tuning_measurements", ["workspace_id", "target", "key"])
    op.create_index("ix_tuning_measurements_device", "tuning_measurements", ["device_id"])
    op.create_index("uq_tuning_measurements_run", "tuning_measurements", ["run_id", "key"], unique=True)
    op.create_table("tuning_distrust", _text("reason", 500), _text("run_id", 36), *_row("tuning_distrust"))
    op.add_column("builds", sa.Column("kind", sa.String(length=20), nullable=False, server_default="model"))
    op.add_column("builds", sa.Column("tune", sa.String(length=20), nullable=False, server_default="off"))
    op.add_column("builds", sa.Column("tuning_id", sa.String(length=36), nullable=True))


def downgrade() -> None:
    """Undo. Builds of trials go, with their runs: nobody else could read them."""
    builds = "SELECT id FROM builds WHERE kind = 'trials'"
    runs = f"SELECT id FROM runs WHERE build_id IN ({builds})"
    for table, column in (("run_steps", "run_id"), ("blob_uses", "owner_id"), ("events", "subject_id")):
        op.execute(f"DELETE FROM {table} WHERE {column} IN ({runs})")
    op.execute(f"DELETE FROM runs WHERE build_id IN ({builds})")
    op.execute(f"DELETE FROM artifacts WHERE build_id IN ({builds})")
    for table, column in (("blob_uses", "owner_id"), ("events", "subject_id")):
        op.execute(f"DELETE FROM {table} WHERE {column} IN ({builds})")
    op.execute("DELETE FROM builds WHERE kind = 'trials'")
    op.execute("DELETE FROM events WHERE subject_id IN (SELECT id FROM tunings)")
    for name in ("kind", "tune", "tuning_id"):
        op.drop_column("builds", name)
    for table in ("tuning_distrust", "tuning_measurements", "tuning_entries", "tunings"):
        op.drop_table(table)
