"""The agent as a service of systemd: written, started, taken away again."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from pock_agent.disk.directory import StateDirectory
from pock_agent.disk.files import write_atomically
from pock_agent.errors import AgentError
from pock_agent.update.files import set_up

NAME = "pock-agent.service"
SYSTEM = Path("/etc/systemd/system")
PATIENCE = 60.0

_UNIT = """\
# Written by `pock-agent install`; `pock-agent install --remove` takes it away.
[Unit]
Description=PockEngine device agent
Wants=network-online.target
After=network-online.target time-sync.target

[Service]
ExecStart={command}
Restart=on-failure
RestartSec=30
# The service expelled this device: asking again changes nothing.
RestartPreventExitStatus=3
# The agent ends its jobs itself; what is left after this is killed.
KillMode=mixed
TimeoutStopSec=30
# Under memory pressure the model goes first, which the agent reports; then other programs; the agent last.
OOMScoreAdjust=-500
UMask=0077
{extra}
[Install]
WantedBy={wanted}
"""
_AS_ROOT = "ProtectHome=read-only\nProtectSystem=full\nPrivateTmp=yes\n"


def unit(state: Path, as_root: bool) -> str:
    """The text of the unit that runs this agent on a state directory."""
    command = " ".join(_quoted(word) for word in (*_program(state), "run", "--state-dir", str(state.absolute())))
    extra = _AS_ROOT + f"ReadWritePaths={_quoted('-' + str(state.absolute()))}\n" if as_root else ""
    text = _UNIT.format(command=command, extra=extra, wanted="multi-user.target" if as_root else "default.target")
    return text if as_root else text.replace("OOMScoreAdjust=-500", "OOMScoreAdjust=100")


def path_for(as_root: bool) -> Path:
    """Where systemd looks for it: the system's folder for root, the user's for anyone else."""
    if as_root:
        return SYSTEM / NAME
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "systemd" / "user" / NAME


def install(state: Path, path: Path, as_root: bool) -> list[str]:
    """Write the unit, then enable and start it. The lines that say what was done.

    Raises AgentError where systemd is not there or refuses; the unit is then left for a look."""
    control = _control(as_root)
    if _archive() is not None:
        set_up_files(state)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, unit(state, as_root).encode())
    path.chmod(0o644)
    _say(control, "daemon-reload")
    _say(control, "enable", "--now", NAME)
    log = "journalctl -u pock-agent -f" if as_root else "journalctl --user -u pock-agent -f"
    lines = [f"{path} is written, and the agent runs", f"its log: {log}"]
    if not as_root:
        lines.append("so that it runs while nobody is signed in: loginctl enable-linger")
    return lines


def remove(path: Path, as_root: bool) -> None:
    """Stop the agent and take the unit away; the state directory stays."""
    if not path.exists():
        raise AgentError(f"there is no {path}: the agent was not installed by this user")
    control = _control(as_root)
    _say(control, "disable", "--now", NAME)
    path.unlink()
    _say(control, "daemon-reload")


def _control(as_root: bool) -> list[str]:
    program = shutil.which("systemctl")
    if program is None:
        raise AgentError(
            "this system has no systemd; have its own init run `pock-agent run` at the start and again when it fails "
            "(`pock-agent install --print` shows the unit that says so)"
        )
    return [program] if as_root else [program, "--user"]


def _say(control: list[str], *words: str) -> None:
    try:
        done = subprocess.run(
            [*control, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AgentError(f"systemctl {' '.join(words)} failed: {error}") from error
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise AgentError(f"systemctl {' '.join(words)} failed: {reason[0]}")


def set_up_files(state: Path) -> list[str]:
    """Have this one file and its launcher where the agent keeps its state; the command that starts it. Raises
    AgentError where the agent is no one file."""
    archive = _archive()
    if archive is None:
        raise AgentError(
            "this agent is an installed package, which its own installer updates; use pock-agent.pyz instead"
        )
    set_up(StateDirectory(state), archive)
    return _program(state)


def _program(state: Path) -> list[str]:
    """What starts this agent: the launcher of the one file, or the installed package."""
    if _archive() is not None:
        return [sys.executable, str((StateDirectory(state).launching / "launcher.py").absolute())]
    return [sys.executable, "-m", "pock_agent"]


def _archive() -> Path | None:
    """The one file that this agent was started from, or None."""
    started = Path(sys.argv[0])
    return started.absolute() if started.suffix == ".pyz" else None


def _quoted(word: str) -> str:
    """A word as systemd reads it: in quotes, with its specifiers and variables doubled."""
    if any(ord(sign) < 32 for sign in word):
        raise AgentError(f"{word!r} cannot stand in a unit of systemd: rename the folder")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{escaped}"'
