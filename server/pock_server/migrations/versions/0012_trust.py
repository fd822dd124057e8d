"""Trust documents, signing keys in the database, and the document that each device has."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply. The key in `keys/signing.pem` is taken over when the service starts, because it is no part of the data."""
    op.create_table(
        "trust_documents",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("signatures", sa.JSON(none_as_null=True), nullable=False),
        sa.PrimaryKeyConstraint("version", name="pk_trust_documents"),
    )
    op.create_table(
        "signing_keys",
        sa.Column("key_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("public_key", sa.String(length=44), nullable=False),
        sa.Column("wrapped", sa.String(length=200), nullable=True),
        sa.Column("published_in", sa.Integer(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name="pk_signing_keys"),
    )
    op.add_column("devices", sa.Column("trust_version", sa.Integer(), nullable=True))


def downgrade() -> None:
    """Undo."""
    op.drop_column("devices", "trust_version")
    op.drop_table("signing_keys")
    op.drop_table("trust_documents")
