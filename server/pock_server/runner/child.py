"""Runs one build in a child process and listens to it: JSON lines on its stdout, log lines on its stderr."""

import asyncio
import contextlib
import json
import os
import signal
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable

from pock_server.runner.claims import Broken, Built, Claim, Journal, still_held, write_down
from pock_server.services import Services

_TICK_SECONDS = 0.3
_LINE_BYTES = 64 << 20
_LOG_LINE_CHARACTERS = 4000
_LOG_CHARACTERS = 1 << 20
_CRASHED = 2001
_OUT_OF_MEMORY = 2003
_TIMEOUT = 10001


class Child:
    """A worker process that serves one claim."""

    def __init__(self, services: Services, claim: Claim) -> None:
        self._services = services
        self._claim = claim
        self._journal = Journal()
        self._logged = 0
        self._outcome: Built | Broken | None = None
        self._stopped = False

    async def run(self) -> Built | Broken | None:
        """The outcome, or None if the build was taken away (cancelled) and the worker was stopped."""
        process = await start_worker(self._services, self._claim.build_id)
        assert process.stdout is not None and process.stderr is not None
        readers = [
            asyncio.create_task(self._read(process.stdout, self._hear)),
            asyncio.create_task(self._read(process.stderr, self._log)),
        ]
        try:
            await self._watch(process)
            await asyncio.gather(*readers)
        finally:
            await stop_worker(process)
            for reader in readers:
                reader.cancel()
        if self._stopped or not await self._write_down():
            return None
        return self._outcome or _explain_end(process.returncode or 0)

    async def _watch(self, process: Process) -> None:
        """Write down what was heard, renew the lease and notice cancellation, until the process ends."""
        settings = self._services.settings
        ends_at = time.monotonic() + settings.build_timeout_seconds
        renew_at = time.monotonic() + settings.build_lease_seconds / 3
        waiter = asyncio.create_task(process.wait())
        try:
            with self._services.hub.listen(f"build:{self._claim.build_id}") as bell:
                while not waiter.done():
                    ring = asyncio.create_task(bell.wait(_TICK_SECONDS))
                    await asyncio.wait({waiter, ring}, return_when=asyncio.FIRST_COMPLETED)
                    ring.cancel()
                    now = time.monotonic()
                    if now >= ends_at:
                        self._outcome = Broken(
                            _TIMEOUT, f"The build took more than {settings.build_timeout_seconds:g} s."
                        )
                        return
                    if self._journal or now >= renew_at:
                        held = await self._write_down()
                        renew_at = now + settings.build_lease_seconds / 3
                    else:
                        held = await asyncio.to_thread(still_held, self._services, self._claim)
                    if not held:
                        self._stopped = True
                        return
                    await asyncio.sleep(_TICK_SECONDS / 3)  # our own announcements ring our bell
        finally:
            if self._stopped or self._outcome is not None:
                await stop_worker(process)
            waiter.cancel()

    async def _write_down(self) -> bool:
        journal, self._journal = self._journal, Journal()
        return await asyncio.to_thread(write_down, self._services, self._claim, journal)

    async def _read(self, stream: asyncio.StreamReader, take: Callable[[str], None]) -> None:
        async for line in stream:
            take(line.decode("utf-8", "replace").rstrip().replace("\0", ""))

    def _hear(self, line: str) -> None:
        try:
            message = json.loads(line)
            event = message["event"]
            if event == "progress":
                self._note_progress(str(message["stage"]), int(message["done"]), int(message["total"]))
            elif event == "log":
                self._log(str(message["text"]))
            elif event == "failed":
                self._outcome = Broken(int(message["code"]), str(message["detail"]))
            elif event == "artifact":
                self._outcome = Built(**message["artifact"])
            else:
                raise ValueError(event)
        except (ValueError, KeyError, TypeError):
            # Something in the compiler printed to stdout: keep it where a person will look for it.
            self._log(line)

    def _note_progress(self, stage: str, done: int, total: int) -> None:
        fraction = min(1.0, max(0.0, done / total)) if total > 0 else 0.0
        self._journal.stages[stage] = {"stage": stage, "done": done, "total": total, "fraction": fraction}

    def _log(self, text: str) -> None:
        for line in text.splitlines():
            if self._logged > _LOG_CHARACTERS:
                return
            line = line[:_LOG_LINE_CHARACTERS]
            self._logged += len(line) + 1
            self._journal.lines.append(line if self._logged <= _LOG_CHARACTERS else "(the rest of the log was dropped)")


async def start_worker(services: Services, task: str) -> Process:
    """A worker process for a build id (or `describe`), in a group of its own so that its compilers die with it."""
    return await asyncio.create_subprocess_exec(
        *services.settings.worker_command,
        task,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
        env={**os.environ, **services.settings.environment()},
        start_new_session=True,
        limit=_LINE_BYTES,
    )


async def stop_worker(process: Process) -> None:
    """End the worker and everything it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _explain_end(status: int) -> Broken:
    if status == -signal.SIGKILL:
        return Broken(_OUT_OF_MEMORY, "The build process was killed, most likely for lack of memory.")
    how = f"signal {-status}" if status < 0 else f"exit status {status}"
    return Broken(_CRASHED, f"The build process ended with {how} and without a result; its log says more.")
