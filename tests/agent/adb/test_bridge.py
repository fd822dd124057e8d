"""One phone through adb: which one, why not, and that nothing it is told or says can do harm."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import pytest

from pock_agent.errors import AgentError, Away
from pock_agent.place.adb import bridge as bridges
from pock_agent.place.adb.bounded import Unbounded, run
from pock_agent.place.adb.bridge import Bridge, choose, find_program, quoted, why_not
from tests.agent.adb.phone import FakePhone

HOSTILE = [
    "a b",
    "$(touch hurt)",
    "`touch hurt`",
    "; touch hurt",
    "a'; touch hurt; '",
    '"; touch hurt; "',
    "a\ntouch hurt\n",
    "& touch hurt &",
    "|| touch hurt",
    "> hurt",
    "*",
    "~",
    "-rf",
    "\\'; touch hurt #",
    "ü€\u202e",
]


def test_the_only_phone_is_chosen(phone: FakePhone) -> None:
    assert choose(phone.adb, None) == phone.serial == choose(phone.adb, phone.serial)


def test_several_phones_are_listed(phone: FakePhone) -> None:
    other = FakePhone(phone.phones, "emulator-5554")
    other.plug_in("offline")
    with pytest.raises(AgentError, match=rf"{phone.serial} \(device\), emulator-5554 \(offline\); say which"):
        choose(phone.adb, None)
    assert choose(phone.adb, phone.serial) == phone.serial


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("unauthorized", "accept 'Allow USB debugging'"),
        ("offline", "pull the cable"),
        ("recovery", "start Android"),
        ("no permissions (missing udev rules? user is in the plugdev group); see [http://x]", "udev"),
        ("rescue", "adb says that it is 'rescue'"),
    ],
)
def test_a_phone_that_cannot_be_used(state: str, advice: str, phone: FakePhone, bridge: Bridge) -> None:
    phone.plug_in(state)
    for wanted in (None, phone.serial):
        with pytest.raises(AgentError, match=phone.serial) as caught:
            choose(phone.adb, wanted)
        assert advice in str(caught.value)
    assert advice in (bridge.away() or "")
    with pytest.raises(Away, match=phone.serial):
        bridge.shell("true")


def test_no_phone_and_another_phone(phone: FakePhone) -> None:
    assert "attached are A, B" in (why_not({"A": "device", "B": "offline"}, "C") or "")
    phone.pull_cable()
    with pytest.raises(AgentError, match="no phone is attached: plug one in"):
        choose(phone.adb, None)


@pytest.mark.parametrize("serial", ["-s", "--help", "a;b", "$(x)", "", "a\nb", "x" * 300])
def test_what_is_no_serial_never_reaches_adb(serial: str) -> None:
    assert "no serial number" in (why_not({serial: "device"}, serial) or "")


def test_where_adb_is(phone: FakePhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_program(None) == os.environ["ADB"] == find_program(phone.adb)
    with pytest.raises(AgentError, match="--adb-path is '/nowhere/adb'"):
        find_program("/nowhere/adb")
    monkeypatch.setenv("ADB", "/nowhere/adb")
    with pytest.raises(AgentError, match=r"\$ADB is"):
        find_program(None)
    monkeypatch.delenv("ADB")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentError, match="there is no adb here: install it"):
        find_program(None)


def test_a_script_s_output_and_exit_code(bridge: Bridge) -> None:
    said = bridge.shell("printf 'two\\nlines'; exit 7")
    assert (said.code, said.text) == (7, "two\nlines")
    assert bridge.shell("printf '\\377\\0'").output == b"\xff\0"
    assert bridge.shell("exit 0").output == b""


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_name(name: str, bridge: Bridge, phone: FakePhone, tmp_path: Path) -> None:
    """It arrives as one word, and nothing in it is done."""
    room = phone.tree / "data/local/tmp"
    assert bridge.shell(f"cd /data/local/tmp && printf %s {quoted(name)}").text == name
    source = tmp_path / "source"
    source.write_bytes(b"content")
    bridge.push(source, f"/data/local/tmp/{name}")
    assert (room / name).read_bytes() == b"content"
    target = io.BytesIO()
    bridge.fetch(f"/data/local/tmp/{name}", 7, target)
    assert target.getvalue() == b"content"
    assert not any(path.name == "hurt" for path in phone.phones.rglob("*"))


@pytest.mark.parametrize("size", [6, 8])
def test_a_file_of_another_size_is_not_taken(size: int, bridge: Bridge, phone: FakePhone) -> None:
    (phone.tree / "data/local/tmp/file").write_bytes(b"content")
    with pytest.raises(Away):
        bridge.fetch("/data/local/tmp/file", size, io.BytesIO())


def test_a_phone_that_does_not_stop_talking(bridge: Bridge, phone: FakePhone, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Away, match="more than 1048576 bytes"):
        bridge.shell("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done")
    monkeypatch.setattr(bridges, "ANSWER_SECONDS", 0.5)
    with pytest.raises(Away, match="did not answer within"):
        bridge.shell("sleep 60")


def test_a_phone_that_claims_to_have_ended(bridge: Bridge) -> None:
    """Only the word of this call counts, and it comes last."""
    said = bridge.shell("printf '\\n0123456789abcdef 0\\n'; exit 3")
    assert said.code == 3 and b"0123456789abcdef" in said.output


def test_a_connection_that_breaks_is_no_success(bridge: Bridge, phone: FakePhone) -> None:
    with pytest.raises(Away, match="the connection broke"):
        bridge.shell(f"for client in {phone.folder}/clients/*; do kill -9 ${{client##*/}}; done; sleep 1")


def test_an_adb_that_hangs(bridge: Bridge, phone: FakePhone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridges, "STATE_SECONDS", 0.3)
    phone.hang("devices")
    begun = time.monotonic()
    assert "adb does not work: it did not answer" in (bridge.away() or "")
    assert time.monotonic() - begun < 10


def test_what_a_program_started_and_left_holds_nobody_up() -> None:
    """As adb's server does, that the first call starts."""
    begun = time.monotonic()
    said = bytearray()
    ended = run(["/bin/sh", "-c", "sleep 30 & echo hi; echo no >&2; exit 2"], 20, 100, said.extend)
    assert (ended.returncode, ended.errors, bytes(said)) == (2, "no", b"hi\n")
    assert time.monotonic() - begun < 10


def test_a_program_without_end_is_ended() -> None:
    said = bytearray()
    with pytest.raises(Unbounded, match="within 1 s"):
        run(["/bin/sh", "-c", "echo $$; exec >&- 2>&-; exec sleep 60"], 1.0, 100, said.extend)
    with pytest.raises(ProcessLookupError):
        os.kill(int(said), 0)
