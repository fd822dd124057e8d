"""Queries on members."""

from sqlalchemy import func, select

from pock_server.auth.roles import Role
from pock_server.db.repository import Repository
from pock_server.members.tables import MemberRecord


class Members(Repository[MemberRecord]):
    """The members of one workspace."""

    row_class = MemberRecord
    noun = "member"

    def named(self, name: str) -> MemberRecord | None:
        """The member of this name."""
        return self.session.scalars(self.select().where(MemberRecord.name == name)).one_or_none()

    def in_order(self) -> list[MemberRecord]:
        """All members, oldest first."""
        return list(self.session.scalars(self.select().order_by(MemberRecord.created_at, MemberRecord.id)))

    def count_admins(self) -> int:
        """Admins who are not disabled."""
        query = select(func.count()).select_from(MemberRecord)
        query = query.where(MemberRecord.workspace_id == self.workspace_id, MemberRecord.role == Role.ADMIN)
        return self.session.scalar(query.where(MemberRecord.disabled_at.is_(None))) or 0
