"""Starts the agent's present file, and returns to the one before where a new one does not do.

`pock-agent install` writes this file beside the agent's files, and no update ever changes it: it is what a broken agent
cannot break. So it imports nothing of the agent. What it knows is `launch.json`, which is replaced whole:

    current, previous   {"file": "SHA256.pyz", "version": …}; previous may be null
    trial               null, or of a new file: starts, max_starts, check_in_seconds, checked_in, rollout_id
    ended               how the last trial ended, if badly; the agent tells the service

Without a trial it becomes the agent. During one it stays beside it: it counts each start before, kills a file that does
not check in in time, and starts the one before after too many. The agent ends a trial by taking it away.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any, NoReturn

AGAIN = 75
"""Exit code of an agent that wants to be started anew: another file is the present one."""
EXPELLED = 3
"""Exit code of an agent that its service no longer accepts."""
PAUSE = 1.0
LOOK = 0.2
LAUNCHER, SUPERVISED = "POCK_AGENT_LAUNCHER", "POCK_AGENT_SUPERVISED"
"""Variables that tell the agent who started it, and whether that one stays beside it."""
_DIE_WITH_PARENT = 1

Launch = dict[str, Any]


class Launcher:
    """One start of the agent, or several during a trial."""

    def __init__(self, home: str, arguments: list[str]) -> None:
        self.home, self.arguments = home, arguments
        self.child, self.stopped = 0, False

    def run(self) -> int:
        """The exit code of the agent; without a trial this process becomes the agent instead."""
        while True:
            launch = self.load()
            path = self.usable(launch.get("current"))
            trial = launch.get("trial")
            try:
                if trial is None:
                    return self.become(path or self.substitute(launch))
                if path is None or trial["starts"] >= trial["max_starts"]:
                    why = "its file is damaged" if path is None else "it was started too often without lasting"
                    self.roll_back(launch, why)
                    continue
                code = self.attempt(launch, path)
            except OSError as error:  # a full disk: the agent of before makes room, and the trial goes on another time
                say(f"{self.place('launch.json')} cannot be written: {error}")
                return self.become(self.usable(launch.get("previous")) or path)
            if code is not None:
                return code

    def load(self) -> Launch:
        """What `launch.json` says; nothing if it is damaged."""
        try:
            with open(self.place("launch.json"), "rb") as file:
                launch = json.loads(file.read().decode())
            if isinstance(launch, dict) and isinstance(launch.get("trial"), (dict, type(None))):
                return launch
            reason = "it is no object"
        except (OSError, ValueError) as error:
            reason = str(error)
        say(f"{self.place('launch.json')} is damaged: {reason}")
        return {}

    def place(self, *names: str) -> str:
        """A path beside this file."""
        return os.path.join(self.home, *names)

    def usable(self, entry: object) -> str | None:
        """The path of a file that is what its name says, or None."""
        name = entry.get("file") if isinstance(entry, dict) else None
        if not isinstance(name, str) or os.path.basename(name) != name:
            return None
        path, digest = self.place("versions", name), hashlib.sha256()
        try:
            with open(path, "rb") as file:
                for part in iter(lambda: file.read(1 << 20), b""):
                    digest.update(part)
        except OSError:
            return None
        return path if digest.hexdigest() + ".pyz" == name else None

    def substitute(self, launch: Launch) -> str | None:
        """A whole file, where the present one is not: the one before, or the newest there is."""
        say("the present file is damaged or gone; another one is started")
        path = self.usable(launch.get("previous"))
        if path is not None:
            return path
        try:
            names = os.listdir(self.place("versions"))
        except OSError:
            return None
        found = [path for path in (self.usable({"file": name}) for name in names) if path is not None]
        return max(found, key=os.path.getmtime) if found else None

    def become(self, path: str | None) -> int:
        """Become the agent of this file; an exit code where there is none."""
        if path is None:
            say(f"no whole file is left in {self.place('versions')}: install it anew")
            return 2
        self.start(path, supervised=False)

    def attempt(self, launch: Launch, path: str) -> int | None:
        """Start a file on trial, and stay beside it. Its exit code, or None where another start has to follow."""
        trial = launch["trial"]
        trial.update(starts=trial["starts"] + 1, checked_in=False)
        self.save(launch)  # before it starts: whatever happens to this process, the start is counted
        code, late = self.watch(path, float(trial["check_in_seconds"]))
        after = self.load()
        trial = after.get("trial")
        if trial is None:  # it lasted, or is to be replaced in its turn
            return None if code == AGAIN else code
        if late:
            self.roll_back(after, f"it did not check in within {trial['check_in_seconds']:.0f} s")
            return None
        if self.stopped or code == AGAIN:
            trial["starts"] -= 1  # that was no fault of its own
            self.save(after)
            return code if self.stopped else None
        if code == 0 or (code == EXPELLED and trial.get("checked_in")):
            return code
        reason = f"it ended with exit code {code}" if code < 128 else f"signal {code - 128} ended it"
        say(f"the new version: {reason}")
        if trial["starts"] >= trial["max_starts"]:
            self.roll_back(after, f"{reason}, {trial['starts']} times")
        else:
            time.sleep(PAUSE)
        return None

    def watch(self, path: str, check_in_seconds: float) -> tuple[int, bool]:
        """Start the file and wait for its end; the exit code, and whether it was killed for not checking in."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.forward)
        end = time.monotonic() + check_in_seconds
        self.child = os.fork()
        if self.child == 0:
            self.start(path, supervised=True)
        late, waiting = False, os.WNOHANG
        while True:
            found, status = os.waitpid(self.child, waiting)
            if found:
                self.child = 0
                return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)), late
            trial = self.load().get("trial")
            if trial is None:
                waiting = 0  # it has lasted: nothing is left to look after
            elif not trial.get("checked_in") and time.monotonic() > end:
                late, waiting = True, 0
                os.kill(self.child, signal.SIGKILL)
            else:
                time.sleep(LOOK)

    def forward(self, number: int, frame: FrameType | None) -> None:
        """Hand a signal on to the agent."""
        self.stopped = True
        if self.child:
            os.kill(self.child, number)

    def start(self, path: str, supervised: bool) -> NoReturn:
        """Become the agent of this file."""
        environment = {**os.environ, LAUNCHER: self.place("launcher.py"), SUPERVISED: "1" if supervised else "0"}
        try:
            if supervised:
                die_with_parent()
            os.execve(sys.executable, [sys.executable, path, *self.arguments], environment)
        except OSError as error:
            say(f"{path} cannot be started: {error}")
            os._exit(2)

    def roll_back(self, launch: Launch, reason: str) -> None:
        """Have the file before be the present one again, if there is one, and say why."""
        before, trial, given_up = launch.get("previous"), launch["trial"], launch.get("current") or {}
        if self.usable(before) is not None:
            launch.update(current=before, previous=None)
            launch["ended"] = {
                "rollout_id": trial.get("rollout_id"),
                "version": given_up.get("version"),
                "reason": reason,
                "at": time.time(),
                "reported": False,
            }
        launch["trial"] = None
        say(f"version {given_up.get('version')} is given up: {reason}")
        self.save(launch)

    def save(self, launch: Launch) -> None:
        """Replace `launch.json`; a power cut leaves the old one or the new one. Raises OSError."""
        path = self.place("launch.json")
        with open(path + ".tmp", "w") as file:
            json.dump(launch, file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + ".tmp", path)
        folder = os.open(self.home, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def die_with_parent() -> None:
    """An agent on trial does not go on without anybody beside it."""
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_DIE_WITH_PARENT, int(signal.SIGTERM), 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # this system has nothing like it


def say(text: str) -> None:
    """One line for whoever reads the log."""
    print(f"pock-agent: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(Launcher(os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]).run())
