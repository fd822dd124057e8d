"""The launcher with agents of a few lines: which file it starts, when it gives one up, and what a kill leaves."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pock_agent.update import launcher
from pock_agent.update.launcher import Launcher

HEAD = """
import json, os, sys, time, signal
from pathlib import Path
home = Path(os.environ["POCK_AGENT_LAUNCHER"]).parent
with (home / "ran").open("a") as log:
    log.write(NAME + " " + " ".join(sys.argv[1:]) + " " + os.environ["POCK_AGENT_SUPERVISED"] + chr(10))
def change(**changes):
    launch = json.loads((home / "launch.json").read_text())
    launch["trial"] = None if changes.get("lasted") else {**launch["trial"], **changes}
    (home / "new").write_text(json.dumps(launch))
    os.rename(home / "new", home / "launch.json")
"""
GOOD = "change(checked_in=True); change(lasted=True)"


class Home:
    """The folder of a launcher, with agents in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "agent"
        (self.folder / "versions").mkdir(parents=True)
        (self.folder / "launcher.py").write_text(Path(launcher.__file__).read_text())

    def file(self, name: str, does: str = "") -> dict[str, str]:
        """An agent of this version; how `launch.json` names it."""
        content = f"NAME = {name!r}\n{HEAD}\n{does}\n".encode()
        entry = {"file": hashlib.sha256(content).hexdigest() + ".pyz", "version": name}
        (self.folder / "versions" / entry["file"]).write_bytes(content)
        return entry

    def path(self, entry: dict[str, str]) -> Path:
        return self.folder / "versions" / entry["file"]

    def write(self, current: Any, previous: Any = None, **trial: Any) -> None:
        tried = {"rollout_id": "r", "starts": 0, "max_starts": 3, "check_in_seconds": 20, "checked_in": False, **trial}
        launch = {"current": current, "previous": previous, "trial": tried if trial else None, "later": "kept"}
        (self.folder / "launch.json").write_text(json.dumps(launch))

    @property
    def launch(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "launch.json").read_text()))

    @property
    def ran(self) -> list[str]:
        try:
            return [line.split()[0] for line in (self.folder / "ran").read_text().splitlines()]
        except FileNotFoundError:
            return []

    def start(self) -> subprocess.Popen[str]:
        code = f"import sys; sys.path.insert(0, {str(self.folder)!r}); import launcher; launcher.PAUSE = 0.01; "
        code += "launcher.LOOK = 0.02; import os; "
        code += f"sys.exit(launcher.Launcher({str(self.folder)!r}, sys.argv[1:]).run())"
        return subprocess.Popen(
            [sys.executable, "-c", code, "run", "--state-dir", "D"], stderr=subprocess.PIPE, text=True
        )

    def run(self) -> tuple[int, str]:
        started = self.start()
        _, said = started.communicate(timeout=60)
        return started.returncode, said


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_without_a_trial_it_becomes_the_agent(home: Home) -> None:
    home.write(home.file("old", "(home / 'pid').write_text(str(os.getpid())); sys.exit(7)"))
    started = home.start()
    started.communicate(timeout=60)
    assert started.returncode == 7 and (home.folder / "pid").read_text() == str(started.pid)
    assert (home.folder / "ran").read_text() == "old run --state-dir D 0\n"


def test_one_that_lasts_stays(home: Home) -> None:
    home.write(home.file("new", GOOD), home.file("old"), starts=0)
    assert home.run()[0] == 0
    assert home.ran == ["new"] and home.launch["trial"] is None and home.launch["later"] == "kept"
    assert "ended" not in home.launch


@pytest.mark.parametrize(
    "does,why",
    [
        ("raise RuntimeError", "it ended with exit code 1, 3 times"),
        ("sys.exit(3)", "it ended with exit code 3, 3 times"),  # it may only believe that it was expelled
        ("os.kill(os.getpid(), 9)", "signal 9 ended it, 3 times"),
        ("change(checked_in=True); sys.exit(2)", "it ended with exit code 2, 3 times"),
    ],
)
def test_one_that_ends_three_times_is_given_up(home: Home, does: str, why: str) -> None:
    home.write(home.file("new", does), home.file("old"), starts=0)
    assert home.run()[0] == 0
    assert home.ran == ["new", "new", "new", "old"]
    ended = home.launch["ended"]
    assert (ended["version"], ended["reason"], ended["rollout_id"], ended["reported"]) == ("new", why, "r", False)
    assert (home.launch["current"]["version"], home.launch["previous"], home.launch["trial"]) == ("old", None, None)


