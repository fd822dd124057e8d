"""What is compiled once for everybody: a target's C library and runtime. A child of our own making does it, which no
user sent anything to; builds read what it left when it had ended, and nothing that a build makes gets there.

Below the folder of the compiler's cache:

zig/, service/objects/        what people at this machine, or a set-up, have compiled; a preparation begins with it
service/prepared/KEY/         what builds for one target read; it appears whole, and stays as it is
service/preparing/KEY, .lock  what becomes it, and the lock of the one process that is at it
"""

import asyncio
import fcntl
import hashlib
import logging
import os
import shutil
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pock_server.runner.hearing import Hearing
from pock_server.runner.process import OverLimit, attend, start
from pock_server.runner.workplace import Task, remove
from pock_server.sandbox.choice import Sandbox
from pock_server.sandbox.confinement import Den, Mechanism
from pock_server.sandbox.view import BASE, Place
from pock_server.settings import Settings

STAGE, WAIT = "prepare", "wait for the preparation"
_LONGEST_SECONDS = 900.0
"""A preparation takes seconds to minutes, and ends by then, be it one's own or another's that is waited for."""
_LOOK_SECONDS = 0.2
_KEPT_SECONDS = 14 * 86_400.0
_log = logging.getLogger(__name__)


async def prepare_target(
    settings: Settings, sandbox: Sandbox, task: Task, folder: Path, hearing: Hearing
) -> tuple[Place, ...]:
    """What a build of this task may read; prepares its target, unless that was done. `folder` is empty.

    It says what it waits for, and is no part of the time that the build may take. If it fails, the log says so, and the
    build goes on: it compiles for itself what is not there. One that is not confined has the compiler's own cache,
    which is prepared instead.
    """
    confined = sandbox.mechanism is not Mechanism.OFF
    service = settings.effective_compiler_cache_dir / "service"
    made = service / "prepared" / (_key(task) if confined else f"{_key(task)}-own")
    if made.is_dir():
        os.utime(made)
    else:

        def waits() -> None:
            hearing.log(
                f"another build prepares the C library and the runtime of {task.compiles_for}; this one waits for it"
            )
            hearing.progress(WAIT, 0, 1)

        try:
            async with asyncio.timeout(_LONGEST_SECONDS), _alone(service / "preparing" / made.name, waits) as draft:
                if not made.is_dir():  # while this waited for another process
                    hearing.log(f"preparing the C library and the runtime of {task.compiles_for}: once, up to a minute")
                    hearing.progress(STAGE, 0, 1)
                    await _prepare(settings, sandbox, task.compiles_for, folder, draft)
                    await asyncio.to_thread(_publish, draft, made)
                    hearing.progress(STAGE, 1, 1)
        except (OverLimit, OSError, _Failed) as error:
            hearing.log("that failed; this build compiles for itself what is missing")
            _log.warning("the target %s could not be prepared: %s", task.compiles_for, str(error) or "it took too long")
            return ()
    return (Place(str(made / "pockengine"), BASE),) if confined else ()


def _publish(draft: Path, made: Path) -> None:
    """Give what was prepared its name, and drop what nobody has built with for a long time: of older compilers."""
    made.parent.mkdir(exist_ok=True)
    draft.rename(made)
    for old in made.parent.iterdir():
        if old.is_dir() and old.stat().st_mtime < time.time() - _KEPT_SECONDS:
            old.rename(draft)
            remove(draft)


class _Failed(Exception):
    """The child's last words."""


def _key(task: Task) -> str:
    """Names what is prepared: by the target, the compiler and the installation of zig, as zig knows no other's."""
    try:
        zig = distribution("ziglang")
        place = f"{zig.version} {zig.locate_file('ziglang')}"
    except PackageNotFoundError:  # workers have a Python of their own
        place = "unknown"
    return hashlib.sha256(f"{task.compiler_version}\n{task.compiles_for}\n{place}".encode()).hexdigest()[:32]


@asynccontextmanager
async def _alone(draft: Path, waits: Callable[[], None]) -> AsyncIterator[Path]:
    """An empty folder, while no other process of this machine has it; gone at the end, unless it was given a name.

    `waits` is called, once, if another one has it now.
    """
    draft.parent.mkdir(parents=True, exist_ok=True)
    held = os.open(draft.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not _locked(held):
            waits()
        while not _locked(held):
            await asyncio.sleep(_LOOK_SECONDS)
        await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)  # of a process that was killed
        draft.mkdir(mode=0o755)
        try:
            yield draft
        finally:
            await asyncio.to_thread(shutil.rmtree, draft, ignore_errors=True)
    finally:
        os.close(held)


def _locked(held: int) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


async def _prepare(settings: Settings, sandbox: Sandbox, target: str, folder: Path, draft: Path) -> None:
    """Fill `draft` with what is to be read, in pockengine/zig and pockengine/objects. Raises `_Failed`, `OverLimit`,
    OSError."""
    (draft / "pockengine").mkdir()
    known = Place(str(settings.effective_compiler_cache_dir), BASE)
    den = Den(folder, cache=draft, shared=(known,), trusted=True)
    arguments = ("prepare", target) if sandbox.mechanism is Mechanism.OFF else ("prepare", target, BASE)
    told = Hearing()
    status = await attend(await start(settings, sandbox, den, *arguments), told)
    if status != 0:
        raise _Failed(" ".join(told.journal.lines[-3:]) or f"status {status}")
