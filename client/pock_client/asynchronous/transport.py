"""Sends requests and reads answers: retries, deadlines, bounds. Knows HTTP and problems, and no resource."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Protocol, TypeVar

import httpx

from pock_client.answers import Body, decode, refusal
from pock_client.calls import Call, Options, Query, headers, is_here, unreachable, warn_of_plain_text
from pock_client.credentials import Credentials
from pock_client.errors import Damaged, ServiceError, Unreachable
from pock_client.pausing import AsyncStream, sleep_async
from pock_client.retry import Attempts

T = TypeVar("T")
Item = TypeVar("Item", covariant=True)
_PAGE_ITEMS = 200


class Page(Protocol[Item]):
    """One page of a list."""

    @property
    def items(self) -> Sequence[Item]:
        """Of this page."""

    @property
    def next_cursor(self) -> str | None:
        """Leads to the next page; None on the last one."""


class Transport:
    """Connections to one service with one key. The key goes nowhere else: redirects are not followed."""

    def __init__(
        self, credentials: Credentials, options: Options, inner: httpx.AsyncBaseTransport | None = None
    ) -> None:
        warn_of_plain_text(credentials.url)
        self.url = credentials.url
        self.patience = options.patience
        self.timeout = options.timeout
        self._http = httpx.AsyncClient(
            headers=headers(credentials),
            timeout=options.timeouts(),
            verify=options.trust(),
            transport=inner,
            trust_env=not is_here(credentials.url),  # a proxy is nothing for this machine's own services
            follow_redirects=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def json(self, call: Call, kind: type[T]) -> T:
        """The answer as a value of the type."""
        return decode(await self.read(call), kind)

    async def text(self, call: Call) -> str:
        """The answer as text."""
        return (await self.read(call)).decode("utf-8", "replace")

    async def read(self, call: Call) -> bytes:
        """The body of the answer, after as many attempts as it takes."""
        return (await self._whole(call))[1]

    async def head(self, call: Call) -> httpx.Headers:
        """The headers of the answer, after as many attempts as it takes."""
        return (await self._whole(call))[0].headers

    async def _whole(self, call: Call) -> tuple[httpx.Response, bytes]:
        attempts = Attempts(self.patience)
        while True:
            try:
                return await self.once(call)
            except (ServiceError, Unreachable) as error:
                await sleep_async(attempts.pause(error, call.repeatable))

    async def once(self, call: Call) -> tuple[httpx.Response, bytes]:
        """One attempt: the answer and its body. What was read to its end leaves the connection to the next request."""
        async with self.answer(call) as response:
            return response, await self._body(response)

    @asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[httpx.Response]:
        """One attempt: the answer, whose body has not been read. Raises ServiceError if it is a refusal."""
        timeout = self._http.timeout
        if call.seconds is not None:
            timeout = httpx.Timeout(call.seconds, connect=min(call.seconds, timeout.connect or call.seconds))
        request = self._http.build_request(
            call.method,
            f"{self.url}/v1{call.path}",
            params=call.parameters(),
            content=call.content,
            headers=call.headers,
            timeout=timeout,
        )
        try:
            response = await self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise refusal(response, await self._body(response))
                yield response
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    async def pages(self, path: str, kind: type[Page[T]], query: Query) -> AsyncStream[T]:
        """All items of a list, page by page."""
        cursor: str | None = None
        while True:
            whole = {"limit": _PAGE_ITEMS, **query, "cursor": cursor}
            page = await self.json(Call("GET", path, whole), kind)
            for item in page.items:
                yield item
            if page.next_cursor is None:
                return
            if page.next_cursor == cursor:
                raise Damaged(f"the list {path} of the service leads back to where it was")
            cursor = page.next_cursor

    async def first(self, path: str, kind: type[Page[T]], query: Query, fits: Callable[[T], bool]) -> T | None:
        """The first item of a list that fits, or None."""
        async with aclosing(self.pages(path, kind, query)) as items:
            async for item in items:
                if fits(item):
                    return item
        return None

    async def _body(self, response: httpx.Response) -> bytes:
        body = Body(response)
        async for chunk in response.aiter_raw():
            body.add(chunk)
        return body.whole()
