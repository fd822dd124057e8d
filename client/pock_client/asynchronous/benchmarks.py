"""Benchmarks: builds measured on devices, compared, and watched over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict, Unpack

from msgspec import UNSET

from pock_client.asynchronous.followed import Followed
from pock_client.asynchronous.runs import Sources
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending, settling
from pock_client.events import Event
from pock_client.pausing import AsyncStream
from pock_client.references import Reference
from pock_client.schema import Benchmark, BenchmarkIn, BenchmarkPage, Comparison, Regression, RegressionPage


class BenchmarkOptions(TypedDict, total=False):
    """How a benchmark is made; what is left out is the service's choice."""

    steps: int
    """Of each repeat."""
    warmup_steps: int
    """Of each repeat, before those that count."""
    repeats: int
    """Processes; fewer than 6 are never stable."""
    cool_down: int
    """Most seconds between two repeats."""
    threads: int | None
    priority: int
    deadline: int | None
    """Most seconds of all of it."""
    baseline: str | None
    """The id of a benchmark to compare with."""


class Benchmarks(Followed[Benchmark]):
    """`client.benchmarks`."""

    words = "benchmark"
    path = "/benchmarks"
    kind = Benchmark
    page = BenchmarkPage

    def __init__(self, transport: Transport, sources: Sources) -> None:
        super().__init__(transport)
        self._sources = sources

    async def create(
        self,
        *,
        build: Reference,
        device: Reference,
        dataset: Reference | None = None,
        **options: Unpack[BenchmarkOptions],
    ) -> Benchmark:
        """Have a device measure a build, with made-up numbers where no dataset is given. Raises ServiceError with
        status 409 where the device's agent is too old for it."""
        body = await self.body(build=build, device=device, dataset=dataset, **options)
        return await self._transport.json(sending("POST", self.path, body, once=True), Benchmark)

    async def body(
        self,
        *,
        build: Reference,
        device: Reference,
        dataset: Reference | None = None,
        **options: Unpack[BenchmarkOptions],
    ) -> BenchmarkIn:
        """The same as the service is asked for it, for a schedule."""
        warmup, pause = options.get("warmup_steps"), options.get("cool_down")
        return BenchmarkIn(
            build_id=await self._sources.builds.id_of(build),
            device_id=await self._sources.devices.id_of(device),
            dataset_id=UNSET if dataset is None else await self._sources.datasets.id_of(dataset),
            steps=options.get("steps") or UNSET,
            warmup_steps=UNSET if warmup is None else warmup,
            repeats=options.get("repeats") or UNSET,
            cool_down_seconds=UNSET if pause is None else pause,
            threads=options.get("threads") or UNSET,
            priority=options.get("priority") or UNSET,
            deadline_seconds=options.get("deadline") or UNSET,
            baseline_id=options.get("baseline") or UNSET,
        )

    async def cancel(self, ident: str) -> Benchmark:
        """Cancel a benchmark that is not over, and its run."""
        return await self._transport.json(settling(self.path, ident, "cancel"), Benchmark)

    async def compare(self, ident: str, other: str) -> Comparison:
        """One benchmark beside another: how many times as slow, how surely, and whether on the same machine."""
        call = Call("GET", f"{self.path}/{part(ident)}/compare", {"with": other})
        return await self._transport.json(call, Comparison)

    async def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Benchmark:
        """The benchmark once it is over, well or not. Raises WaitTimeout after `timeout` seconds."""
        return await self.ended(ident, on_event, timeout)


class Regressions:
    """`client.regressions`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, **filters: str | None) -> AsyncStream[Regression]:
        """Steps that became slower, the last found first; `filters` are `model` (a name, which may hold * and ?) and
        `target`."""
        return self._transport.pages("/regressions", RegressionPage, filters)
