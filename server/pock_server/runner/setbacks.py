"""What keeps a runner from its work and is no build's fault: a database or a store that is away, a disk that is full.

Nothing is decided while the database is away: what became of a build is written down when it is back.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from typing import TypeVar

from pock_server.blobs.faults import StoreFailed
from pock_server.http.problems import DATABASE_DOWN, Failure
from pock_server.runner.claims import LOST_RUNNER, Broken
from pock_server.runner.process import DISK_FULL
from pock_server.services import Services

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 20.0
_Made = TypeVar("_Made")
_log = logging.getLogger(__name__)


async def until_written(work: Callable[[], _Made]) -> _Made:
    """Do this in a thread, again and again while the database is away."""
    pause = _FIRST_PAUSE_SECONDS
    while True:
        try:
            return await asyncio.to_thread(work)
        except DATABASE_DOWN as error:
            _log.warning("the database does not answer a runner, which waits for it: %s", str(error).split("\n")[0])
        pause = await _rest(pause)


async def until_store_answers(services: Services) -> None:
    """Wait, and go on waiting while the store is away: a build that is begun before would only go back again."""
    pause = await _rest(_FIRST_PAUSE_SECONDS)
    while True:
        try:
            await asyncio.to_thread(services.blobs.check)
        except StoreFailed:
            pause = await _rest(pause)
        else:
            return


def explain(error: Exception) -> tuple[Broken, bool]:
    """The failure of a build that may not go back to the queue any more, and whether such an attempt counts.

    One that found database or store away does not. What else went wrong may have to do with this very build, as a model
    that is larger than the disk of this machine: after some attempts it ends.
    """
    if isinstance(error, StoreFailed):
        return Broken(Failure.STORE_FAILED.code, f"The object store does not do its work: {error}."), False
    if isinstance(error, DATABASE_DOWN):
        return Broken(Failure.NOT_READY.code, "The database could not be reached."), False
    if isinstance(error, OSError):
        return Broken(DISK_FULL, f"The machine that builds has trouble with its files: {error.strerror}."), True
    return Broken(LOST_RUNNER, "The runner failed; the service's log says why."), True


async def _rest(seconds: float) -> float:
    """Sleep, not at one moment with all other runners; how long to sleep the next time."""
    await asyncio.sleep(seconds * random.uniform(0.5, 1.0))
    return min(2 * seconds, _LONGEST_PAUSE_SECONDS)
