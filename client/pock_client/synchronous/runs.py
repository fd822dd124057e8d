# Generated from pock_client/asynchronous by `python -m client.generate`.
"""Runs: work for devices, asked for, followed, waited for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Required, TypedDict, Unpack

from msgspec import UNSET, UnsetType

from pock_client.calls import Call, part, sending, settling
from pock_client.errors import PockClientError, RunCancelled, RunFailed
from pock_client.events import Event
from pock_client.files import Progress
from pock_client.pausing import Stream
from pock_client.references import Reference
from pock_client.schema import After, Entry, FailureClass, HeldShare, Run, RunIn, RunPage, Step, StepList, WeightsForm
from pock_client.synchronous.builds import Builds
from pock_client.synchronous.files import Datasets
from pock_client.synchronous.fleet import Devices
from pock_client.synchronous.followed import Followed
from pock_client.synchronous.transport import Transport
from pock_client.synchronous.weights import Weights


class HeldOutOptions(TypedDict, total=False):
    """What a device holds out of its data."""

    share: Required[float]
    """Of each class, between 0 and 1."""
    seed: int
    """Draws the samples; the run's own does not."""
    every: int
    """Steps between evaluations; default: after each epoch."""
    patience: int
    """Stop after so many evaluations without a better one, and keep the best weights; default: go on to the end."""


class RunOptions(TypedDict, total=False):
    """What a run may be told beside what it is of."""

    threads: int
    """Default: those of the build."""
    seed: int
    save_weights: bool
    """Bring the trained weights back, for `client.runs.weights`."""
    profile: bool
    """Time each kernel, too: `report.train.kernels`. Steps take a little longer."""
    weights_form: str
    """As what they come: "delta" (the default; from agents that can, only what changed) or "safetensors", whole."""
    held_out: HeldOutOptions
    """A share of the data that is not trained on but evaluated, such as {"share": 0.2, "patience": 3}."""
    weights_of: Reference
    """A run that trained the weights to begin with, or a file of weights by its digest."""
    deadline: int
    """Most seconds that the run may take."""
    queue_deadline: int
    """Most seconds that it may wait for the device."""
    after_build: Reference
    """Wait for this build, which may be the run's own."""
    after_run: str
    """Wait for the run of this id, or its last try."""
    retries: Mapping[str, int]
    """How often to try again, by class of failure; default: {"transient": 3}."""
    retry_delay: float
    """Seconds before the first retry; each further one waits twice as long."""
    priority: int


@dataclass(frozen=True)
class Sources:
    """Where the things are that a run is of."""

    builds: Builds
    datasets: Datasets
    devices: Devices
    weights: Weights


