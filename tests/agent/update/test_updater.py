"""What the agent believes of an offer, what it refuses, and what a kill, a full disk or a lost answer leave behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey as Key

from pock_agent import __version__
from pock_agent.device.target import machine
from pock_agent.errors import NotWelcome, ServiceError, Unreachable
from pock_agent.trust.document import Trust
from pock_agent.update import launcher, updater
from pock_agent.update.updater import Replaced
from tests.agent.service_double import key_id_of, rfc3339
from tests.agent.update.bench import NOW, ROLLOUT, Bench, agent_script


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


def test_a_good_offer_is_followed_and_the_file_before_is_kept(bench: Bench) -> None:
    bench.offer(bench.release())
    launch = bench.replace()
    assert launch["current"]["version"] == "9.0.0" and launch["previous"]["file"] == bench.old
    assert (launch["trial"]["starts"], launch["trial"]["check_in_seconds"]) == (0, 30)
    assert bench.service.heard == [("installing", "")]
    assert (bench.standing.home / "versions" / launch["current"]["file"]).read_bytes() == bench.service.content
    assert not list((bench.directory.cache / "sha256").iterdir())  # once is enough


STRANGER = Key.generate()
UNBELIEVED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"signer": STRANGER}, {}),
    ({}, {"signer": STRANGER}),
    ({}, {"device_id": "d2"}),
    ({}, {"expires_at": rfc3339(NOW - 1)}),
    ({}, {"type": "pock-agent-release"}),
    ({}, {"format": 2}),
    ({}, {"more": 1}),
    ({}, {"action": "format the disk"}),
    ({}, {"check_in_seconds": 1}),
    ({}, {"healthy_seconds": 10**9}),
    ({}, {"rollout_id": "../../etc"}),
    ({"version": "9.0"}, {}),
    ({"type": "pock-trust"}, {}),
    ({"revert": None}, {}),
    ({"more": 1}, {}),
    ({"files": {}}, {}),
    ({"files": {"../x": {"sha256": "0" * 64, "size": 1}}}, {}),
    ({"files": {"linux-x": {"sha256": "../../../x", "size": 1}}}, {}),
    ({"files": {"linux-x": {"sha256": "0" * 64, "size": 1 << 30}}}, {}),
]


@pytest.mark.parametrize("release,offer", UNBELIEVED)
def test_what_is_not_believed_is_not_answered(bench: Bench, release: dict[str, Any], offer: dict[str, Any]) -> None:
    bench.offer(bench.release(**release), **offer)
    assert bench.consider() == []


def test_the_online_key_alone_replaces_nothing(bench: Bench) -> None:
    """Whoever has it may offer, and not release."""
    bench.offer(bench.release(signer=bench.keyring.online))
    assert bench.consider() == []


def test_two_root_keys_have_to_sign_where_the_trust_document_says_so(bench: Bench) -> None:
    trust = bench.keyring.trust
    assert trust is not None
    other = Key.generate()
    keys = {**trust.root_keys, key_id_of(other): other.public_key()}
    bench.keyring.trust = Trust(2, trust.issued_at, trust.expires_at, keys, 2, trust.signing_keys)
    signed = bench.release()
    bench.offer(signed)
    assert bench.consider() == []
    signed["signatures"] *= 2  # one key twice is one
    bench.offer(signed)
    assert bench.consider() == []
    signed["signatures"] = [signed["signatures"][0], bench.release(signer=other)["signatures"][0]]
    bench.offer(signed)
    bench.replace()


def test_under_a_trust_document_that_has_expired_nothing_is_taken(bench: Bench) -> None:
    trust = bench.keyring.trust
    assert trust is not None
    bench.offer(bench.release())
    bench.keyring.trust = Trust(1, NOW - 1000, NOW - 1, trust.root_keys, 1, trust.signing_keys)
    assert bench.consider() == []


def test_a_device_without_a_trust_document_takes_none(bench: Bench) -> None:
    bench.offer(bench.release())
    bench.keyring.trust = None
    assert bench.consider() == []


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"expires_at": rfc3339(NOW - 5)}, "expired"),
    ({"version": "0.0.1"}, "does not allow to go back"),
    ({"content": b"raise SystemExit(1)"}, "it does not start here: `--version` ended with exit code 1"),
    ({"content": b"\x00 no zip"}, "it does not start here"),
    ({"content": agent_script("9.0.1")}, "it says it is 'pock-agent 9.0.1', and not version 9.0.0"),
    (
        {"content": agent_script("9.0.0", "sys.exit('this state is strange')")},
        "`self-check` ended with exit code 1: this",
    ),
]


@pytest.mark.parametrize("release,why", REFUSED)
def test_what_is_not_good_is_told_and_leaves_nothing(bench: Bench, release: dict[str, Any], why: str) -> None:
    bench.offer(bench.release(**release))
    heard = bench.consider()
    assert heard[-1][0] == "failed" and why in heard[-1][1]
    assert [path.name for path in (bench.standing.home / "versions").iterdir()] == [bench.old]


def test_a_lower_version_is_taken_where_the_release_says_so(bench: Bench) -> None:
    bench.offer(bench.release("0.0.1", downgrade=True))
    assert bench.replace()["current"]["version"] == "0.0.1"


def test_what_is_older_than_what_was_taken_once_is_a_replay(bench: Bench) -> None:
    """Also a downgrade that root keys allowed long ago."""
    old = bench.release("0.0.1", downgrade=True, issued_at=rfc3339(NOW - 500))
    bench.offer(bench.release())
    launch = bench.replace()
    bench.monkeypatch.setattr(sys, "argv", [launch["current"]["file"]])
    bench.write(**{**launch, "trial": None})
    bench.release("0.0.1")  # its content is on the service
    bench.offer(old)
    ((told, why),) = bench.consider()
    assert told == "failed" and "older than the one of" in why


def test_a_clock_set_back_revives_no_release(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.offer(bench.release(expires_at=rfc3339(NOW - 5)))
    bench.around.counters.accept_work(1, NOW)  # the latest time that the service vouched for
    monkeypatch.setattr("time.time", lambda: 0.0)
    assert "expired" in bench.consider()[-1][1]


def test_only_what_the_launcher_started_can_be_replaced(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.offer(bench.release())
    for launched_by in (None, "/elsewhere/launcher.py"):
        monkeypatch.delenv(launcher.LAUNCHER)
        if launched_by:
            monkeypatch.setenv(launcher.LAUNCHER, launched_by)
        ((told, why),) = bench.consider()
        assert told == "unsupported" and "update it as it was installed" in why
        monkeypatch.setenv(launcher.LAUNCHER, "x")


def test_another_machine_says_so(bench: Bench) -> None:
    bench.offer(bench.release(files={"linux-riscv64": {"sha256": "0" * 64, "size": 5}}))
    assert bench.consider() == [("unsupported", f"the release has no file for linux-{machine()}")]


def test_a_policy_is_told_once_and_nothing_is_fetched(bench: Bench) -> None:
    bench.offer(bench.release())
    bench.why = "only while charging"
    waiting = bench.updater()
    waiting.consider()
    waiting.consider()
    assert bench.service.heard == [("waiting", "only while charging")] and waiting.considered == ROLLOUT
    assert not bench.directory.cache.exists()
    bench.why = None
    with pytest.raises(Replaced):
        waiting.consider()


def test_the_version_that_runs_is_told_and_not_installed(bench: Bench) -> None:
    bench.offer(bench.release(__version__))
    assert bench.consider() == [("started", "")]


def test_a_full_disk_switches_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.offer(bench.release())

    def full(*unused: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.copyfile", full)
        assert "(No space left on device); free some room" in bench.consider()[-1][1]
    bench.replace()


def test_without_a_connection_it_is_tried_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.offer(bench.release())

    def cut(*unused: object) -> None:
        raise Unreachable("no route")

    with monkeypatch.context() as patched:
        patched.setattr(bench.service, "download", cut)
        assert bench.consider()[-1][0] == "waiting"
    bench.replace()


def test_a_file_that_is_not_what_was_released_is_refused(bench: Bench) -> None:
    bench.offer(bench.release())
    bench.service.content = bench.service.content.replace(b"9", b"8")
    told, why = bench.consider()[-1]
    assert told == "failed" and "with another digest" in why


def test_back_to_the_version_before_if_the_release_allows_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.offer(bench.release())
    launch = bench.replace()
    monkeypatch.setattr(sys, "argv", [launch["current"]["file"]])
    bench.write(**{**launch, "trial": None})
    bench.offer(bench.release(revert=False), action="revert")
    assert "do not allow it" in bench.consider()[-1][1]
    bench.offer(bench.release(), action="revert")
    launch = bench.replace()
    assert (launch["current"]["file"], launch["previous"], launch["trial"]) == (bench.old, None, None)
    monkeypatch.setattr(sys, "argv", [bench.old])
    bench.service.heard.clear()
    bench.updater().begin()
    assert bench.service.heard == [("rolled_back", "the service took it back")]
    assert bench.consider() == [("rolled_back", f"version {__version__} runs here")]  # asked again


def on_trial(bench: Bench) -> None:
    bench.offer(bench.release())
    launch = bench.replace()
    bench.monkeypatch.setattr(sys, "argv", [launch["current"]["file"]])
    bench.service.heard.clear()


def test_a_trial_checks_in_as_often_as_it_takes_and_ends(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    on_trial(bench)
    bench.service.refuses = [Unreachable("no"), ServiceError(503, "busy", 1024), Unreachable("no")]
    trial = bench.updater()
    trial.begin()
    assert bench.service.heard == [("started", "")] and bench.standing.read()["trial"]["checked_in"]
    assert bench.consider() == []  # no other version meanwhile
    end = time.monotonic() + 20
    while bench.standing.read()["trial"] is not None:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert bench.standing.read()["current"]["version"] == "9.0.0"


def test_a_rollout_that_is_gone_is_heard_of_all_the_same(bench: Bench) -> None:
    on_trial(bench)
    bench.service.refuses = [ServiceError(404, "no such rollout", 1005)]
    bench.updater().begin()
    assert bench.standing.read()["trial"]["checked_in"]


def test_who_is_expelled_does_not_check_in(bench: Bench) -> None:
    on_trial(bench)
    bench.service.refuses = [ServiceError(401, "revoked", 1020)]
    with pytest.raises(NotWelcome):
        bench.updater().begin()
    assert not bench.standing.read()["trial"]["checked_in"]


def test_the_version_before_does_not_take_the_trial_for_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher starts it beside a trial where the disk is full."""
    on_trial(bench)
    monkeypatch.setattr(sys, "argv", [bench.old])
    bench.updater().begin()
    assert not bench.standing.read()["trial"]["checked_in"] and bench.service.heard == []


