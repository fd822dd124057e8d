"""Base of all repositories: every query is confined to one workspace, so no domain can forget it."""

from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from sqlalchemy import ColumnElement, Select, func, select, tuple_
from sqlalchemy.orm import Session

from pock_server.db.base import WorkspaceRow
from pock_server.http.pages import PageRequest, Position
from pock_server.http.problems import Failure, Problem

Row = TypeVar("Row", bound=WorkspaceRow)


@dataclass(frozen=True)
class RowPage(Generic[Row]):
    """Rows of one page and the cursor of the next."""

    rows: list[Row]
    next_cursor: str | None


class Repository(Generic[Row]):
    """Reads and writes rows of one class in one workspace."""

    row_class: type[Row]
    noun: ClassVar[str]

    def __init__(self, session: Session, workspace_id: str) -> None:
        self.session = session
        self.workspace_id = workspace_id

    def select(self) -> Select[Row]:
        """All rows of the workspace."""
        return select(self.row_class).where(self.row_class.workspace_id == self.workspace_id)

    def find(self, row_id: str, *filters: ColumnElement[bool], lock: bool = False) -> Row | None:
        """The row with this id, if it belongs to the workspace and meets the filters.

        `lock` it, until the end of the transaction, where what is written depends on what is read here: the row is
        then as the last one who changed it has left it.
        """
        query = self.select().where(self.row_class.id == row_id, *filters)
        if lock:
            query = locked(query, self.row_class)
        return self.session.scalars(query).one_or_none()

    def require(self, row_id: str, *filters: ColumnElement[bool], lock: bool = False) -> Row:
        """The row with this id, as `find` gives it; raises a 404 `Problem` if the workspace has none."""
        row = self.find(row_id, *filters, lock=lock)
        if row is None:
            raise Problem(Failure.NOT_FOUND, f"There is no {self.noun} {row_id}.")
        return row

    def page(self, request: PageRequest, *filters: ColumnElement[bool]) -> RowPage[Row]:
        """One page, newest first."""
        order: tuple[Any, ...] = (self.row_class.created_at, self.row_class.id)
        query = self.select().where(*filters).order_by(*(column.desc() for column in order)).limit(request.limit + 1)
        if request.after is not None:
            query = query.where(tuple_(*order) < tuple_(*_bound(request.after)))
        rows = list(self.session.scalars(query))
        if len(rows) <= request.limit:
            return RowPage(rows, None)
        last = rows[request.limit - 1]
        return RowPage(rows[: request.limit], Position(last.created_at, last.id).encode())

    def count(self, *filters: ColumnElement[bool]) -> int:
        """How many rows of the workspace meet the filters."""
        query = select(func.count()).select_from(self.row_class).where(self.row_class.workspace_id == self.workspace_id)
        return self.session.scalar(query.where(*filters)) or 0

    def add(self, row: Row) -> Row:
        """Insert the row now, so that constraints speak inside the request that broke them."""
        self.session.add(row)
        self.session.flush()
        return row


def locked(query: Select[Row], row_class: type[Row]) -> Select[Row]:
    """The query that locks its rows until the end of the transaction, and reads them as the last change left them."""
    return query.with_for_update(key_share=True, of=row_class).execution_options(populate_existing=True)


def _bound(position: Position) -> tuple[Any, ...]:
    return position.created_at, position.id
