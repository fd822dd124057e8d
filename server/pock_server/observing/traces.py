"""Traces of requests, builds and runs. Off, which is the default, they cost nothing and import nothing."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from pock_server.observing.facts import Moved, Stage
from pock_server.observing.middleware import Served
from pock_server.settings import Settings, UnusableSetting


class Traces(Protocol):
    """What is told to whoever traces."""

    def request(self, served: Served) -> AbstractContextManager[object]:
        """A span for the request while the block lasts, in the trace of its `traceparent` header if it has one."""

    def stages(self, build_id: str, stages: Sequence[Stage]) -> None:
        """The stages of a build that is about to be over."""

    def moved(self, moved: Moved) -> None:
        """A span for a build or run that is over, in the trace of the request that asked for it."""

    def close(self) -> None:
        """Send what was not sent yet."""


class NoTraces:
    """Nobody wants to know."""

    def request(self, served: Served) -> AbstractContextManager[object]:
        """Nothing."""
        return nullcontext()

    def stages(self, build_id: str, stages: Sequence[Stage]) -> None:
        """Nothing."""

    def moved(self, moved: Moved) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def open_traces(settings: Settings) -> Traces:
    """As the settings say; raises `UnusableSetting` if they want traces and OpenTelemetry is not installed."""
    if not settings.otlp_endpoint:
        return NoTraces()
    try:
        from pock_server.observing.otlp import OtlpTraces
    except ImportError as error:
        raise UnusableSetting(
            f"POCK_OTLP_ENDPOINT needs OpenTelemetry: pip install 'pock-server[otel]' ({error})"
        ) from None
    return OtlpTraces(settings.otlp_endpoint, settings.trace_share)
