# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Sends requests and reads answers: retries, deadlines, bounds. Knows HTTP and problems, and no resource."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Protocol, TypeVar

import httpx

from pock_client.answers import Body, decode, refusal
from pock_client.calls import Call, Options, Query, headers, is_here, unreachable, warn_of_plain_text
from pock_client.credentials import Credentials
from pock_client.errors import Damaged, ServiceError, Unreachable
from pock_client.pausing import Stream, sleep
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

    def __init__(self, credentials: Credentials, options: Options, inner: httpx.BaseTransport | None = None) -> None:
        warn_of_plain_text(credentials.url)
        self.url = credentials.url
        self.patience = options.patience
        self.timeout = options.timeout
        self._http = httpx.Client(
            headers=headers(credentials),
            timeout=options.timeouts(),
            verify=options.trust(),
            transport=inner,
            trust_env=not is_here(credentials.url),  # a proxy is nothing for this machine's own services
            follow_redirects=False,
        )

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def json(self, call: Call, kind: type[T]) -> T:
        """The answer as a value of the type."""
        return decode(self.read(call), kind)

    def text(self, call: Call) -> str:
        """The answer as text."""
        return (self.read(call)).decode("utf-8", "replace")

    def read(self, call: Call) -> bytes:
        """The body of the answer, after as many attempts as it takes."""
        return (self._whole(call))[1]

    def head(self, call: Call) -> httpx.Headers:
        """The headers of the answer, after as many attempts as it takes."""
        return (self._whole(call))[0].headers

    def _whole(self, call: Call) -> tuple[httpx.Response, bytes]:
        attempts = Attempts(self.patience)
        while True:
            try:
                return self.once(call)
            except (ServiceError, Unreachable) as error:
                sleep(attempts.pause(error, call.repeatable))

    def once(self, call: Call) -> tuple[httpx.Response, bytes]:
        """One attempt: the answer and its body. What was read to its end leaves the connection to the next request."""
        with self.answer(call) as response:
            return response, self._body(response)

    @contextmanager
    def answer(self, call: Call) -> Iterator[httpx.Response]:
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
            response = self._http.send(request, stream=True)
            try:
                if not response.is_success:
                    raise refusal(response, self._body(response))
                yield response
            finally:
                response.close()
        except httpx.TransportError as error:
            raise unreachable(self.url, error) from error

    def pages(self, path: str, kind: type[Page[T]], query: Query) -> Stream[T]:
        """All items of a list, page by page."""
        cursor: str | None = None
        while True:
            whole = {"limit": _PAGE_ITEMS, **query, "cursor": cursor}
            page = self.json(Call("GET", path, whole), kind)
            yield from page.items
            if page.next_cursor is None:
                return
            if page.next_cursor == cursor:
                raise Damaged(f"the list {path} of the service leads back to where it was")
            cursor = page.next_cursor

    def first(self, path: str, kind: type[Page[T]], query: Query, fits: Callable[[T], bool]) -> T | None:
        """The first item of a list that fits, or None."""
        with closing(self.pages(path, kind, query)) as items:
            for item in items:
                if fits(item):
                    return item
        return None

    def _body(self, response: httpx.Response) -> bytes:
        body = Body(response)
        for chunk in response.iter_raw():
            body.add(chunk)
        return body.whole()