def test_what_was_given_up_is_told_until_it_is_heard(bench: Bench) -> None:
    ended = {"rollout_id": ROLLOUT, "version": "9.0.0", "reason": "it crashed", "at": 0.0, "reported": False}
    bench.write(**{**bench.standing.read(), "ended": ended, "of a later version": 1})
    bench.service.refuses = [Unreachable("no"), Unreachable("no")]
    back = bench.updater()
    back.begin()
    back.settle()
    assert bench.service.heard == []
    back.settle()
    back.settle()
    assert bench.service.heard == [("rolled_back", "it crashed")]
    assert bench.standing.read()["ended"]["reported"] and bench.standing.read()["of a later version"] == 1


def test_files_that_nobody_returns_to_are_dropped(bench: Bench) -> None:
    other = bench.file(b"of long ago")
    (bench.standing.home / "versions" / "half.new").write_bytes(b"half")
    bench.updater().begin()
    assert [path.name for path in (bench.standing.home / "versions").iterdir()] == [bench.old] != [other]


def test_killed_at_any_write_the_old_or_the_new_one_is_whole(bench: Bench) -> None:
    """The agent is killed before its Nth write, for every N, and goes on."""
    bench.monkeypatch.setattr(updater, "try_out", lambda path, directory, version: None)
    start = bench.standing.read()
    bench.offer(bench.release())
    for step in range(1, 60):
        bench.write(**start)
        child = os.fork()
        if child == 0:
            _die_at(step)
            try:
                bench.updater().consider()
            except Replaced:
                os._exit(42)
            finally:
                os._exit(99)
        _, status = os.waitpid(child, 0)
        launch = bench.standing.read()
        for name in ("current", "previous"):
            assert launch[name] is None or launcher.Launcher(str(bench.standing.home), []).usable(launch[name])
        if launch["trial"] is None:
            assert launch == start
            bench.replace()
        (bench.standing.home / "versions" / bench.standing.read()["current"]["file"]).unlink()
        if not os.WIFSIGNALED(status):
            assert os.waitstatus_to_exitcode(status) == 42 and step > 8
            return
    raise AssertionError("it never came to its end")


def _die_at(step: int) -> None:
    left = [step]

    def counted(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **named)

        return call

    for name in ("fsync", "rename", "write", "unlink", "chmod", "ftruncate"):
        setattr(os, name, counted(getattr(os, name)))
