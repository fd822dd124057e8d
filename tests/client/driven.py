"""Lets one test speak to both clients: an async one is driven to its answers, so that it looks like the sync one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Iterator
from typing import Any

_VALUES = (str, int, float, bytes, list, tuple, dict, type(None))


class Driven:
    """Anything of `pock_client.asynchronous`: what it would be awaited for is there at once."""

    def __init__(self, inner: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._inner = inner
        self._loop = loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if callable(value):
            return lambda *arguments, **named: self._done(value(*arguments, **named))
        return value if isinstance(value, _VALUES) else Driven(value, self._loop)

    def _done(self, value: Any) -> Any:
        if inspect.iscoroutine(value):
            return self._loop.run_until_complete(value)
        return self._items(value) if isinstance(value, AsyncGenerator) else value

    def _items(self, items: AsyncGenerator[Any, None]) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._loop.run_until_complete(anext(items))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self._loop.run_until_complete(items.aclose())
