"""Runs know in which form their weights are wanted and came, how large they are, and what they began with."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_ADDED: dict[str, Any] = {
    "weights_form": sa.String(length=20),
    "initial_weights_digest": sa.String(length=64),
    "weights_sent_as": sa.String(length=20),
    "weights_bytes": sa.BigInteger(),
    "full_weights_bytes": sa.BigInteger(),
}


def upgrade() -> None:
    """Apply."""
    for name, kind in _ADDED.items():
        op.add_column("runs", sa.Column(name, kind, nullable=True))


def downgrade() -> None:
    """Undo."""
    for name in _ADDED:
        op.drop_column("runs", name)
