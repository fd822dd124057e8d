"""Hashes stored blobs to find those that were damaged or lost, before somebody needs them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault
from pock_server.blobs.repository import lift
from pock_server.blobs.tables import BlobRecord
from pock_server.services import Services

_PAGE = 500


@dataclass(frozen=True)
class Checked:
    """A blob that was hashed; `fault` says what is wrong with it, if something is."""

    digest: str
    size: int
    fault: str | None


@dataclass(frozen=True)
class Stock:
    """How much there is to check: blobs, each counted once, and their bytes."""

    blobs: int
    bytes: int


def count_stock(session: Session) -> Stock:
    """All blobs of all workspaces."""
    each = select(BlobRecord.digest, func.max(BlobRecord.size).label("size")).group_by(BlobRecord.digest).subquery()
    blobs, size = session.execute(select(func.count(), func.coalesce(func.sum(each.c.size), 0)).select_from(each)).one()
    return Stock(blobs, int(size))


async def check_all(services: Services) -> AsyncIterator[Checked]:
    """Hash every blob, one after the other, as fast as it goes."""
    after = ""
    while True:
        page = await asyncio.to_thread(_next_page, services, after)
        for digest, size in page:
            yield await check_blob(services, digest, size)
            after = digest
        if not page:
            return


async def check_next(services: Services) -> bool:
    """Hash the blob that was not for the longest time, at the rate of the settings; False if none is due."""
    due = await asyncio.to_thread(_take_due, services)
    if due is None:
        return False
    await check_blob(services, *due, bytes_per_second=services.settings.scrub_bytes_per_second)
    return True


async def check_blob(services: Services, digest: str, size: int, bytes_per_second: int | None = None) -> Checked:
    """Hash a blob: quarantine it if it is not what it was; lift its quarantine if it is again."""
    try:
        async for chunk in await services.blobs.stream(digest, size, 0, size):
            if bytes_per_second is not None:
                await asyncio.sleep(len(chunk) / bytes_per_second)
    except BlobFault as fault:
        await asyncio.to_thread(quarantine, services, fault)
        return Checked(digest, size, fault.reason)
    await asyncio.to_thread(_note_good, services, digest)
    return Checked(digest, size, None)


def _next_page(services: Services, after: str) -> list[tuple[str, int]]:
    query = select(BlobRecord.digest, func.max(BlobRecord.size)).where(BlobRecord.digest > after)
    with services.database.read() as session:
        rows = session.execute(query.group_by(BlobRecord.digest).order_by(BlobRecord.digest).limit(_PAGE))
        return [(digest, size) for digest, size in rows]


def _take_due(services: Services) -> tuple[str, int] | None:
    """The blob that is due, marked as checked: no other process takes it, and a damaged one does not stay the next."""
    now = services.clock.now()
    due = BlobRecord.checked_at < now - timedelta(days=services.settings.scrub_days)
    query = select(BlobRecord.digest, BlobRecord.size).where(due).order_by(BlobRecord.checked_at).limit(1)
    with services.database.read() as session:
        found = session.execute(query).first()
    if found is None:
        return None
    with services.database.write() as unit:
        mark = update(BlobRecord).where(BlobRecord.digest == found.digest, due).values(checked_at=now)
        taken = unit.session.execute(mark.returning(BlobRecord.digest).execution_options(synchronize_session=False))
        return (found.digest, found.size) if taken.all() else None


def _note_good(services: Services, digest: str) -> None:
    mark = update(BlobRecord).where(BlobRecord.digest == digest).values(checked_at=services.clock.now())
    with services.database.write() as unit:
        unit.session.execute(mark.execution_options(synchronize_session=False))
        lift(unit.session, digest)
