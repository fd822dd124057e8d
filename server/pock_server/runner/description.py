"""Asks a child what the compiler is and can do."""

import asyncio

from pock_server.runner import process
from pock_server.runner.hearing import Description, Hearing, TalksTooMuch
from pock_server.services import Services

_SECONDS = 300.0


class Undescribed(Exception):
    """The child said nothing useful; the message is what it did say."""


async def ask_compiler(services: Services) -> Description:
    """The compiler's description, from a child of its own. Raises `Undescribed`."""
    hearing = Hearing()
    child = await process.start(services.settings, "describe")
    try:
        async with asyncio.timeout(_SECONDS):
            await process.attend(child, hearing)
    except TalksTooMuch:
        raise Undescribed("it printed without end") from None
    except TimeoutError:
        raise Undescribed(f"it took more than {_SECONDS:g} s") from None
    if hearing.compiler is None:
        raise Undescribed("\n".join([*hearing.journal.lines, f"it ended with status {child.returncode}"]))
    return hearing.compiler
