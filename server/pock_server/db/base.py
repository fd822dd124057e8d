"""What every table shares: column types that behave the same on SQLite and PostgreSQL, and the owning workspace."""

from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import JSON, DateTime, Dialect, ForeignKey, Index, MetaData, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.types import TypeDecorator

# Explicit names, because a migration can only alter a constraint that has one.
_NAMES = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC. SQLite drops the zone on the way in, so it is put back on the way out."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse moments without a zone: they would silently mean local time."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a moment without time zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Give every moment its zone back."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Base(DeclarativeBase):
    """Root of all row classes."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: UtcDateTime,
        dict[str, Any]: JSON(none_as_null=True),
        list[Any]: JSON(none_as_null=True),
    }


class WorkspaceRow(Base):
    """A row with an id (UUIDv7), a workspace and a time of creation: what every listed resource is."""

    __abstract__ = True

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"))
    created_at: Mapped[datetime]


class StatefulRow(WorkspaceRow):
    """A row with a status; only `pock_server.lifecycle` changes it."""

    __abstract__ = True

    state: Mapped[str] = mapped_column(String(20))
    attempt: Mapped[int]
    started_at: Mapped[datetime | None]
    # Of the request that made it: by these its life is found in the logs and traces of all processes.
    request_id: Mapped[str | None] = mapped_column(String(128))
    traceparent: Mapped[str | None] = mapped_column(String(55))

    def holder(self) -> dict[str, str]:
        """Whose hands it is in, and what else its log lines name, by name."""
        return {}


def page_index(table: str) -> Index:
    """The index that serves the pages of a listed table."""
    return Index(f"ix_{table}_page", "workspace_id", "created_at", "id")
