"""Runs: work for devices, asked for, followed, waited for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict, Unpack

from msgspec import UNSET

from pock_client.asynchronous.blobs import Blobs
from pock_client.asynchronous.builds import Builds
from pock_client.asynchronous.files import Datasets
from pock_client.asynchronous.fleet import Devices
from pock_client.asynchronous.named import Named
from pock_client.asynchronous.streams import Subject, follow, watch
from pock_client.asynchronous.transport import Transport
from pock_client.calls import Call, part, sending
from pock_client.errors import PockClientError, RunCancelled, RunFailed
from pock_client.events import FINAL, Event
from pock_client.files import Progress
from pock_client.pausing import AsyncStream
from pock_client.references import Reference
from pock_client.schema import Entry, Run, RunIn, RunPage, Step, StepList


class RunOptions(TypedDict, total=False):
    """What a run may be told beside what it is of."""

    threads: int
    """Default: those of the build."""
    seed: int
    save_weights: bool
    """Keep the trained weights, for `client.runs.weights`."""
    deadline: int
    """Most seconds that the run may take."""
    queue_deadline: int
    """Most seconds that it may wait for the device."""


@dataclass(frozen=True)
class Sources:
    """Where the things are that a run is of."""

    builds: Builds
    datasets: Datasets
    devices: Devices
    blobs: Blobs


class Runs(Named[Run]):
    """`client.runs`."""

    words = "run"
    path = "/runs"
    kind = Run
    page = RunPage

    def __init__(self, transport: Transport, sources: Sources) -> None:
        super().__init__(transport)
        self._sources = sources

    async def create(
        self,
        *,
        build: Reference,
        device: Reference,
        dataset: Reference,
        steps: int,
        eval_dataset: Reference | None = None,
        entry: str = "train",
        **options: Unpack[RunOptions],
    ) -> Run:
        """Let a device run a build on a dataset. `entry` is "train", "eval" or "bench"; with `eval_dataset`, the device
        evaluates before and after."""
        datasets = self._sources.datasets
        body = RunIn(
            build_id=await self._sources.builds.id_of(build),
            device_id=await self._sources.devices.id_of(device),
            dataset_id=await datasets.id_of(dataset),
            steps=steps,
            eval_dataset_id=UNSET if eval_dataset is None else await datasets.id_of(eval_dataset),
            entry=Entry(entry),
            threads=options.get("threads") or UNSET,
            seed=options.get("seed") or UNSET,
            save_weights=options.get("save_weights") or UNSET,
            deadline_seconds=options.get("deadline") or UNSET,
            queue_deadline_seconds=options.get("queue_deadline") or UNSET,
        )
        return await self._transport.json(sending("POST", self.path, body, once=True), Run)

    async def cancel(self, ident: str) -> Run:
        """Cancel a run that is not over."""
        return await self._transport.json(sending("POST", f"{self.path}/{part(ident)}/cancel"), Run)

    async def steps(self, ident: str, after: int = -1) -> AsyncStream[Step]:
        """The steps of the run's present attempt after step number `after`, as far as they were reported."""
        while True:
            call = Call("GET", f"{self.path}/{part(ident)}/steps", {"after": after})
            items = (await self._transport.json(call, StepList)).items
            for step in items:
                yield step
            if not items or items[-1].step <= after:
                return
            after = items[-1].step

    def events(self, ident: str, after: int = 0) -> AsyncStream[Event]:
        """What happens, from the beginning or after the event of that number, each event once, until it is over; cut
        connections and restarts of the service do not end it."""
        return follow(self._transport, self._subject(ident), after)

    async def wait(
        self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None
    ) -> Run:
        """The run once it succeeded. Raises RunFailed, RunCancelled, or WaitTimeout after `timeout` seconds."""
        await watch(self._transport, self._subject(ident), on_event, timeout)
        return _succeeded(await self.get(ident))

    async def weights(self, run: str | Run, path: str | Path, progress: Progress | None = None) -> Path:
        """Write the weights that a run trained, as safetensors, to `path`, which is returned."""
        found = run if isinstance(run, Run) else await self.get(run)
        if found.weights_digest is None:
            raise PockClientError(f"run {found.id} has no weights: it did not succeed, or was not asked to save them")
        return await self._sources.blobs.download(found.weights_digest, path, progress)

    def _subject(self, ident: str) -> Subject:
        async def is_over() -> bool:
            return (await self.get(ident)).state in FINAL

        return Subject(f"{self.path}/{part(ident)}", f"run {ident}", is_over)


def _succeeded(run: Run) -> Run:
    """The run, if it is over and well."""
    if run.state == "succeeded":
        return run
    code, detail = (run.failure.code, run.failure.detail) if run.failure else (None, "")
    raise (RunCancelled if run.state == "cancelled" else RunFailed)(run.id, run.state, code, detail)
