"""The gate: plain ASGI in front of the whole application, cheap checks first."""

from contextlib import AsyncExitStack
from dataclasses import dataclass

from fastapi.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pock_server.auth.service import Caller
from pock_server.gate.credentials import CALLER, GoodCredentials, identify
from pock_server.gate.doors import Door, Way, way_of
from pock_server.gate.rates import Rate, Rates, too_many
from pock_server.http.bodies import Budget, replay, whole_body
from pock_server.http.guard import origin
from pock_server.http.problems import DATABASE_DOWN, Failure, Problem, database_down, problem_response
from pock_server.observing.context import tell
from pock_server.services import Services
from pock_server.settings import Settings

_BODIES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_STRANGERS_SHARE = 16
"""Bodies of those who have proved nothing yet get this part of the memory for bodies."""


@dataclass(frozen=True)
class _Limits:
    """How often whom may ask."""

    address: Rates
    failures: Rates
    key: Rates
    device: Rates


def _limits(settings: Settings) -> _Limits:
    return _Limits(
        address=Rates(Rate(settings.address_rate, settings.address_burst)),
        failures=Rates(Rate(settings.failure_rate, settings.failure_burst)),
        key=Rates(Rate(settings.key_rate, settings.key_burst)),
        device=Rates(Rate(settings.device_rate, settings.device_burst)),
    )


class GateMiddleware:
    """Lets a request in, or answers it with a problem before anything was read or done for it."""

    def __init__(self, app: ASGIApp, services: Services) -> None:
        self._app = app
        self._services = services
        self._limits = _limits(services.settings)
        self._good = GoodCredentials()
        self._budget = Budget(services.settings.max_buffered_bytes)
        self._strangers_budget = Budget(services.settings.max_buffered_bytes // _STRANGERS_SHARE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, way = Request(scope, receive), way_of(scope["method"], scope["path"])
        if scope["path"] == "/healthz":
            await self._app(scope, receive, send)
            return
        source = origin(request.client.host) if request.client else "unknown"

        async def send_and_count(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                self._limits.failures.count(source)
            await send(message)

        async with AsyncExitStack() as stack:
            try:
                await self._admit(request, way, source)
                if scope["method"] in _BODIES and way.door is not Door.OPEN and not way.streams:
                    receive = replay(await self._read(stack, request, way), receive)
            except Problem as problem:
                answer = problem_response(problem.failure, problem.detail, headers=problem.headers)
                await answer(scope, receive, send_and_count)
                return
            except DATABASE_DOWN as error:
                await database_down(error)(scope, receive, send)
                return
            except ClientDisconnect:
                return
            await self._app(scope, receive, send_and_count)

    async def _admit(self, request: Request, way: Way, source: str) -> None:
        limits = self._limits
        limits.address.demand(source, "An address")
        if way.door is Door.OPEN:
            return
        wait = limits.failures.wait(source)
        if wait > 0 and request not in self._good:
            raise too_many("An address with wrong credentials", limits.failures.rate, wait)
        if way.door is not Door.STRANGER:
            caller = await run_in_threadpool(identify, self._services, way.door, request)
            request.scope.setdefault("state", {})[CALLER] = caller
            self._good.add(request)
            if isinstance(caller, Caller):
                tell(principal=caller.key_id)
                limits.key.demand(caller.key_id, "An API key")
            else:
                tell(principal=caller.device_id)
                limits.device.demand(caller.device_id, "A device")
        encoding = request.headers.get("Content-Encoding", "identity")
        if encoding.lower() != "identity":
            detail = f"Bodies with Content-Encoding {encoding[:40]!r} are not accepted; send it as it is."
            raise Problem(Failure.ENCODING_REFUSED, detail, {"Accept-Encoding": "identity"})

    async def _read(self, stack: AsyncExitStack, request: Request, way: Way) -> bytes:
        settings = self._services.settings
        if way.door is Door.STRANGER:
            return await stack.enter_async_context(
                whole_body(request, settings.max_stranger_bytes, self._strangers_budget)
            )
        largest = min(way.largest or settings.max_json_bytes, settings.max_json_bytes)
        return await stack.enter_async_context(whole_body(request, largest, self._budget))
