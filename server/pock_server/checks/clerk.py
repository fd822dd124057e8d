"""One child that has a model in memory and answers questions on it, one at a time, until it is let go.

Whatever it says is another's word: the line is bounded, and what is in it is checked by who asked.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault
from pock_server.blobs.repository import Blobs, damaged
from pock_server.http.problems import Failure, Problem
from pock_server.models.repository import Models
from pock_server.runner.hearing import TalksTooMuch
from pock_server.runner.process import OverLimit, attend, start
from pock_server.runner.workplace import MODEL, Input, Unusable, fetch, inputs_of, model_files, workplace
from pock_server.sandbox.choice import choose_sandbox
from pock_server.sandbox.confinement import Den, shown
from pock_server.services import Services

_SECONDS = 60.0
"""A question that takes longer is not for answering at once."""
_LINE_BYTES = 16 << 20
_LOG_LINES = 20
_LARGEST_BESIDE = 16 << 20
"""Bytes of a file beside the model that is fetched: losses are; weights, which no answer needs, may be larger."""
_log = logging.getLogger(__name__)

Gone = Callable[[], Awaitable[bool]]
"""Whether nobody waits for the answer any more."""


class Left(Exception):
    """Who asked did not wait for the answer."""


class Refusal(Exception):
    """The child's answer is that there is none; `line` of the recipe's text is why."""

    def __init__(self, code: int, detail: str, line: int | None) -> None:
        super().__init__(detail)
        self.code, self.detail, self.line = code, detail, line


class _Heard:
    """What the child says: the answer that is waited for, and its last words."""

    line_bytes = _LINE_BYTES
    total_bytes = float("inf")

    def __init__(self) -> None:
        self.words: deque[str] = deque(maxlen=_LOG_LINES)
        self.answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def line(self, text: str) -> None:
        """Take a line of stdout: one that nobody waits for is of no use."""
        if not self.answer.done():
            self.answer.set_result(text)

    def log(self, text: str) -> None:
        """Take a line of stderr."""
        self.words.append(text[:1000])


class Clerk:
    """The child of one model; started by the first question, and again where it ended."""

    def __init__(self, services: Services, workspace_id: str, model_id: str) -> None:
        self._services, self._workspace_id, self._model_id = services, workspace_id, model_id
        self._turn = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._number = 0
        self.waiting = 0
        """How many questions are asked at this moment."""

    async def ask(self, question: dict[str, Any], gone: Gone) -> dict[str, Any]:
        """The answer. Raises `Refusal`, `Left`, `Problem`."""
        self.waiting += 1
        try:
            async with self._turn:
                if await gone():
                    raise Left
                try:
                    return await self._ask(question)
                except BaseException as error:
                    if not isinstance(error, Refusal):
                        await self._close()  # in the middle of an answer it is of no use for the next question
                    raise
        finally:
            self.waiting -= 1

    async def close(self) -> None:
        """Let the child go."""
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        if self._stack is not None:
            stack, self._stack = self._stack, None
            await stack.aclose()

    async def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        if self._stack is None or self._attending.done():
            await self._close()
            await self._open()
        self._number += 1
        heard = self._heard
        heard.answer = asyncio.get_running_loop().create_future()
        stdin = self._child.process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps({**question, "number": self._number, "name": self._name}).encode() + b"\n")
            await stdin.drain()
        except ConnectionError:
            _log.debug("a child that answers questions has closed its input")
        either: set[asyncio.Future[Any]] = {heard.answer, self._attending}
        await asyncio.wait(either, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if heard.answer.done():
            return await asyncio.to_thread(_read, heard.answer.result(), self._number)
        if self._attending.done():
            raise self._end()
        detail = (
            f"That took more than {_SECONDS:g} s, so it cannot be told at once; a build takes the time that it needs."
        )
        raise Problem(Failure.CHECK_TIMEOUT, detail)

    async def _open(self) -> None:
        """Start the child on a copy of the model's files. Raises `Problem`."""
        settings = self._services.settings
        try:
            self._name, inputs = await asyncio.to_thread(self._inputs)
            sandbox = await asyncio.to_thread(choose_sandbox, settings)
            async with AsyncExitStack() as stack:
                folder = await stack.enter_async_context(_apart(settings.effective_work_dir))
                den = Den(folder)
                limit = settings.build_disk_bytes
                await asyncio.to_thread(fetch, den.build, inputs, self._services.blobs, limit)
                place = shown(den.build, den, sandbox.mechanism)
                self._child = await start(settings, sandbox, den, "answer", place, asked=True)
                self._heard = _Heard()
                self._attending = asyncio.create_task(attend(self._child, self._heard))
                stack.push_async_callback(_cancelled, self._attending)
                self._stack = stack.pop_all()
        except Unusable as error:
            raise Problem(Failure.BAD_DATA, error.outcome.detail) from None
        except BlobFault as fault:
            await asyncio.to_thread(quarantine, self._services, fault)
            raise damaged(fault.digest) from None

    def _inputs(self) -> tuple[str, tuple[Input, ...]]:
        with self._services.database.read() as session:
            model = Models(session, self._workspace_id).require(self._model_id)
            inputs = inputs_of(Blobs(session, self._workspace_id), model_files(model))
        return model.name, tuple(one for one in inputs if one.path == MODEL or one.size <= _LARGEST_BESIDE)

    def _end(self) -> Problem:
        """Why the child ended before it had answered."""
        error = None if self._attending.cancelled() else self._attending.exception()
        if isinstance(error, OverLimit):
            return Problem(Failure.CHECK_TOO_LARGE, str(error))
        words = "\n".join(self._heard.words) or "(it said nothing)"
        _log.warning("a child that answers questions on model %s ended: %s\n%s", self._model_id, error or "", words)
        if isinstance(error, TalksTooMuch):
            return Problem(Failure.CHECK_FAILED, "The compiler printed without end while it looked at the model.")
        return Problem(
            Failure.CHECK_FAILED, "The compiler ended while it looked at the model; the service's log says how."
        )


@asynccontextmanager
async def _apart(root: Path) -> AsyncIterator[Path]:
    """A workplace, made and removed in a thread."""
    context = workplace(root)
    folder = await asyncio.to_thread(context.__enter__)
    try:
        yield folder
    finally:
        await asyncio.to_thread(context.__exit__, None, None, None)


async def _cancelled(task: asyncio.Task[int]) -> None:
    """End the child."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()


def _read(text: str, number: int) -> dict[str, Any]:
    """The content of an answer. Raises `Refusal`, `Problem`."""
    try:
        said = json.loads(text)
        if said["number"] != number:
            raise ValueError("another question's answer")
        if said["event"] == "refused":
            line = said["line"]
            refusal = Refusal(int(said["code"]), str(said["detail"])[:4000], None if line is None else int(line))
        else:
            content = said["content"]
            if not isinstance(content, dict):
                raise TypeError("not an object")
            return content
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Problem(Failure.CHECK_FAILED, "The compiler gave an answer that cannot be read.") from None
    raise refusal
