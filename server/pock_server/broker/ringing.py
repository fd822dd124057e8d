"""The leader rings for queued builds: one message each in the broker's queue, no matter what became of earlier ones."""

import asyncio
import logging

from pock_server.broker.application import QUEUE as MESSAGES
from pock_server.broker.application import TASK, make_application
from pock_server.builds.queue import list_next
from pock_server.builds.service import QUEUE
from pock_server.runner.leader import Leader
from pock_server.services import Services

_EVERY_SECONDS = 20.0
_RETRY_SECONDS = 2.0
_PAUSE_SECONDS = 0.1
"""Builds that are requested one after the other are rung for together."""
_MOST = 1000
_log = logging.getLogger(__name__)


async def ring_forever(services: Services, leader: Leader) -> None:
    """Top the broker's queue up whenever a build was queued, and now and then; only while this process leads."""
    silent = False
    with services.hub.listen(QUEUE) as bell:
        while True:
            # Before anybody leads, the bell of a build may ring in vain: then it is looked again soon.
            wait = _EVERY_SECONDS if leader.led else _RETRY_SECONDS
            try:
                if leader.led:
                    told = await asyncio.to_thread(top_up, services)
                    if told:
                        _log.info("the broker was told of %d builds that wait", told)
                    if silent:
                        _log.info("the broker answers again")
                    silent = False
            except Exception as error:
                if not silent:
                    _log.error("builds wait, as the broker does not answer; it is tried again: %s", error)
                silent = True
            if not silent:
                await bell.wait(wait)
            await asyncio.sleep(_RETRY_SECONDS if silent else _PAUSE_SECONDS)


def top_up(services: Services) -> int:
    """Have as many messages wait in the broker as builds wait in the database, up to a thousand; says how many it sent.

    Raises what the broker's client raises. A message too many is harmless: its worker finds nothing to do.
    """
    with services.database.read() as session:
        queued = list_next(session, services.settings.builds_per_workspace, _MOST)
    if not queued:
        return 0
    application = make_application(services.settings)
    with application.connection_for_write() as connection:
        there: int = connection.default_channel.queue_declare(MESSAGES).message_count
        with application.amqp.Producer(connection.default_channel, auto_declare=False) as producer:
            for build_id in queued[there:]:
                application.send_task(TASK, args=[build_id], producer=producer, retry=False)
    return max(0, len(queued) - there)
