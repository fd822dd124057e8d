"""Runs one build or search: fetches its inputs, has a child work on them, stores what came out.

The child sees a folder and has nothing else; whatever it says or leaves is another's word (`hearing`, `harvest`).
"""

import asyncio
import logging
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar

from pock_server.blobs.care import quarantine
from pock_server.blobs.faults import BlobFault, StoreFailed
from pock_server.blobs.repository import damaged
from pock_server.http.problems import Problem
from pock_server.kernels.entries import make_readable
from pock_server.kernels.shelf import Shelf
from pock_server.runner.claims import Broken, Claim, Outcome, still_held, write_down
from pock_server.runner.harvest import NoArtifact, harvest
from pock_server.runner.hearing import Hearing, TalksTooMuch
from pock_server.runner.preparation import prepare_target
from pock_server.runner.process import OUT_OF_MEMORY, OverLimit, attend, start
from pock_server.runner.setbacks import until_written
from pock_server.runner.workplace import Task, Unusable, furnish, load_task, workplace, workspace_cache
from pock_server.sandbox.choice import Sandbox, choose_sandbox
from pock_server.sandbox.confinement import Den, Mechanism, shown
from pock_server.sandbox.view import CACHE, KERNELS, Place
from pock_server.searches.harvest import harvest_search
from pock_server.services import Services

_TICK_SECONDS = 0.3
_CRASHED = 2001
_TIMEOUT = 10001
_Made = TypeVar("_Made")
_log = logging.getLogger(__name__)