class Runs(Followed[Run]):
    """`client.runs`."""

    words = "run"
    path = "/runs"
    kind = Run
    page = RunPage

    def __init__(self, transport: Transport, sources: Sources) -> None:
        super().__init__(transport)
        self._sources = sources

    def create(
        self,
        *,
        build: Reference,
        device: Reference,
        steps: int,
        dataset: Reference | None = None,
        eval_dataset: Reference | None = None,
        entry: str = "train",
        **options: Unpack[RunOptions],
    ) -> Run:
        """Let a device run a build on a dataset. `entry` is "train", "eval" or "bench"; with `eval_dataset`, the device
        evaluates before and after. "bench" needs no dataset. "local:NAME" is what the device itself keeps as NAME."""
        dataset_id, dataset_name = self._sources.datasets.meant(dataset)
        eval_id, eval_name = self._sources.datasets.meant(eval_dataset)
        retries, delay = options.get("retries"), options.get("retry_delay")
        body = RunIn(
            build_id=self._sources.builds.id_of(build),
            device_id=self._sources.devices.id_of(device),
            dataset_id=dataset_id,
            dataset_name=dataset_name,
            steps=steps,
            eval_dataset_id=eval_id,
            eval_dataset_name=eval_name,
            entry=Entry(entry),
            threads=options.get("threads") or UNSET,
            seed=options.get("seed") or UNSET,
            save_weights=options.get("save_weights") or UNSET,
            profile=options.get("profile") or UNSET,
            held_out=HeldShare(**options["held_out"]) if "held_out" in options else UNSET,
            weights_form=WeightsForm(options.get("weights_form") or "delta") if options.get("save_weights") else UNSET,
            weights_of=UNSET if options.get("weights_of") is None else self._origin(options["weights_of"]),
            deadline_seconds=options.get("deadline") or UNSET,
            queue_deadline_seconds=options.get("queue_deadline") or UNSET,
            priority=options.get("priority") or UNSET,
            after=self._after(options),
            retries=UNSET if retries is None else {FailureClass(kind): count for kind, count in retries.items()},
            retry_delay_seconds=UNSET if delay is None else delay,
        )
        return self._transport.json(sending("POST", self.path, body, once=True), Run)

    def _after(self, options: RunOptions) -> After | UnsetType:
        if "after_build" in options:
            return After(build_id=self._sources.builds.id_of(options["after_build"]))
        return After(run_id=options["after_run"]) if "after_run" in options else UNSET

    def cancel(self, ident: str) -> Run:
        """Cancel a run that is not over."""
        return self._transport.json(settling(self.path, ident, "cancel"), Run)

    def steps(self, ident: str, after: int = -1) -> Stream[Step]:
        """The steps of the run's present attempt after step number `after`, as far as they were reported."""
        while True:
            call = Call("GET", f"{self.path}/{part(ident)}/steps", {"after": after})
            items = (self._transport.json(call, StepList)).items
            yield from items
            if not items or items[-1].step <= after:
                return
            after = items[-1].step

    def log(self, ident: str) -> str:
        """What happened to the run, a line each: its states and pauses, what its device began, evaluated and saved."""
        return self._transport.text(Call("GET", f"{self.path}/{part(ident)}/log"))

    def wait(self, ident: str, on_event: Callable[[Event], object] | None = None, timeout: float | None = None) -> Run:
        """The run, or its last try, once it succeeded. Raises RunFailed, RunCancelled, or WaitTimeout after `timeout`
        seconds."""
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if ends is None else ends - time.monotonic()
            run = self.ended(ident, on_event, left)
            if run.retried_by is None:
                return _succeeded(run)
            ident = run.retried_by

    def last_try(self, ident: str) -> Run:
        """The run, or, if it failed and is tried again, the newest of its tries."""
        run = self.get(ident)
        while run.retried_by is not None:
            run = self.get(run.retried_by)
        return run

    def weights(self, run: str | Run, path: str | Path, progress: Progress | None = None) -> Path:
        """Write the weights that a run trained, all of them, as safetensors, to `path`, which is returned. Where they
        came as a delta, the artifact's weights are fetched, too."""
        found, digest = self._trained(run)
        if found.weights_form == WeightsForm.delta:
            return self._sources.weights.restore(found.build_id, digest, Path(path), progress)
        return self._sources.weights.download(digest, Path(path), progress)

    def delta(self, run: str | Run, path: str | Path, progress: Progress | None = None) -> Path:
        """Write what a run changed of its artifact's weights, as it came from the device, to `path`."""
        found, digest = self._trained(run)
        if found.weights_form != WeightsForm.delta:
            raise PockClientError(f"the weights of run {found.id} came whole: there is no delta")
        return self._sources.weights.download(digest, Path(path), progress)

    def _trained(self, run: str | Run) -> tuple[Run, str]:
        found = run if isinstance(run, Run) else self.get(run)
        if found.weights_digest is None:
            raise PockClientError(f"run {found.id} has no weights: it did not succeed, or was not asked to save them")
        return found, found.weights_digest

    def _origin(self, reference: Reference) -> str:
        """The id of a run, or a digest as it is given."""
        is_digest = isinstance(reference, str) and len(reference) == 64
        return str(reference) if is_digest else self.id_of(reference)


def _succeeded(run: Run) -> Run:
    """The run, if it is over and well."""
    if run.state == "succeeded":
        return run
    code, detail = (run.failure.code, run.failure.detail) if run.failure else (None, "")
    raise (RunCancelled if run.state == "cancelled" else RunFailed)(run.id, run.state, code, detail)
