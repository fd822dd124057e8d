"""Inserts that many may try at once: one wins, the others are told instead of failing."""

from typing import Any, TypeVar

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from pock_server.db.base import Base

Row = TypeVar("Row", bound=Base)


def insert_if_absent(session: Session, row_class: type[Row], **values: Any) -> Row | None:
    """The new row, or None if one with the same key is there. Waits for a transaction that is about to insert it.

    Who inserts several of them in one transaction does so in the order of their keys: else two that wait for each other
    would be broken up by the database.
    """
    insert = postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert
    statement = insert(row_class).values(**values).on_conflict_do_nothing().returning(row_class)
    return session.scalars(statement).one_or_none()
