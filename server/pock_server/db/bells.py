"""Rings go from process to process over PostgreSQL: NOTIFY in the writing transaction, LISTEN on its own connection.

A ring is committed with what it announces, or neither is. It says only where to look; what is there, the rows say.
"""

import asyncio
import logging
import random

import psycopg
from sqlalchemy import text
from sqlalchemy.orm import Session

from pock_server.db.alive import sign_of_life
from pock_server.db.engine import connection_string, is_postgres
from pock_server.hub import Hub
from pock_server.settings import Settings

_CHANNEL = "pock_bells"
_NOTIFY = text(f"SELECT pg_notify('{_CHANNEL}', payload) FROM unnest(CAST(:payloads AS text[])) AS payload")
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_log = logging.getLogger(__name__)


def carry(session: Session, origin: str, topics: tuple[str, ...]) -> None:
    """Have the other processes ring these topics when the transaction is committed; nothing to do on SQLite.

    `origin` names this process. A topic is a word and an id, far below the 8000 bytes that NOTIFY carries.
    """
    if topics and session.get_bind().dialect.name == "postgresql":
        session.execute(_NOTIFY, {"payloads": [f"{origin} {topic}" for topic in topics]})


async def listen_forever(settings: Settings, hub: Hub) -> None:
    """Ring here what other processes announce. After a connection was lost, ring everything: nobody knows what was
    announced meanwhile. Returns at once on SQLite, which serves one process."""
    if not is_postgres(settings):
        return
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(**connection_string(settings), autocommit=True) as line:
                await line.execute(*sign_of_life(hub.name))
                await line.execute(f"LISTEN {_CHANNEL}")
                hub.ring_all()
                pause = _FIRST_PAUSE_SECONDS
                async for notice in line.notifies():
                    _ring(hub, notice.payload)
        except psycopg.Error as error:
            _log.warning("rings of other processes cannot be heard; connecting again: %s", str(error).split("\n")[0])
        # Not all processes at one moment, when the database comes back.
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))
        pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _ring(hub: Hub, payload: str) -> None:
    origin, _, topic = payload.partition(" ")
    if origin != hub.name:  # its own have rung already
        hub.ring(topic)
