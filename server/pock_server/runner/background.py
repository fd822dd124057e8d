"""The tasks that live as long as the server: the sweeper and, embedded, the runner."""

import asyncio
import logging
from types import TracebackType

from pock_server.blobs.collect import collect
from pock_server.blobs.scrub import check_next
from pock_server.builds.service import QUEUE
from pock_server.db.bells import listen_forever
from pock_server.devices.fleet import RESOLUTION
from pock_server.http.problems import DATABASE_DOWN
from pock_server.hub import DUTIES_TOPIC
from pock_server.observing.context import about
from pock_server.runner.child import Child
from pock_server.runner.claims import Claim, claim_next, finish, give_back, put_off
from pock_server.runner.description import Undescribed, ask_compiler
from pock_server.runner.duties import DUTIES, fulfil
from pock_server.runner.leader import Leader
from pock_server.runner.rest import Rest
from pock_server.runner.retention import drop_old
from pock_server.runner.setbacks import explain, until_store_answers, until_written
from pock_server.runner.sweeper import sweep_all
from pock_server.runner.workplace import drop_abandoned
from pock_server.sandbox.choice import choose_sandbox
from pock_server.services import Services
from pock_server.webhooks.delivering import deliver_due
from pock_server.webhooks.service import WEBHOOKS_TOPIC

_LOOK_SECONDS = 1.0
_RETRY_SECONDS = 20.0
_FIRST_COLLECTION_SECONDS = 600.0
_SCRUB_PAUSE_SECONDS = 60.0
_log = logging.getLogger(__name__)


