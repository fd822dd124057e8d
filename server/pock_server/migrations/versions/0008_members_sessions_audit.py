"""Members that own API keys, browser sessions, the audit log. Keys of before have no member and keep their scopes."""

import sqlalchemy as sa
from alembic import op

from pock_server.db.base import UtcDateTime

_DEVELOPER = {"read", "models:write", "builds:write", "runs:write"}
_SCOPES_OF = {
    "viewer": {"read"},
    "developer": _DEVELOPER,
    "operator": {*_DEVELOPER, "devices:admin"},
    "admin": {*_DEVELOPER, "devices:admin", "keys:admin"},
}

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "members",
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("email", sa.String(length=254), nullable=True),
        sa.Column("role", sa.String(length=20), nullable=False),
        sa.Column("disabled_at", UtcDateTime(timezone=True), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["workspace_id"], ["workspaces.id"], name="fk_members_workspace_id_workspaces"),
        sa.PrimaryKeyConstraint("id", name="pk_members"),
    )
    op.create_index("ix_members_page", "members", ["workspace_id", "created_at", "id"])
    op.create_index("uq_members_name", "members", ["workspace_id", "name"], unique=True)
    with op.batch_alter_table("api_keys") as batch:
        batch.add_column(sa.Column("member_id", sa.String(length=36), nullable=True))
        batch.create_foreign_key("fk_api_keys_member_id_members", "members", ["member_id"], ["id"])
        batch.create_index("ix_api_keys_member_id", ["member_id"])
    op.create_table(
        "browser_sessions",
        sa.Column("key_id", sa.String(length=36), nullable=False),
        sa.Column("secret_hash", sa.String(length=64), nullable=False),
        sa.Column("expires_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("last_used_at", UtcDateTime(timezone=True), nullable=False),
        sa.Column("address", sa.String(length=100), nullable=True),
        sa.Column("user_agent", sa.String(length=300), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name="fk_browser_sessions_key_id_api_keys"),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name="fk_browser_sessions_workspace_id_workspaces"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_browser_sessions"),
    )
    op.create_index("ix_browser_sessions_page", "browser_sessions", ["workspace_id", "created_at", "id"])
    op.create_index("ix_browser_sessions_key_id", "browser_sessions", ["key_id"])
    op.create_index("ix_browser_sessions_expires_at", "browser_sessions", ["expires_at"])
    op.create_table(
        "audit_entries",
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("action", sa.String(length=50), nullable=False),
        sa.Column("object_kind", sa.String(length=50), nullable=False),
        sa.Column("object_id", sa.String(length=64), nullable=False),
        sa.Column("object_name", sa.String(length=200), nullable=False),
        sa.Column("changes", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("actor_kind", sa.String(length=20), nullable=False),
        sa.Column("actor_name", sa.String(length=200), nullable=False),
        sa.Column("member_id", sa.String(length=36), nullable=True),
        sa.Column("key_id", sa.String(length=36), nullable=True),
        sa.Column("session_id", sa.String(length=36), nullable=True),
        sa.Column("device_id", sa.String(length=36), nullable=True),
        sa.Column("address", sa.String(length=100), nullable=True),
        sa.Column("user_agent", sa.String(length=300), nullable=True),
        sa.Column("request_id", sa.String(length=100), nullable=True),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("created_at", UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit_entries"),
    )
    op.create_index("ix_audit_entries_page", "audit_entries", ["workspace_id", "created_at", "id"])
    op.create_index("ix_audit_entries_object_id", "audit_entries", ["workspace_id", "object_id"])
    op.create_index("ix_audit_entries_created_at", "audit_entries", ["created_at"])


def downgrade() -> None:
    """Undo. A member's key keeps the scopes that the member's role has now; a disabled member's key is revoked."""
    op.drop_table("audit_entries")
    op.drop_table("browser_sessions")
    _narrow_keys(op.get_bind())
    with op.batch_alter_table("api_keys") as batch:
        batch.drop_index("ix_api_keys_member_id")
        batch.drop_constraint("fk_api_keys_member_id_members", type_="foreignkey")
        batch.drop_column("member_id")
    op.drop_table("members")


def _narrow_keys(connection: sa.Connection) -> None:
    keys = sa.table(
        "api_keys", sa.column("id"), sa.column("scopes", sa.JSON), sa.column("revoked_at"), sa.column("member_id")
    )
    members = sa.table("members", sa.column("id"), sa.column("role"), sa.column("disabled_at"))
    rows = connection.execute(
        sa.select(keys.c.id, keys.c.scopes, members.c.role, members.c.disabled_at).outerjoin_from(
            keys, members, keys.c.member_id == members.c.id
        )
    ).all()
    for key_id, scopes, role, disabled_at in rows:
        kept = sorted(set(scopes) & _SCOPES_OF[role or "admin"])
        change = sa.update(keys).where(keys.c.id == key_id)
        connection.execute(change.values(scopes=kept))
        if disabled_at is not None:
            connection.execute(change.where(keys.c.revoked_at.is_(None)).values(revoked_at=sa.func.current_timestamp()))
