"""Benchmarks, and how a run repeats one."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_TEXTS = {
    "run_id": 36,
    "build_id": 36,
    "build_name": 200,
    "model_name": 200,
    "device_id": 36,
    "device_name": 200,
    "device_kind": 300,
    "target": 100,
    "series": 64,
    "state": 20,
}
_OPTIONAL_TEXTS = {"recipe_name": 200, "baseline_id": 36, "request_id": 128, "traceparent": 55}
_NUMBERS = (
    "build_version",
    "threads",
    "steps",
    "warmup_steps",
    "repeats_wanted",
    "cool_down_seconds",
    "priority",
    "attempt",
)


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "benchmarks",
        *(sa.Column(name, sa.String(length=length), nullable=False) for name, length in _TEXTS.items()),
        *(sa.Column(name, sa.String(length=length), nullable=True) for name, length in _OPTIONAL_TEXTS.items()),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _NUMBERS),
        sa.Column("machine", sa.JSON(none_as_null=True), nullable=False),
        *(sa.Column(name, sa.JSON(none_as_null=True), nullable=True) for name in ("repeats", "verdict", "failure")),
        *(sa.Column(name, UtcDateTime(timezone=True), nullable=True) for name in ("started_at", "finished_at")),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_benchmarks_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_benchmarks"),
    )
    op.create_index("ix_benchmarks_page", "benchmarks", ["workspace_id", "created_at", "id"])
    op.create_index("ix_benchmarks_state", "benchmarks", ["state"])
    op.create_index("ix_benchmarks_series", "benchmarks", ["workspace_id", "series", "created_at"])
    op.add_column("runs", sa.Column("bench", sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    """Undo. Runs of benchmarks stay, as runs."""
    op.drop_column("runs", "bench")
    op.execute("DELETE FROM events WHERE subject_id IN (SELECT id FROM benchmarks)")
    op.drop_table("benchmarks")
