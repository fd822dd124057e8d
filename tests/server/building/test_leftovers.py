"""What a runner leaves that is killed, and what the next start does about it. What belongs to a living one stays."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pock_server.runner.workplace import drop_abandoned
from pock_server.sandbox.memory import MemoryGroup, make_group
from tests.server.building.test_runner import wait_for
from tests.server.harness import FAKE_WORKER

_RUNNER = """
import subprocess, sys, time
from pathlib import Path
from pock_server.runner.workplace import workplace
from pock_server.sandbox.memory import make_group

root, worker = sys.argv[1:]
with workplace(Path(root)) as folder:
    (folder / "task.json").write_text('{"name": "hang"}')
    group = make_group(1 << 30)
    line = [sys.executable, worker, "build", str(folder)]
    child = subprocess.Popen(line, start_new_session=True, stdout=subprocess.DEVNULL)
    if group is not None:
        group.add(child.pid)
    print(child.pid, folder, group.folder if group else "", flush=True)
    time.sleep(600)
"""


class Runner:
    """A process with a folder, a child in it that no sandbox ends, and a control group around that where possible."""

    def __init__(self, root: Path) -> None:
        line = [sys.executable, "-c", _RUNNER, str(root), str(FAKE_WORKER)]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        pid, folder, *group = self.process.stdout.readline().split()
        self.child, self.folder, self.group = psutil.Process(int(pid)), Path(folder), Path(group[0]) if group else None

    def whole(self) -> bool:
        return self.child.is_running() and self.folder.exists() and (self.group is None or self.group.exists())

    def gone(self) -> bool:
        ended = not self.child.is_running() or self.child.status() == psutil.STATUS_ZOMBIE
        return ended and not self.folder.exists() and (self.group is None or not self.group.exists())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


def test_the_next_start_removes_what_the_dead_left(tmp_path: Path) -> None:
    dead, living = Runner(tmp_path), Runner(tmp_path)
    try:
        dead.kill()
        assert dead.whole()  # nothing else ends it
        drop_abandoned(tmp_path)
        wait_for(dead.gone)
        assert living.whole()
    finally:
        living.kill()
        drop_abandoned(tmp_path)
    wait_for(living.gone)


def test_who_only_looks_is_left_alone(tmp_path: Path) -> None:
    """A person's command that names a place in the folder is no child of the dead."""
    dead = Runner(tmp_path)
    looking = subprocess.Popen(["tail", "-f", dead.folder / "task.json"], stdout=subprocess.DEVNULL)
    try:
        dead.kill()
        drop_abandoned(tmp_path)
        assert looking.poll() is None
    finally:
        looking.kill()
        looking.wait()


@pytest.mark.may_skip
def test_a_group_ends_whole(tmp_path: Path) -> None:
    group: MemoryGroup | None = make_group(1 << 30)
    if group is None:
        pytest.skip("no control group can be made here")
    child = subprocess.Popen(["sleep", "600"])
    group.add(child.pid)
    drop_abandoned(tmp_path)  # it is this process's
    assert group.folder.exists() and child.poll() is None
    group.close()
    assert child.wait() == -signal.SIGKILL and not group.folder.exists()
    with pytest.raises(OSError):
        os.fstat(group.held)
