"""Names that have versions, and tags that name one of them."""

from enum import StrEnum

from sqlalchemy import ForeignKey, Index, Integer, String, text
from sqlalchemy.orm import Mapped, mapped_column

from pock_server.db.base import Base, WorkspaceRow

UNNUMBERED = text("version = 0")
"""A row that a service of before versions made, while both ran; the sweeper numbers it within seconds."""
_NUMBERED = text("version > 0")


class Kind(StrEnum):
    """What has versions; each kind has names of its own."""

    MODEL = "model"
    """An ONNX file."""
    DATASET = "dataset"
    """A safetensors file."""
    RECIPE = "recipe"
    """What to train and how, as text."""
    BUILD = "build"
    """A model compiled for a target."""


class VersionedRow(WorkspaceRow):
    """A version of a name. The first is 1; one that is deleted leaves a gap."""

    __abstract__ = True

    name: Mapped[str] = mapped_column(String(200))
    version: Mapped[int] = mapped_column(Integer, server_default="0")


def version_indexes(table: str) -> tuple[Index, Index]:
    """The index that keeps versions apart and finds them by name, and the one that finds rows without."""
    return (
        Index(
            f"uq_{table}_version",
            "workspace_id",
            "name",
            "version",
            unique=True,
            sqlite_where=_NUMBERED,
            postgresql_where=_NUMBERED,
        ),
        Index(f"ix_{table}_unnumbered", "id", sqlite_where=UNNUMBERED, postgresql_where=UNNUMBERED),
    )


class NameRecord(Base):
    """The last version that a name has had. It stays when its versions are deleted: no number comes twice."""

    __tablename__ = "names"

    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    last_version: Mapped[int] = mapped_column(Integer)


class TagRecord(Base):
    """A word for one version of a name; `object_id` is that of the version's row."""

    __tablename__ = "tags"
    __table_args__ = (Index("ix_tags_object_id", "object_id"),)

    workspace_id: Mapped[str] = mapped_column(String(36), ForeignKey("workspaces.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(String(20), primary_key=True)
    name: Mapped[str] = mapped_column(String(200), primary_key=True)
    tag: Mapped[str] = mapped_column(String(64), primary_key=True)
    object_id: Mapped[str] = mapped_column(String(36))