class Child:
    """What serves one claim."""

    def __init__(self, services: Services, claim: Claim) -> None:
        self._services = services
        self._claim = claim
        self._hearing = Hearing()
        self._hearing.log(f"build {claim.build_id}, attempt {claim.attempt}, request {claim.request_id or '-'}")
        self._taken = False

    async def run(self) -> Outcome | None:
        """The outcome, or None if the build was taken away (cancelled) and the worker was stopped."""
        work = asyncio.create_task(self._work())
        keeper = asyncio.create_task(self._keep(work))
        try:
            await asyncio.wait({work})
        finally:
            keeper.cancel()
            work.cancel()
            await asyncio.wait({work, keeper})
            self._count()
        if self._taken or not await self._write_down_last():
            return None
        return work.result()

    async def _work(self) -> Outcome:
        settings = self._services.settings
        sandbox = await asyncio.to_thread(choose_sandbox, settings)
        async with AsyncExitStack() as stack:
            place = await stack.enter_async_context(_apart(workplace(settings.effective_work_dir)))
            first = await stack.enter_async_context(_apart(workplace(settings.effective_work_dir)))
            lent = await stack.enter_async_context(_apart(workplace(settings.effective_work_dir)))
            cache = await stack.enter_async_context(_apart(workspace_cache(settings, self._claim.workspace_id)))
            try:
                task = await asyncio.to_thread(load_task, self._services, self._claim)
                self._hearing.log(str(sandbox))
                prepared = await prepare_target(settings, sandbox, task, first, self._hearing)
                den = Den(place, cache, (*prepared, *await self._lent(sandbox, cache, lent)))
                try:
                    async with asyncio.timeout(task.seconds):
                        return await self._build(task, den, sandbox)
                except TimeoutError:
                    return Broken(_TIMEOUT, f"The {task.noun} took more than {task.seconds:g} s.")
            except Unusable as error:
                return error.outcome
            except BlobFault as fault:
                await asyncio.to_thread(quarantine, self._services, fault)
                return _broken(damaged(fault.digest))
            except Problem as problem:  # quarantined before
                return _broken(problem)
            except OverLimit as error:
                return Broken(error.code, str(error))
            except NoArtifact as error:
                return Broken(_CRASHED, f"The build process {error}.")
            except TalksTooMuch:
                return Broken(_CRASHED, "The build process printed without end.")

    async def _build(self, task: Task, den: Den, sandbox: Sandbox) -> Outcome:
        settings, store, heard = self._services.settings, self._services.blobs, self._hearing
        bases = [place.inside for place in den.shared]
        cache = str(den.cache) if sandbox.mechanism is Mechanism.OFF else CACHE
        heard.clock.begin("fetch")
        await _to_its_end(lambda: furnish(den.build, task, store, settings.build_disk_bytes, bases, cache))
        child = await start(settings, sandbox, den, "build", shown(den.build, den, sandbox.mechanism))
        status = await attend(child, heard)
        if heard.failed is not None and heard.failed.code == OUT_OF_MEMORY:
            return Broken(OUT_OF_MEMORY, str(child.out_of_memory()))
        if heard.failed is not None:
            return heard.failed
        if status != 0 or heard.summary is None:
            return _explain_end(status)
        summary, scratch = heard.summary, den.folder / "stored"
        scratch.mkdir()
        heard.clock.begin("store")
        await self._share(sandbox, den)
        if task.search is not None:
            return await _to_its_end(lambda: harvest_search(den.build, scratch, summary, store))
        return await _to_its_end(lambda: harvest(den.build, scratch, summary, store, settings.max_artifact_bytes))

    def _shelf(self, sandbox: Sandbox) -> Shelf | None:
        """Where other machines' workers find what this workspace's builds compile. One that is not confined has the
        compiler's own cache, in which everybody's is."""
        settings = self._services.settings
        if sandbox.mechanism is Mechanism.OFF or not settings.share_kernels:
            return None
        return Shelf(self._services.blobs, self._claim.workspace_id, settings.build_cache_bytes)

    async def _lent(self, sandbox: Sandbox, cache: Path, folder: Path) -> tuple[Place, ...]:
        """What other machines' workers compiled for the workspace, as far as its cache here lacks it."""
        shelf, lent = self._shelf(sandbox), folder / "kernels"
        if shelf is None:
            return ()
        lent.mkdir()
        try:
            count = await _to_its_end(lambda: shelf.lend(cache, lent))
        except (StoreFailed, OSError) as error:
            _log.warning("compiled kernels could not be fetched: %s", error)
            return ()
        self._hearing.log(f"{count} compiled kernels come from other workers")
        await asyncio.to_thread(make_readable, lent)
        return (Place(str(lent), KERNELS),) if count else ()

    async def _share(self, sandbox: Sandbox, den: Den) -> None:
        shelf, cache = self._shelf(sandbox), den.cache
        if shelf is None or cache is None:
            return
        try:
            await _to_its_end(lambda: shelf.take(cache))
        except (StoreFailed, OSError) as error:  # the next build brings them
            _log.warning("compiled kernels could not be stored: %s", error)

    def _count(self) -> None:
        """The stages that were, and the kernels of a build that succeeded."""
        heard, metrics = self._hearing, self._services.metrics
        heard.clock.begin(None)
        self._services.traces.stages(self._claim.build_id, heard.clock.done)
        for stage in heard.clock.done:
            metrics.stage(stage.name, stage.ended - stage.began)
        kernels, hits = ((heard.summary or {}).get(name) for name in ("kernels", "cache_hits"))
        if isinstance(kernels, int) and isinstance(hits, int):
            metrics.kernels(kernels - hits, hits)
        tuning = (heard.summary or {}).get("tuning")
        if isinstance(tuning, dict):
            known, left = (tuning.get(name) for name in ("hits", "by_model"))
            if isinstance(known, int) and isinstance(left, int):
                metrics.workloads(known, left)

    async def _keep(self, work: asyncio.Task[Outcome]) -> None:
        """Write down what was heard, renew the lease and notice cancellation, until the work ends."""
        seconds = self._services.settings.build_lease_seconds / 3
        renew_at = time.monotonic() + seconds
        with self._services.hub.listen(f"build:{self._claim.build_id}") as bell:
            while not work.done():
                rang, now = await bell.wait(_TICK_SECONDS), time.monotonic()
                held = True
                try:
                    if self._hearing.journal or now >= renew_at:
                        held = await self._write_down()
                        renew_at = now + seconds
                    elif rang:
                        held = await asyncio.to_thread(still_held, self._services, self._claim)
                except Exception:
                    # The build goes on: if the database stays away for longer than the lease, another runner has it.
                    _log.exception("what build %s says could not be written down; trying again", self._claim.build_id)
                if not held:
                    self._taken = True
                    work.cancel()
                    return
                await asyncio.sleep(_TICK_SECONDS / 3)  # our own announcements ring our bell

    async def _write_down(self) -> bool:
        journal = self._hearing.take_journal()
        try:
            return await asyncio.to_thread(write_down, self._services, self._claim, journal)
        except Exception:
            self._hearing.put_back(journal)
            raise

    async def _write_down_last(self) -> bool:
        journal = self._hearing.take_journal()
        return await until_written(lambda: write_down(self._services, self._claim, journal))


@asynccontextmanager
async def _apart(folder: AbstractContextManager[Path]) -> AsyncIterator[Path]:
    """A folder that is made and removed in a thread: that may take a while."""
    path = await asyncio.to_thread(folder.__enter__)
    try:
        yield path
    finally:
        await _to_its_end(lambda: folder.__exit__(None, None, None))


async def _to_its_end(work: Callable[[], _Made]) -> _Made:
    """Do this in a thread. It is waited for even when it is not wanted any more, as it uses folders that go then."""
    task = asyncio.create_task(asyncio.to_thread(work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise


def _broken(problem: Problem) -> Broken:
    return Broken(problem.failure.code, problem.detail)


def _explain_end(status: int) -> Broken:
    if status == -signal.SIGKILL:
        return Broken(OUT_OF_MEMORY, "The build process was killed, most likely for lack of memory.")
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return Broken(_CRASHED, f"The build process ended with {how} and without a result; its log says more.")
