"""Cursor pagination: newest first, by (created_at, id); the cursor is opaque to clients."""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

from fastapi import Depends, Query
from pydantic import BaseModel, Field

from pock_server.http.fields import UUID
from pock_server.http.problems import Failure, Problem

Item = TypeVar("Item")


class PageOut(BaseModel, Generic[Item]):
    """A part of a list; pass `next_cursor` as `cursor` to get the following one."""

    items: list[Item]
    next_cursor: str | None = Field(description="Null on the last page.")


@dataclass(frozen=True)
class Position:
    """The last row that the previous page showed."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        """The position as a cursor."""
        return (
            base64.urlsafe_b64encode(json.dumps([self.created_at.isoformat(), self.id]).encode()).decode().rstrip("=")
        )


@dataclass(frozen=True)
class PageRequest:
    """Which part of a list is wanted."""

    after: Position | None
    limit: int


def decode_cursor(cursor: str) -> Position:
    """The position in `cursor`; raises `Problem` for anything that `Position.encode` did not make."""
    try:
        moment, row_id = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        created_at = datetime.fromisoformat(moment)
        if created_at.tzinfo is None or not re.fullmatch(UUID, row_id):
            raise ValueError("not a position")
        created_at = created_at.astimezone(UTC)
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        raise Problem(
            Failure.CURSOR_INVALID, "The cursor is not one of ours; pass next_cursor of the previous page unchanged."
        ) from None
    return Position(created_at, row_id)


async def page_request(
    cursor: Annotated[str | None, Query(description="`next_cursor` of the previous page.", max_length=200)] = None,
    limit: Annotated[int, Query(ge=1, le=200, description="Items per page.")] = 50,
) -> PageRequest:
    """The page that the query string asks for."""
    return PageRequest(decode_cursor(cursor) if cursor is not None else None, limit)


PageQuery = Annotated[PageRequest, Depends(page_request)]
