"""One process of the service: the HTTP server around the application, on a socket that is bound already."""

import ctypes
import gc
import platform
import resource
import socket
from collections.abc import Callable

import uvicorn

from pock_server.app import create_app
from pock_server.health.exposition import metrics_server
from pock_server.http.guard import Guard
from pock_server.http.protocol import protocol_class
from pock_server.hub import Hub
from pock_server.observing import logs
from pock_server.services import Services
from pock_server.settings import Settings

_COLLECT_AFTER = (10_000, 20, 10)
"""New objects, and collections of the younger generation, before each generation of garbage is collected."""
_ARENAS = 2
"""Heaps of the C library, which else opens one for each of many threads and returns little of any."""
_M_ARENA_MAX = -8  # of glibc's malloc.h
_OTHER_FILES = 1024
"""Database, store, pipes of builds: what a process opens beside its connections."""


class Server(uvicorn.Server):
    """Says when it listens, and ends streams and long polls as soon as it stops."""

    def __init__(self, config: uvicorn.Config, hub: Hub, listens: Callable[[], None]) -> None:
        super().__init__(config)
        self._hub = hub
        self._listens = listens

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        if self.started:
            self._listens()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self._hub.close()
        await super().shutdown(sockets)


def run_process(
    settings: Settings,
    listener: socket.socket,
    listens: Callable[[], None],
    hand_over: Callable[[Server], None] = lambda server: None,
) -> bool:
    """Serve until a signal ends it; False if it could not start.

    `listens` is called as soon as it does, `hand_over` before, with the server, for whoever wants to stop it. Raises
    `UnusableSetting` if the port of the metrics is taken.
    """
    logs.configure(settings)
    share_heaps()
    application = create_app(settings)
    services: Services = application.state.services
    allow_connections(settings.max_connections)
    config = uvicorn.Config(
        application,
        http=protocol_class(Guard(settings.connection_limits, services.metrics.refused)),
        ws="none",
        proxy_headers=False,  # the application itself does it, for trusted proxies alone
        log_config=None,  # its lines go where ours go
        access_log=False,
        timeout_graceful_shutdown=3,
        timeout_keep_alive=60,  # longer than the pause between two heartbeats, so that agents keep their connection
    )

    def began() -> None:
        spare_collections()
        listens()

    server = Server(config, services.hub, began)
    hand_over(server)
    with metrics_server(settings, services.metrics):
        server.run(sockets=[listener])
    return server.started


def share_heaps() -> None:
    """Let all threads share a few heaps, where the C library is glibc: with one for each, a process that serves SQLite
    grew by 10 MiB a minute. Must run before threads are there."""
    if "glibc" in platform.libc_ver():
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def spare_collections() -> None:
    """Keep the garbage collector from stopping every request for a third of a second, which it does when it looks
    through all modules and connections: what is there now stays for ever, and full collections become rare. A thousand
    waiting devices cause one a minute, which finds what outlived its request: two kilobytes of each poll."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)


def allow_connections(connections: int) -> None:
    """Let this process open a file for each connection, and some more, as far as the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
