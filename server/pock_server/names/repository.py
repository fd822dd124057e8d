"""Queries on versions and tags, the same for all kinds."""

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar

from sqlalchemy import ColumnElement, and_, delete, false, func, or_, select, update

from pock_server.db.globs import matches
from pock_server.db.insert import insert_into
from pock_server.db.repository import Repository, RowPage
from pock_server.http.pages import PageRequest, Position
from pock_server.http.problems import Failure, Problem
from pock_server.names.reference import BadReference, Reference, parse
from pock_server.names.schemas import Sort, VersionOut
from pock_server.names.tables import UNNUMBERED, Kind, NameRecord, TagRecord, VersionedRow

MAX_TAGS = 100
"""Of one name."""
Row = TypeVar("Row", bound=VersionedRow)


class VersionedRepository(Repository[Row]):
    """The versions of one kind in one workspace.

    Who writes about a name holds it first (`hold`), after the blobs and objects that the transaction locks, and before
    its tags: of two who push one name at once, the second sees what the first has made.
    """

    kind: ClassVar[Kind]
    digest: ClassVar[str]
    """The name of the column by which references find bytes."""

    def hold(self, name: str) -> None:
        """Let nobody else number or tag this name until the end of the transaction."""
        mine = {"workspace_id": self.workspace_id, "kind": self.kind, "name": name}
        new = insert_into(self.session, NameRecord).values(**mine, last_version=0)
        same = {"last_version": NameRecord.last_version}
        self.session.execute(new.on_conflict_do_update(index_elements=list(mine), set_=same))

    def next_version(self, name: str) -> int:
        """The number of a new version of this name, which is held."""
        mine = (NameRecord.workspace_id == self.workspace_id, NameRecord.kind == self.kind, NameRecord.name == name)
        grown = update(NameRecord).where(*mine).values(last_version=NameRecord.last_version + 1)
        return self.session.execute(grown.returning(NameRecord.last_version)).scalar_one()

    def newest(self, name: str, *filters: ColumnElement[bool]) -> Row | None:
        """The highest version of this name that meets the filters."""
        mine = (self.row_class.name == name, self.row_class.version > 0, *filters)
        return self.session.scalars(self.select().where(*mine).order_by(self.row_class.version.desc()).limit(1)).first()

    def asked(self, ref: str | None, name: str | None) -> list[ColumnElement[bool]]:
        """The filters for what a list is asked for by reference and by name; a 422 `Problem` for what is no
        reference."""
        filters = [] if name is None else [matches(self.row_class.name.expression, name)]
        if ref is not None:
            try:
                found = self._resolve(parse(ref))
            except BadReference as error:
                raise Problem(Failure.INVALID, f"query.ref: {error}.") from None
            filters.append(false() if found is None else self.row_class.id == found)
        return filters

    def sorted_page(self, request: PageRequest, sort: Sort, *filters: ColumnElement[bool]) -> RowPage[Row]:
        """One page in an order; a 422 `Problem` if what the previous page showed last is gone."""
        if sort is Sort.NEWEST:
            return self.page(request, *filters)
        attribute = "name" if sort is Sort.NAME else "size"
        column: ColumnElement[Any] = getattr(self.row_class, attribute)
        order = column.asc() if sort is Sort.NAME else column.desc()
        query = self.select().where(*filters).order_by(order, self.row_class.id.desc()).limit(request.limit + 1)
        if request.after is not None:
            last = self.find(request.after.id)
            if last is None:
                detail = "What the previous page showed last is gone; begin with the first page."
                raise Problem(Failure.CURSOR_INVALID, detail)
            value = getattr(last, attribute)
            beyond = column > value if sort is Sort.NAME else column < value
            query = query.where(or_(beyond, and_(column == value, self.row_class.id < last.id)))
        rows = list(self.session.scalars(query))
        if len(rows) <= request.limit:
            return RowPage(rows, None)
        shown = rows[request.limit - 1]
        return RowPage(rows[: request.limit], Position(shown.created_at, shown.id).encode())

    def _resolve(self, reference: Reference) -> str | None:
        """The id of what is meant, if the workspace has it."""
        if reference.id is not None:
            return reference.id
        if reference.tag is not None:
            return self.session.scalar(select(TagRecord.object_id).where(*self._tag(reference.name, reference.tag)))
        filters = []
        if reference.version is not None:
            filters.append(self.row_class.version == reference.version)
        if reference.digest is not None:
            filters.append(getattr(self.row_class, self.digest).startswith(reference.digest, autoescape=True))
        row = self.newest(reference.name, *filters)
        return None if row is None else row.id

    def _tag(self, name: str, tag: str) -> tuple[ColumnElement[bool], ...]:
        mine = TagRecord.workspace_id == self.workspace_id
        return mine, TagRecord.kind == self.kind, TagRecord.name == name, TagRecord.tag == tag

    def versions(self, ids: Iterable[str | None]) -> dict[str, VersionOut]:
        """What those of these rows that the workspace has are called, by their ids."""
        columns = (self.row_class.id, self.row_class.name, self.row_class.version)
        mine = (self.row_class.workspace_id == self.workspace_id, self.row_class.id.in_({*ids} - {None}))
        found = self.session.execute(select(*columns).where(*mine))
        return {row_id: VersionOut(id=row_id, name=name, version=version) for row_id, name, version in found}

    def tags_of(self, rows: Iterable[Row]) -> dict[str, list[str]]:
        """The tags of each row, by its id."""
        found: dict[str, list[str]] = {row.id: [] for row in rows}
        for tag in self.session.scalars(select(TagRecord).where(TagRecord.object_id.in_(found))):
            found[tag.object_id].append(tag.tag)
        return {row_id: sorted(tags) for row_id, tags in found.items()}

    def put_tag(self, row: Row, tag: str) -> int | None:
        """Have the tag of the row's name, which is held, name this row; the version that it named before.

        Raises a 409 `Problem` if the name would have too many tags.
        """
        found = self.session.scalars(select(TagRecord).where(*self._tag(row.name, tag))).one_or_none()
        if found is not None:
            before, found.object_id = self.find(found.object_id), row.id
            self.session.flush()
            return None if before is None else before.version
        mine = (TagRecord.workspace_id == self.workspace_id, TagRecord.kind == self.kind, TagRecord.name == row.name)
        if (self.session.scalar(select(func.count()).select_from(TagRecord).where(*mine)) or 0) >= MAX_TAGS:
            detail = f"{row.name} has {MAX_TAGS} tags, and may have no more; take one away first."
            raise Problem(Failure.STATE_CONFLICT, detail)
        key = {"workspace_id": self.workspace_id, "kind": self.kind, "name": row.name, "tag": tag}
        self.session.add(TagRecord(**key, object_id=row.id))
        self.session.flush()
        return None

    def drop_tag(self, row: Row, tag: str) -> bool:
        """Take the tag away from the row; False if it has no such tag."""
        mine = (*self._tag(row.name, tag), TagRecord.object_id == row.id)
        return self.session.execute(delete(TagRecord).where(*mine).returning(TagRecord.tag)).first() is not None

    def forget_tags(self, row: Row) -> None:
        """Delete the tags of a row that is being deleted."""
        self.hold(row.name)
        self.session.execute(delete(TagRecord).where(TagRecord.object_id == row.id))

    def unnumbered(self, most: int) -> list[Row]:
        """Rows of all workspaces that have no version yet, oldest first."""
        return list(
            self.session.scalars(select(self.row_class).where(UNNUMBERED).order_by(self.row_class.id).limit(most))
        )
