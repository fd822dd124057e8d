"""What differs between sync and async and is no syntax: how to sleep, how to do what blocks, and names of types."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

AsyncStream: TypeAlias = AsyncGenerator[T, None]
Stream: TypeAlias = Generator[T, None, None]
"""Items as they come; whoever does not take all of them closes it."""
AsyncQuestion: TypeAlias = Callable[[], Awaitable[bool]]
Question: TypeAlias = Callable[[], bool]


async def sleep_async(seconds: float) -> None:
    """Let others work for so long."""
    await asyncio.sleep(seconds)


def sleep(seconds: float) -> None:
    """Do nothing for so long."""
    time.sleep(seconds)


async def in_thread(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What `work` gives, done in a thread: it reads and writes files."""
    return await asyncio.to_thread(work, *arguments, **named)


def directly(work: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R:
    """What `work` gives, done here."""
    return work(*arguments, **named)
