"""Finds how children can be confined on this machine, by doing it once, and says what came of it."""

import json
import logging
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pock_server.sandbox.confinement import Den, Mechanism, command_line, prepare
from pock_server.sandbox.limits import Limits, make_limits
from pock_server.sandbox.memory import make_group
from pock_server.settings import Settings

_log = logging.getLogger(__name__)
_SECONDS = 60.0
_OWN_PROCESSES = 5


class SandboxUnavailable(Exception):
    """Children cannot be confined as the settings ask; the message says what to do."""


@dataclass(frozen=True)
class Protection:
    """One thing that confinement is made of: whether it is there, and in words."""

    name: str
    enforced: bool
    detail: str


@dataclass(frozen=True)
class Sandbox:
    """How this process confines children, and what was found when one was tried."""

    mechanism: Mechanism
    limits: Limits
    protections: tuple[Protection, ...]

    def __str__(self) -> str:
        """One line for logs."""
        if self.mechanism is Mechanism.OFF:
            return "sandbox: off"
        said = [item.detail if item.enforced else f"NOT {item.name}: {item.detail}" for item in self.protections]
        return f"sandbox: {self.mechanism}, {', '.join(said)}"


@lru_cache(maxsize=8)
def choose_sandbox(settings: Settings) -> Sandbox:
    """The best that the settings allow and that works here; takes a moment, once. Raises `SandboxUnavailable`."""
    limits = make_limits(settings)
    off = Sandbox(Mechanism.OFF, limits, (Protection("sandbox", False, "builds run unconfined"),))
    if settings.sandbox == "off":
        return off
    wanted = [Mechanism.BUBBLEWRAP, Mechanism.NAMESPACES] if settings.sandbox == "auto" else [settings.sandbox]
    complaints = []
    for mechanism in map(Mechanism, wanted):
        try:
            return Sandbox(mechanism, limits, _look_around(settings, mechanism, limits))
        except SandboxUnavailable as error:
            complaints.append(f"{mechanism}: {error}")
    why = "; ".join(complaints)
    if settings.sandbox == "auto" and os.geteuid() != 0:
        _log.warning("builds run with this service's own rights, as they cannot be confined here (%s)", why)
        return off
    raise SandboxUnavailable(
        f"Builds of users' models cannot be confined on this machine ({why}). Install bubblewrap, or allow this user to"
        " make namespaces; POCK_SANDBOX=off builds without a sandbox, which is for models that you trust."
    )


def _look_around(settings: Settings, mechanism: Mechanism, limits: Limits) -> tuple[Protection, ...]:
    """Confine a process that does nothing, and read its report."""
    with tempfile.TemporaryDirectory(prefix="pock-sandbox-") as folder:
        den = Den(Path(folder))
        prepare(den, settings, mechanism)
        nothing = (sys.executable, "-I", "-S", "-c", "")
        hidden = (str(settings.data_dir.resolve()), "/etc/shadow", "/etc/passwd", "/proc/1/root/etc/shadow")
        arguments, environment = command_line(mechanism, settings, den, limits, nothing, hidden)
        try:
            done = subprocess.run(arguments, env=environment, capture_output=True, timeout=_SECONDS, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SandboxUnavailable(str(error)) from None
        if done.returncode != 0:
            raise SandboxUnavailable(
                done.stderr.decode("utf-8", "replace").strip()[-300:] or f"status {done.returncode}"
            )
        return _protections(json.loads(done.stdout), limits)


def _protections(found: dict[str, Any], limits: Limits) -> tuple[Protection, ...]:
    """What a confined process found itself confined to, item by item."""
    group = make_group(limits.memory)
    if group is not None:
        group.close()
    size = f"{limits.memory / 2**30:.1f} GiB of memory"
    return (
        Protection("unprivileged user", found["user"] != 0, f"user {found['user']}"),
        Protection("no capabilities", found["capabilities"] == 0, f"capabilities {found['capabilities']:x}"),
        Protection("no new privileges", found["no_new_privileges"], "no new privileges"),
        Protection("no network", found["interfaces"] == ["lo"], "no network"),
        Protection("own processes", found["processes"] <= _OWN_PROCESSES, "own processes"),
        Protection("own files", not found["visible"], ", ".join(found["visible"]) or "own files"),
        Protection(
            "memory", True, f"{size} by {f'control group v{group.version}' if group else 'limit of each and sampling'}"
        ),
        Protection("disk", True, f"{limits.disk / 2**30:.1f} GiB of disk"),
        Protection("processes", True, f"{limits.processes} processes"),
    )