def test_one_that_is_not_heard_of_in_time_is_killed_and_given_up(home: Home) -> None:
    does = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(1)"
    home.write(home.file("new", does), home.file("old"), check_in_seconds=0.5)
    assert home.run()[0] == 0
    assert home.ran == ["new", "old"] and home.launch["ended"]["reason"].startswith("it did not check in within")


def test_a_check_in_of_an_earlier_start_does_not_count(home: Home) -> None:
    home.write(home.file("new", "time.sleep(60)"), home.file("old"), check_in_seconds=0.3, checked_in=True, starts=1)
    home.run()
    assert home.ran == ["new", "old"]


def test_an_agent_that_wants_to_be_started_anew_is(home: Home) -> None:
    """As one does that was replaced while the launcher is still beside it."""
    again = "if not (home / 'once').exists():\n (home / 'once').touch(); sys.exit(75)\n"
    home.write(home.file("new", again + GOOD), home.file("old"), starts=2)
    assert home.run()[0] == 0
    assert home.ran == ["new", "new"] and home.launch["trial"] is None


def test_expelled_after_it_was_heard_of_is_no_fault_of_the_version(home: Home) -> None:
    home.write(home.file("new", "change(checked_in=True); sys.exit(3)"), home.file("old"), starts=0)
    assert home.run()[0] == 3 and home.ran == ["new"]


def test_a_stop_reaches_the_agent_and_is_no_fault_of_it(home: Home) -> None:
    does = "signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))\n(home / 'up').touch()\ntime.sleep(60)"
    home.write(home.file("new", does), home.file("old"), starts=1)
    started = home.start()
    while not (home.folder / "up").exists():
        assert started.poll() is None
        time.sleep(0.01)
    started.terminate()
    started.communicate(timeout=60)
    assert started.returncode == 130 and home.launch["trial"]["starts"] == 1


def test_what_is_damaged_or_gone_is_not_started(home: Home) -> None:
    old, new = home.file("old"), home.file("new", GOOD)
    home.path(new).write_bytes(b"print('damaged')")
    home.write(new, old, starts=0)
    home.run()
    assert home.ran == ["old"] and home.launch["ended"]["reason"] == "its file is damaged"
    home.path(new).unlink()
    home.write(new, old)
    home.run()
    assert home.ran == ["old", "old"]
    home.write(new, None)  # neither is known: any whole one
    home.run()
    (home.folder / "launch.json").write_text('{"current": {"fi')
    home.run()
    (home.folder / "launch.json").unlink()
    home.run()
    assert home.ran == ["old"] * 5
    home.path(old).unlink()
    code, said = home.run()
    assert code == 2 and "no whole file is left" in said and said.endswith("install it anew\n")


@pytest.mark.parametrize("name", ["../launcher.py", "", None, 5, "/etc/passwd"])
def test_names_lead_nowhere_else(home: Home, name: object) -> None:
    assert Launcher(str(home.folder), []).usable({"file": name}) is None


def test_where_nothing_can_be_written_the_one_before_is_started(home: Home) -> None:
    """As on a full disk: starts could not be counted."""
    home.write(home.file("new", GOOD), home.file("old"), starts=0)
    (home.folder / "launch.json.tmp").mkdir()
    assert home.run()[0] == 0
    assert home.ran == ["old"] and home.launch["trial"]["starts"] == 0


CALLS = ("fsync", "rename", "execve", "fork")


@pytest.mark.parametrize("does", [GOOD, "sys.exit(1)"])
def test_killed_at_any_write_it_goes_on_with_a_whole_file(home: Home, does: str) -> None:
    """The launcher is killed before its Nth step, for every N; then it is started again, and ends well."""
    good = does == GOOD
    for step in range(1, 40):
        home.write(home.file("new", does), home.file("old"), starts=0, max_starts=2)
        (home.folder / "ran").unlink(missing_ok=True)
        child = os.fork()
        if child == 0:
            _die_at(step)
            try:
                launcher.PAUSE = launcher.LOOK = 0.01
                os._exit(Launcher(str(home.folder), ["run"]).run())
            finally:
                os._exit(99)
        _, status = os.waitpid(child, 0)
        assert home.launch["current"]["version"] in ("new", "old")  # whole at any time
        home.run()
        launch = home.launch
        assert launch["trial"] is None and home.ran
        assert launch["current"]["version"] == ("new" if good else "old")
        if not good:
            assert home.ran[-1] == "old" and home.ran.count("new") <= 2
        if not os.WIFSIGNALED(status):
            assert step > 3
            return
    raise AssertionError("it never came to its end")


def _die_at(step: int) -> None:
    """Kill this process before its Nth call that others could notice."""
    left = [step]

    def counted(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments)

        return call

    for name in CALLS:
        setattr(os, name, counted(name))
