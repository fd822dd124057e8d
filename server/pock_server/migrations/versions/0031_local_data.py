"""Datasets that stay on a device.

No foreign key: SQLite would have to write the datasets anew, which runs refer to. Devices are never deleted.
"""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.add_column("datasets", sa.Column("device_id", sa.String(length=36), nullable=True))
    op.add_column("datasets", sa.Column("gone_at", UtcDateTime(timezone=True), nullable=True))
    op.create_index("ix_datasets_device_id", "datasets", ["device_id"])
    op.add_column("devices", sa.Column("data_digest", sa.String(length=64), nullable=True))


def downgrade() -> None:
    """Undo. Nobody could run what stays on devices: those without runs go."""
    op.drop_column("devices", "data_digest")
    used = "SELECT dataset_id FROM runs WHERE dataset_id IS NOT NULL"
    evaluated = "SELECT eval_dataset_id FROM runs WHERE eval_dataset_id IS NOT NULL"
    op.execute(f"DELETE FROM datasets WHERE device_id IS NOT NULL AND id NOT IN ({used}) AND id NOT IN ({evaluated})")
    op.drop_index("ix_datasets_device_id", "datasets")
    for name in ("gone_at", "device_id"):
        op.drop_column("datasets", name)
