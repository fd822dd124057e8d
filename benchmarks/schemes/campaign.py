"""All runs that are asked for, in an order in which an early end leaves what can be compared, by several processes."""

from __future__ import annotations

import ctypes
import multiprocessing
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from benchmarks.tasks.models import MODELS, TASKS, Model
from benchmarks.tasks.task import Task

from .methods import AT_OWN, AT_PUBLISHED, RANDOM, random_name
from .published import PUBLISHED
from .running import STEPS, Bench, Means, OutOfTimeError, Scheme
from .store import Store

SHARES = (1 / 6, 1 / 3)
"""The parts that schemes may take of the memory that full takes beyond the head."""
RANDOMS = 20
"""Random schemes of each model and memory; each is run with one seed."""


@dataclass(frozen=True)
class Campaign:
    """What is compared.

    tasks    by name; None: all of each model
    methods  beside full; `random` stands for so many random schemes
    minutes  after which no run begins; what is done is kept"""

    models: tuple[str, ...] = tuple(MODELS)
    tasks: tuple[str, ...] | None = None
    methods: tuple[str, ...] = ()
    seeds: int = 5
    randoms: int = RANDOMS
    shares: tuple[float, ...] = SHARES
    steps: int = STEPS
    minutes: float | None = None

    def tasks_of(self, model: Model) -> tuple[Task, ...]:
        """The model's tasks, or those of them that are named."""
        return tuple(task for task in model.tasks if self.tasks is None or task.name in self.tasks)

    def jobs(self) -> Iterator[Job]:
        """One task of each model, then another of each."""
        for round_ in zip_longest(*(self.tasks_of(MODELS[key]) for key in self.models)):
            for key, task in zip(self.models, round_, strict=True):
                if task is not None:
                    yield Job(key, task.name)

    def schemes(self, job: Job, seed: int) -> Iterator[Scheme]:
        """What is run on a task's samples of one seed."""
        yield Scheme("full", 1.0)
        is_published = PUBLISHED.get(MODELS[job.model].name) is not None
        for name in AT_OWN:
            if name in self.methods and (is_published or name not in AT_PUBLISHED):
                yield Scheme(name, 1.0)
        for share in self.shares:
            yield from (Scheme(name, share) for name in self.methods if name not in (*AT_OWN, RANDOM))
        if RANDOM in self.methods:
            for share in self.shares:
                yield from (Scheme(random_name(one), share) for one in range(seed, self.randoms, self.seeds))


@dataclass(frozen=True)
class Job:
    """All schemes on a task's samples, seed by seed."""

    model: str
    task: str


def run(campaign: Campaign, store: Store, folder: Path, processes: int = 1) -> bool:
    """Make what the store lacks; whether all of it is there now. Says on standard error how far it is, and what
    failed."""
    deadline = float("inf") if campaign.minutes is None else time.monotonic() + 60 * campaign.minutes
    jobs = list(campaign.jobs())
    with tempfile.TemporaryDirectory(prefix="schemes-") as compiled:
        means = Means(store, folder, Path(compiled), deadline, campaign.steps)
        if processes == 1:
            worker = _Worker(campaign, means)
            done = [_told(number, len(jobs), job, worker.run(job)) for number, job in enumerate(jobs, 1)]
            worker.close()
            return all(done)
        return _shared(campaign, means, jobs, processes)


def _shared(campaign: Campaign, means: Means, jobs: Sequence[Job], processes: int) -> bool:
    """Processes that take the next job each when they are done with one. Forked: to import everything takes long."""
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(campaign, means))
    try:
        waiting: list[tuple[Job, Future[bool]]] = [(job, pool.submit(_run, job)) for job in jobs]
        done = [_told(number, len(jobs), job, one.result()) for number, (job, one) in enumerate(waiting, 1)]
    finally:
        pool.shutdown(cancel_futures=True)
    means.store.refresh()
    return all(done)


def _told(number: int, count: int, job: Job, done: bool) -> bool:
    if done:
        print(f"{number} of {count}: {job.model}, {job.task}", file=sys.stderr, flush=True)
    return done


class _Worker:
    """Runs jobs; the models that it came to stay open."""

    def __init__(self, campaign: Campaign, means: Means) -> None:
        self.campaign, self.means = campaign, means
        self._benches: dict[str, Bench] = {}

    def run(self, job: Job) -> bool:
        """Whether all of it was done. What fails is told, and does not end hours of other runs."""
        whole = True
        for seed in range(self.campaign.seeds):
            for scheme in self.campaign.schemes(job, seed):
                try:
                    self._one(job, scheme, seed)
                except OutOfTimeError:
                    return False
                except Exception:
                    print(f"{job.model}, {job.task}, {scheme.name} failed:", file=sys.stderr)
                    traceback.print_exc()
                    whole = False
        return whole

    def _one(self, job: Job, scheme: Scheme, seed: int) -> None:
        if time.monotonic() > self.means.deadline:
            raise OutOfTimeError
        bench = self._bench(job.model)
        began = time.monotonic()
        result = bench.run(scheme, TASKS[job.task], seed)
        if (seconds := time.monotonic() - began) > 1:
            said = "nothing fits" if result is None else f"{100 * result['accuracy']:.1f} %"
            about = f"  seed {seed}, {job.model}, {job.task}: {scheme.name}"
            print(f"{about}: {said}, {seconds:.0f} s", file=sys.stderr, flush=True)

    def _bench(self, key: str) -> Bench:
        if key not in self._benches:
            self._benches[key] = Bench(MODELS[key], self.means)
        return self._benches[key]

    def close(self) -> None:
        """Ends all sessions."""
        for bench in self._benches.values():
            bench.close()


_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG: a command that is killed leaves no process behind."""

_worker: _Worker | None = None
"""In each process of a pool."""


def _begin(campaign: Campaign, means: Means) -> None:
    global _worker
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, int(signal.SIGTERM), 0, 0, 0)
    _worker = _Worker(campaign, means)


def _run(job: Job) -> bool:
    assert _worker is not None
    return _worker.run(job)