class Background:
    """Starts the tasks on entry and ends them, giving builds back, on exit."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> None:
        """Start."""
        self._tasks.append(asyncio.create_task(listen_forever(self._services.settings, self._services.hub)))
        leader = Leader(self._services.settings)
        self._tasks.append(asyncio.create_task(_sweep_forever(self._services, leader)))
        self._tasks.append(asyncio.create_task(_do_duties_forever(self._services, leader)))
        self._tasks.append(asyncio.create_task(_deliver_forever(self._services, leader)))
        self._tasks.append(asyncio.create_task(_scrub_forever(self._services, leader)))
        self._tasks.append(asyncio.create_task(_collect_forever(self._services, leader)))
        self._tasks.append(asyncio.create_task(_write_sightings_forever(self._services)))
        if self._services.settings.runner == "celery":
            from pock_server.broker.ringing import ring_forever  # who has no broker need not load Celery

            self._tasks.append(asyncio.create_task(ring_forever(self._services, leader)))
        if self._services.settings.runner == "inprocess":
            await asyncio.to_thread(drop_abandoned, self._services.settings.effective_work_dir)
            sandbox = await asyncio.to_thread(choose_sandbox, self._services.settings)
            _log.info("builds run in a %s", sandbox)
            self._tasks.append(asyncio.create_task(describe_compiler(self._services)))
            for _ in range(self._services.settings.parallel_builds):
                self._tasks.append(asyncio.create_task(_build_forever(self._services)))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._services.hub.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._services.fleet.write_down)


async def _sweep_forever(services: Services, leader: Leader) -> None:
    rest = Rest(services)
    try:
        while True:
            try:
                with services.metrics.loop("sweeper"):
                    leads = await asyncio.to_thread(leader.leads)
                    services.metrics.lead(leads)
                    if not rest.needed(leader.answered) and leads:
                        await asyncio.to_thread(sweep_all, services)
            except DATABASE_DOWN as error:
                _log.warning("the sweeper cannot reach the database; it tries again: %s", str(error).split("\n")[0])
            except Exception:
                _log.exception("the sweeper failed; it tries again")
            await asyncio.sleep(services.settings.sweep_seconds)
    finally:
        await asyncio.to_thread(leader.resign)


async def _do_duties_forever(services: Services, leader: Leader) -> None:
    with services.hub.listen(DUTIES_TOPIC) as bell:
        while True:
            try:
                if leader.led:
                    with services.metrics.loop("duties"):
                        await asyncio.to_thread(fulfil, services, DUTIES)
            except DATABASE_DOWN as error:
                _log.warning("longer works wait for the database: %s", str(error).split("\n")[0])
            except Exception:
                _log.exception("longer works did not go on; it is tried again")
            await bell.wait(_LOOK_SECONDS)


async def _deliver_forever(services: Services, leader: Leader) -> None:
    """A task of its own: an address that answers slowly must not hold up the duties."""
    with services.hub.listen(WEBHOOKS_TOPIC) as bell:
        while True:
            sent = 0
            try:
                if leader.led:
                    with services.metrics.loop("webhooks"):
                        sent = await deliver_due(services)
            except DATABASE_DOWN as error:
                _log.warning("webhooks wait for the database: %s", str(error).split("\n")[0])
            except Exception:
                _log.exception("webhooks were not sent; it is tried again")
            if not sent:
                await bell.wait(_LOOK_SECONDS)


async def _scrub_forever(services: Services, leader: Leader) -> None:
    while services.settings.scrub_days:
        try:
            checked = leader.led and await check_next(services)
        except Exception:
            _log.exception("stored blobs could not be checked; it is tried again")
            checked = False
        if not checked:
            await asyncio.sleep(_SCRUB_PAUSE_SECONDS)


async def _collect_forever(services: Services, leader: Leader) -> None:
    await asyncio.sleep(_FIRST_COLLECTION_SECONDS)
    while services.settings.collect_hours:
        try:
            if leader.led:
                dropped = await asyncio.to_thread(drop_old, services)
                found = await asyncio.to_thread(collect, services)
                _log.info("old data was dropped: %s; unused blobs were collected: %s", dropped, found)
        except Exception:
            _log.exception("old data and unused blobs could not be removed; it is tried again")
        await asyncio.sleep(services.settings.collect_hours * 3600)


async def _write_sightings_forever(services: Services) -> None:
    while True:
        await asyncio.sleep(RESOLUTION.total_seconds())
        try:
            with services.metrics.loop("sightings"):
                await asyncio.to_thread(services.fleet.write_down)
        except Exception:
            _log.exception("sightings of devices were not written")


async def describe_compiler(services: Services) -> None:
    """Have a worker say what the compiler can do; again until it succeeds."""
    while True:
        try:
            found = await ask_compiler(services)
            await asyncio.to_thread(services.compiler.store, found.version, found.targets)
            return
        except Undescribed as error:
            _log.error("the worker could not describe the compiler:\n%s", error)
        except DATABASE_DOWN as error:
            _log.warning("what the compiler is cannot be written down: %s", str(error).split("\n")[0])
        except Exception:  # such as a full disk: without a description no build is accepted, so it is tried again
            _log.exception("the worker could not be asked what the compiler is")
        await asyncio.sleep(_RETRY_SECONDS)


async def _build_forever(services: Services) -> None:
    with services.hub.listen(QUEUE) as bell:
        while True:
            try:
                claim = await asyncio.to_thread(claim_next, services)
                if claim is None:
                    await bell.wait(services.hub.patience(_LOOK_SECONDS))
                else:
                    await build(services, claim)
            except Exception:
                _log.exception("the runner failed; it goes on")
                await asyncio.sleep(_LOOK_SECONDS)


async def build(services: Services, claim: Claim) -> None:
    """Serve one claim to its end; gives the build back when cancelled, or when something keeps it from being built."""
    with about(claim.request_id, build_id=claim.build_id):
        try:
            outcome = await Child(services, claim).run()
        except asyncio.CancelledError:
            await asyncio.to_thread(give_back, services, claim)
            raise
        except Exception as error:
            await _put_off(services, claim, error)
        else:
            if outcome is not None:
                await until_written(lambda: finish(services, claim, outcome))


async def _put_off(services: Services, claim: Claim, error: Exception) -> None:
    why, counted = explain(error)
    _log.warning("this build goes back to the queue: %s", why.detail, exc_info=error if counted else None)
    await until_written(lambda: put_off(services, claim, why, counted))
    await until_store_answers(services)
