"""Asks a child what the compiler is and can do."""

import asyncio

from pock_server.runner.hearing import Description, Hearing, TalksTooMuch
from pock_server.runner.process import OverLimit, attend, start
from pock_server.runner.workplace import workplace
from pock_server.sandbox.choice import choose_sandbox
from pock_server.sandbox.confinement import Den
from pock_server.services import Services

_SECONDS = 300.0


class Undescribed(Exception):
    """The child said nothing useful; the message is what it did say."""


async def ask_compiler(services: Services) -> Description:
    """The compiler's description, from a child of its own. Raises `Undescribed`."""
    hearing = Hearing()
    settings = services.settings
    sandbox = await asyncio.to_thread(choose_sandbox, settings)
    status = 0
    try:
        with workplace(settings.effective_work_dir) as folder:
            async with asyncio.timeout(_SECONDS):
                status = await attend(await start(settings, sandbox, Den(folder), "describe"), hearing)
    except TalksTooMuch:
        raise Undescribed("it printed without end") from None
    except OverLimit as error:
        raise Undescribed(str(error)) from None
    except TimeoutError:
        raise Undescribed(f"it took more than {_SECONDS:g} s") from None
    if hearing.compiler is None:
        raise Undescribed("\n".join([*hearing.journal.lines, f"it ended with status {status}"]))
    return hearing.compiler
