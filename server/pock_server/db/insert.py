"""Inserts that many may try at once: one wins, the others are told instead of failing."""

from typing import Any, TypeVar

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from pock_server.db.base import Base

Row = TypeVar("Row", bound=Base)


def insert_into(session: Session, row_class: type[Base]) -> postgresql.Insert | sqlite.Insert:
    """An insert in the words of the database, which alone say what to do where a key is there."""
    return (postgresql.insert if session.get_bind().dialect.name == "postgresql" else sqlite.insert)(row_class)


def insert_if_absent(session: Session, row_class: type[Row], **values: Any) -> Row | None:
    """The new row, or None if one with the same key is there. Waits for a transaction that is about to insert it.

    Who inserts several of them in one transaction does so in the order of their keys: else two that wait for each other
    would be broken up by the database.
    """
    statement = insert_into(session, row_class).values(**values).on_conflict_do_nothing().returning(row_class)
    return session.scalars(statement).one_or_none()
