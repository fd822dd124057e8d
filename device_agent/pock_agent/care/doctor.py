"""Looks at all that a job needs, changes nothing, and says what to do."""

from __future__ import annotations

import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from pock_agent import __version__
from pock_agent.care import machine, policies
from pock_agent.care.finding import Finding, Outcome, fail, ok, warn
from pock_agent.confinement.child import Child, Confinement, unprivileged_user
from pock_agent.connection.service import USER_AGENT
from pock_agent.connection.transport import HttpClient
from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.identity import Identity, load_key
from pock_agent.errors import AgentError, ServiceError
from pock_agent.place.choice import HERE, Wish, place_for
from pock_agent.place.place import Place
from pock_agent.place.this_machine import ThisMachine
from pock_agent.settings import MIB, Settings
from pock_agent.update.standing import Standing, entry
from pock_agent.values import JsonObject

SKEW_SECONDS, WORST_SKEW_SECONDS = 30.0, 600.0
"""Off by more than the second, the device's clock is not believed in a session."""
PROBE_SECONDS = 10.0


def examine(
    directory: StateDirectory, settings: Settings, root: Path = Path("/"), wish: Wish = HERE
) -> Iterator[Finding]:
    """Every check, one after the other. A check that fails in a way of its own is a finding, too."""
    identity, finding = _enrolment(directory)
    yield finding
    where = machine.Machine(None if identity is None else identity.target, directory.root, settings, root)
    if identity is not None:
        yield from _guarded("service", lambda: _service(identity, settings))
    if identity is not None and identity.adb is not None:
        yield from _guarded("phone", lambda: _phone(directory, settings, identity, where, wish))
    else:
        if identity is not None:
            yield from _guarded("policies", lambda: _policies(directory, settings, ThisMachine(root), root))
        yield from _guarded("machine", lambda: machine.examine(where))
        yield from _guarded("sandbox", lambda: iter([_sandbox()]))
    yield from _guarded("version", lambda: iter([_version(directory)]))
    process = directory.running_process()
    yield ok("agent", "not running" if process is None else f"running, process {process}")


def _policies(directory: StateDirectory, settings: Settings, place: Place, root: Path) -> Iterator[Finding]:
    yield policies.examine(policies.keeper_of(directory, settings, place, root))


def _phone(
    directory: StateDirectory, settings: Settings, identity: Identity, where: machine.Machine, wish: Wish
) -> Iterator[Finding]:
    from pock_agent.care import phone  # only those who have one pay for it
    from pock_agent.place.adb.phone import Phone

    place = place_for(wish, identity.adb, identity.device_id)
    assert isinstance(place, Phone)
    yield from _guarded("policies", lambda: _policies(directory, settings, place, where.root))
    yield from phone.examine(place, where)


def _version(directory: StateDirectory) -> Finding:
    """What runs, and what was given up."""
    launch = Standing(directory).read()
    present, ended = entry(launch, "current").get("version") or __version__, entry(launch, "ended")
    if entry(launch, "trial"):
        return ok("version", f"{present}, on trial since an update")
    if ended and ended.get("version") != present:
        return warn("version", f"{present}; {ended.get('version')} was given up: {ended.get('reason')}")
    return ok("version", f"{present}, which updates itself" if launch else f"{present}, updated as it was installed")


def as_json(found: list[Finding]) -> JsonObject:
    """What `--json` prints."""
    rows = [{**asdict(one), "outcome": one.outcome.value} for one in found]
    return {"ok": all(one.outcome is not Outcome.FAIL for one in found), "findings": rows}


def _guarded(item: str, check: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except (AgentError, OSError, ValueError) as error:
        yield fail(item, f"it cannot be examined: {error}")


def _enrolment(directory: StateDirectory) -> tuple[Identity | None, Finding]:
    try:
        identity = Identity.load(directory)
        load_key(directory.key)
    except (AgentError, OSError) as error:
        return None, fail("enrolment", str(error))
    if stat.S_IMODE(directory.root.stat().st_mode) & 0o077:
        says = f"other users of this device can look into {directory.root}: say chmod 700 {directory.root}"
        return identity, warn("enrolment", says)
    return identity, ok("enrolment", f"{identity.name!r} at {identity.url}, target {identity.target}")


def _service(identity: Identity, settings: Settings) -> Iterator[Finding]:
    started = time.monotonic()
    try:
        answer = HttpClient(identity.url, USER_AGENT).request(
            "GET", "/healthz", timeout=settings.request_timeout_seconds
        )
    except ServiceError as error:
        yield fail("service", f"{identity.url}: {error}")
        return
    except AgentError as error:
        yield fail("service", f"{error}: is this machine online, and does the service run?")
        return
    yield ok("service", f"{identity.url} answered in {1000 * (time.monotonic() - started):.0f} ms")
    yield _clock(None if answer.date is None else time.time() - answer.date)


def _clock(skew: float | None) -> Finding:
    if skew is None:
        return warn("clock", "the service's answer says no time: something between here and there takes it out")
    side = f"{abs(skew):.0f} s {'ahead of' if skew > 0 else 'behind'} the service's"
    if abs(skew) > WORST_SKEW_SECONDS:
        return fail("clock", f"{side}: set it with timedatectl set-ntp true, or work is refused as expired")
    if abs(skew) > SKEW_SECONDS:
        return warn("clock", f"{side}: turn its synchronisation on with timedatectl set-ntp true")
    return ok("clock", "as the service's")


def _sandbox() -> Finding:
    """Confine a program that does nothing as a job would be, and see what this system lets it do."""
    program = shutil.which("true")
    if program is None:
        return warn("sandbox", "there is no program 'true' here to try it on")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        user = unprivileged_user()
        folder.chmod(0o755 if user else 0o700)
        limits = Confinement(memory_bytes=64 * MIB, cpu_seconds=10, file_bytes=MIB)
        with Child([program], folder, folder, limits) as child:
            ended = child.watch(lambda line: None, lambda: None, time.monotonic() + PROBE_SECONDS)
    if ended.returncode:
        return fail(
            "sandbox", f"a confined program does not run: {ended.error_text or f'exit code {ended.returncode}'}"
        )
    lacking = []
    if ended.enforced.get("network"):
        lacking.append("a job can reach the network (allow user namespaces, or run the agent as root)")
    if user is None:
        lacking.append("a job runs as the agent's own user (run the agent as root)")
    if not ended.enforced.get("tied_to_agent"):
        lacking.append("a job may outlive the agent")
    return warn("sandbox", "; ".join(lacking)) if lacking else ok("sandbox", "no network, another user, limits")
