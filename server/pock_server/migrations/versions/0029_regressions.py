"""Regressions in series of benchmarks."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_TEXTS = {
    "series": 64,
    "model_name": 200,
    "target": 100,
    "device_kind": 300,
    "since_id": 36,
    "found_id": 36,
    "build_name": 200,
}


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "regressions",
        *(sa.Column(name, sa.String(length=length), nullable=False) for name, length in _TEXTS.items()),
        sa.Column("recipe_name", sa.String(length=200), nullable=True),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in ("threads", "build_version")),
        *(
            sa.Column(name, sa.Float(), nullable=False)
            for name in ("ratio", "interval_low", "interval_high", "p_value")
        ),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_regressions_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_regressions"),
    )
    op.create_index("ix_regressions_page", "regressions", ["workspace_id", "created_at", "id"])
    op.create_index("ix_regressions_series", "regressions", ["workspace_id", "series", "created_at"])


def downgrade() -> None:
    """Undo."""
    op.drop_table("regressions")
