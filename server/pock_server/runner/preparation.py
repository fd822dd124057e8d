"""What is compiled once for everybody: a target's C library and runtime. A child of our own making does it, which no
user sent anything to; builds may read the result, and nothing that a build makes gets there."""

import hashlib
import logging
from pathlib import Path

from pock_server.runner.hearing import Hearing
from pock_server.runner.process import OverLimit, attend, start
from pock_server.runner.workplace import Task
from pock_server.sandbox.choice import Sandbox
from pock_server.sandbox.confinement import Den, Mechanism
from pock_server.sandbox.view import BASE, CACHE, Place
from pock_server.settings import Settings

STAGE = "prepare"
_ZIG, _OBJECTS = "zig", "service/objects"
_log = logging.getLogger(__name__)


def shared_places(settings: Settings) -> tuple[Place, ...]:
    """What every build may read."""
    cache = settings.effective_compiler_cache_dir
    found = {f"{BASE}/zig": cache / _ZIG, f"{BASE}/objects": cache / _OBJECTS}
    return tuple(Place(str(path), inside) for inside, path in found.items() if path.is_dir())


async def prepare_target(settings: Settings, sandbox: Sandbox, task: Task, folder: Path, hearing: Hearing) -> None:
    """Prepare a task's target, unless that was done; `folder` is empty. It says what it waits for. If it fails, the log
    says so, and the build goes on: it compiles for itself what is not there."""
    cache = settings.effective_compiler_cache_dir
    key = hashlib.sha256(f"{task.compiler_version}\n{task.target}".encode()).hexdigest()[:32]
    mark = cache / "service" / "prepared" / key
    if mark.exists() and (cache / _ZIG).is_dir():
        return
    hearing.log(f"preparing the C library and the runtime of {task.target}: once, up to a minute")
    hearing.progress(STAGE, 0, 1)
    mark.parent.mkdir(parents=True, exist_ok=True)
    told = Hearing()
    try:
        status = await _prepare(settings, sandbox, task.target, folder, told)
    except OverLimit as error:
        status = error.code
    if status == 0:
        mark.touch()
        hearing.progress(STAGE, 1, 1)
    else:
        hearing.log("that failed; this build compiles for itself what is missing")
        _log.warning("the target %s could not be prepared: %s", task.target, " ".join(told.journal.lines[-3:]))


async def _prepare(settings: Settings, sandbox: Sandbox, target: str, folder: Path, hearing: Hearing) -> int:
    cache = settings.effective_compiler_cache_dir
    if sandbox.mechanism is Mechanism.OFF:
        return await attend(
            await start(settings, sandbox, Den(folder), "prepare", target, str(cache / "service")), hearing
        )
    inside = f"{CACHE}/pockengine"
    (folder / "cache" / "pockengine").mkdir(parents=True)
    den = Den(folder, shared=(Place(str(cache), inside, writable=True),), trusted=True)
    return await attend(await start(settings, sandbox, den, "prepare", target, f"{inside}/service"), hearing)
