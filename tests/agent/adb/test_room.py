"""A job's folder on a phone: what is brought, what is collected, what is removed, and what stays."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from pock_agent.errors import JobFailed
from pock_agent.place.adb.bridge import Bridge
from pock_agent.place.adb.phone import Phone
from pock_agent.place.adb.room import PhoneRoom
from tests.agent.adb.phone import FakePhone

LIMIT = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's folder."""
    found = tmp_path / "job"
    for name in ("artifact/bin/model", "artifact/params.safetensors", "data/train.safetensors", "data/given-weights"):
        (found / name).parent.mkdir(parents=True, exist_ok=True)
        (found / name).write_text(f"this is {name}")
    return found


@pytest.fixture
def room(folder: Path, bridge: Bridge) -> PhoneRoom:
    return Phone(bridge, "me").room(folder, "artifact/bin/model", LIMIT)


def there(phone: FakePhone) -> Path:
    (name,) = phone.left()
    return phone.rooms / name


def test_what_is_brought(room: PhoneRoom, phone: FakePhone, folder: Path) -> None:
    room.bring(without=("data/given-weights",))
    path = there(phone)
    found = {one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()}
    assert found == {"run.sh", "artifact/bin/model", "artifact/params.safetensors", "data/train.safetensors"}
    assert os.access(path / "artifact/bin/model", os.X_OK) and path.stat().st_mode & 0o077 == 0
    before = phone.calls().count("push")
    (path / "data/train.safetensors").write_text("changed there")
    room.bring(without=("data/given-weights",))
    assert phone.calls().count("push") == before + 1, "only what differs"
    assert (path / "data/train.safetensors").read_text() == "this is data/train.safetensors"


def test_what_is_collected(room: PhoneRoom, phone: FakePhone, folder: Path, tmp_path: Path) -> None:
    """Weights and checkpoints; neither links nor other names."""
    room.bring()
    output = there(phone) / "out"
    (tmp_path / "secret").write_text("a secret of the phone")
    (output / "link.safetensors").symlink_to(tmp_path / "secret")
    (output / "weights.safetensors").write_text("new")
    (output / "weights.safetensors.tmp").write_text("half")
    (output / "a b.safetensors").write_text("strange")
    (output / "train.json").write_text("{}")
    room.collect()
    assert [path.name for path in (folder / "out").iterdir()] == ["weights.safetensors"]
    assert (folder / "out/weights.safetensors").read_text() == "new"


def test_a_file_that_is_too_large_is_not_collected(room: PhoneRoom, phone: FakePhone, folder: Path) -> None:
    room.bring()
    (there(phone) / "out/weights.safetensors").write_bytes(bytes(LIMIT + 1))
    with pytest.raises(JobFailed, match="more than it may"):
        room.collect()
    assert not (folder / "out").exists()


def test_what_an_agent_has_is_brought_to_a_new_room(room: PhoneRoom, phone: FakePhone, folder: Path) -> None:
    """As after a reset of the phone: the checkpoint of the agent goes on."""
    (folder / "out").mkdir()
    (folder / "out/checkpoint.safetensors").write_text("half way")
    room.bring()
    assert (there(phone) / "out/checkpoint.safetensors").read_text() == "half way"


def running_in(path: Path, pid_file: bool = True) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["/bin/sleep", "60"], cwd=path)
    if pid_file:
        (path / "pid").write_text(f"{process.pid}\n")
    return process


def test_what_an_earlier_agent_left_running_is_ended(room: PhoneRoom, phone: FakePhone) -> None:
    room.bring()
    process = running_in(there(phone))
    room.bring()
    assert process.wait(10) == -15


def test_a_number_of_a_process_elsewhere_is_left_alone(room: PhoneRoom, phone: FakePhone, tmp_path: Path) -> None:
    room.bring()
    process = running_in(tmp_path, pid_file=False)
    for text in (f"{process.pid}", "1; kill $PPID", "", "-1", "x" * 10_000):
        (there(phone) / "pid").write_text(text)
        room.bring()
    assert process.poll() is None
    process.kill()
    process.wait()


def test_only_this_agent_s_rooms_are_cleared(bridge: Bridge, phone: FakePhone, folder: Path, tmp_path: Path) -> None:
    mine, other = Phone(bridge, "me"), Phone(bridge, "other")
    for owner in (mine, other):
        copy = tmp_path / owner._owner
        subprocess.run(["cp", "-a", folder, copy], check=True)
        owner.room(copy, "artifact/bin/model", LIMIT).bring()
    (phone.rooms / "me-0123456789abcdef").mkdir()
    mine.clear(tmp_path / "me")
    assert [name.partition("-")[0] for name in phone.left()] == ["me", "other"]
    mine.clear(tmp_path / "nothing")
    assert [name.partition("-")[0] for name in phone.left()] == ["other"]


def test_a_room_is_removed_with_what_runs_in_it(room: PhoneRoom, phone: FakePhone) -> None:
    room.bring()
    process = running_in(there(phone))
    room.remove()
    assert process.wait(10) == -15 and phone.left() == []
    room.remove()


@pytest.mark.parametrize("text", ["../../../etc", "x; rm -rf /", "", "\xff"])
def test_a_damaged_record_makes_a_new_room(text: str, bridge: Bridge, phone: FakePhone, folder: Path) -> None:
    (folder / "room").write_text(text)
    Phone(bridge, "me").room(folder, "artifact/bin/model", LIMIT).bring()
    (name,) = phone.left()
    assert name.startswith("me-") and len(name) == 19


def test_a_phone_that_may_not_be_written_to(room: PhoneRoom, phone: FakePhone) -> None:
    phone.rooms.parent.mkdir(exist_ok=True)
    phone.rooms.write_text("a file in the way")
    begun = time.monotonic()
    with pytest.raises(JobFailed, match="may it write to /data/local/tmp/pock"):
        room.bring()
    assert time.monotonic() - begun < 20
