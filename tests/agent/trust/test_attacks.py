"""Work that must not run: each attack on the signed manifest is refused, by name."""

from __future__ import annotations

import base64
import contextlib
import copy
import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pock_agent.disk.counters import Counters, CounterValues
from pock_agent.disk.directory import StateDirectory
from pock_agent.errors import NotWelcome, Refused
from pock_agent.life import agent
from pock_agent.trust.envelope import admit, open_envelope
from pock_agent.trust.fields import Malformed
from pock_agent.trust.manifest import Manifest, parse
from tests.agent.conftest import Device
from tests.agent.driver import FAST
from tests.agent.service_double import problem, rfc3339


def nothing_ran(device: Device) -> bool:
    counts = device.double.counts
    return counts["blob"] == 0 and counts["lease"] == 0 and not device.state.job_record.exists()


def refused(device: Device, envelope: dict[str, Any]) -> str:
    """Offer the envelope to the running agent; the reason it gave. Nothing may have been fetched or run."""
    with pytest.raises(Refused) as caught:
        open_envelope(envelope, device.identity, device.keys)
    device.double.give(envelope)
    assert not device.run()
    assert nothing_ran(device)
    return str(caught.value)


def test_a_signature_by_another_key(device: Device) -> None:
    envelope = device.double.seal(device.job(), Ed25519PrivateKey.generate())
    assert "signature does not match" in refused(device, envelope)


def test_one_bit_of_the_payload_changed(device: Device) -> None:
    envelope = device.double.seal(device.job())
    raw = bytearray(base64.b64decode(envelope["payload"]))
    raw[len(raw) // 2] ^= 1
    envelope["payload"] = base64.b64encode(raw).decode()
    assert "signature does not match" in refused(device, envelope)


def test_one_bit_of_the_signature_changed(device: Device) -> None:
    envelope = device.double.seal(device.job())
    raw = bytearray(base64.b64decode(envelope["signature"]))
    raw[5] ^= 1
    envelope["signature"] = base64.b64encode(raw).decode()
    assert "signature does not match" in refused(device, envelope)


def test_no_signature(device: Device) -> None:
    envelope = {**device.double.seal(device.job()), "signature": ""}
    assert "signature does not match" in refused(device, envelope)


def test_a_key_that_was_not_pinned(device: Device) -> None:
    device.double.key_id = "k2"
    assert "trusts 'k1'" in refused(device, device.double.seal(device.job()))


def test_an_unknown_field_beside_the_signature(device: Device) -> None:
    assert "instead of" in refused(device, {**device.double.seal(device.job()), "note": "run me"})


def test_work_for_another_device(device: Device) -> None:
    payload = device.job()
    payload["device_id"] = "0190b3c0-0000-7000-8000-000000000000"
    assert "for device" in refused(device, device.double.seal(payload))
    assert device.double.results == {}


def test_signed_bytes_that_are_not_json(device: Device) -> None:
    assert "not valid JSON" in refused(device, device.double.seal(b"{'a': 1}"))


def test_a_field_given_twice(device: Device) -> None:
    raw = json.dumps(device.job()).encode()
    assert "given twice" in refused(device, device.double.seal(raw[:-1] + b', "fence": 9}'))


def test_a_payload_nested_deep_enough_to_exhaust_the_stack(device: Device) -> None:
    assert "not valid JSON" in refused(device, device.double.seal(b"[" * 100_000))


def change(payload: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy with the value at a dotted path replaced or added; `...` removes it."""
    changed = copy.deepcopy(payload)
    *parents, last = path.split("/")
    place = changed
    for name in parents:
        place = place[name]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return changed


BLOB = {"sha256": "ab" * 32, "size": 1}
MALFORMED: dict[str, tuple[str, Any, str]] = {
    "an unknown field": ("shell", "rm -rf /", "unknown field 'shell'"),
    "an unknown field in artifact": ("artifact/url", "http://evil", "unknown field 'url'"),
    "an unknown field in data": ("data/test", None, "unknown field 'test'"),
    "an unknown field in run": ("run/environment", {}, "unknown field 'environment'"),
    "an unknown field in limits": ("limits/user", "root", "unknown field 'user'"),
    "an unknown field in a blob": ("data/train/url", "http://evil", "unknown field 'url'"),
    "a missing limit": ("limits/memory_bytes", ..., "lacks the field 'memory_bytes'"),
    "a missing expiry": ("expires_at", ..., "lacks the field 'expires_at'"),
    "a newer version": ("version", 2, "update the agent"),
    "a version that only looks right": ("version", "1", "version '1'"),
    "a truth value for a number": ("run/steps", True, "int was expected"),
    "no steps": ("run/steps", 0, "outside 1.."),
    "a negative size": ("data/train/size", -1, "outside 0.."),
    "an absurd size": ("data/train/size", 1 << 60, "outside 0.."),
    "a negative limit": ("limits/wall_seconds", -5, "outside 0.."),
    "a digest that is a path": ("data/train/sha256", "../../device.key", "no SHA-256 digest"),
    "a digest in upper case": ("data/train/sha256", "AB" * 32, "no SHA-256 digest"),
    "a run id that is a path": ("run_id", "../../v1/agent/x", "no identifier"),
    "a run id of dots": ("run_id", "..", "no identifier"),
    "an unknown entry": ("run/entry", "shell", "'shell'"),
    "an executable that is not listed": ("artifact/executable", "/bin/sh", "not one of its members"),
    "no training data": ("data/train", None, "data.train is null"),
    "a time without a zone": ("expires_at", "2030-01-01T00:00:00", "RFC 3339"),
    "a time that is a number": ("expires_at", 99999999999, "RFC 3339"),
    "members that are a list": ("artifact/members", [], "dict was expected"),
    "an artifact that is a text": ("artifact", "x", "not an object"),
    "repeats of a training": (
        "bench",
        {"warmup_steps": 0, "repeats": 3, "cool_down_seconds": 0},
        "the entry is train",
    ),
    "repeats without end": ("bench", {"warmup_steps": 0, "repeats": 101, "cool_down_seconds": 0}, "outside 1..100"),
    "a pause without end": ("bench", {"warmup_steps": 0, "repeats": 1, "cool_down_seconds": 3601}, "outside 0..3600"),
    "an unknown field in bench": (
        "bench",
        {"warmup_steps": 0, "repeats": 1, "cool_down_seconds": 0, "shell": "sh"},
        "unknown field 'shell'",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_properly_signed_manifest_with(name: str, device: Device) -> None:
    path, value, reason = MALFORMED[name]
    payload = change(device.job(), path, value)
    assert reason in refused(device, device.double.seal(payload))
    told = [result["failure"]["code"] for results in device.double.results.values() for result in results]
    assert told == ([] if path == "run_id" else [2004])


ESCAPES = [
    "../../etc/cron.d/x",
    "/etc/passwd",
    "bin/../../x",
    "a//b",
    "a/./b",
    "a\\..\\b",
    "",
    ".",
    "bin/",
    "a\0b",
    "~/x",
    "-rf",
]


@pytest.mark.parametrize("member", ESCAPES, ids=repr)
def test_a_member_name_that_leaves_the_artifact(member: str, device: Device) -> None:
    payload = device.job()
    payload["artifact"]["members"][member] = BLOB
    assert "no plain relative path" in refused(device, device.double.seal(payload))


def test_expired_work(device: Device) -> None:
    payload = device.job()
    payload["expires_at"] = rfc3339(time.time() - 1)
    device.double.give(device.double.seal(payload))
    assert not device.run()
    assert nothing_ran(device)
    (result,) = device.double.results[payload["run_id"]]
    assert "state" not in result and "expired" in result["reason"]  # declined: once clocks agree it can be done


def test_a_service_that_knows_no_declining(device: Device) -> None:
    """The run is left to its lease."""
    payload = device.job()
    payload["expires_at"] = rfc3339(time.time() - 1)
    device.double.on("result", lambda request: problem(404, "there is nothing here", 1005))
    device.double.give(device.double.seal(payload))
    assert not device.run()
    assert nothing_ran(device)


def test_a_replay_of_finished_work(device: Device) -> None:
    payload = device.job()
    envelope = device.double.seal(payload)
    device.double.give(envelope)
    assert device.run()
    device.double.counts.clear()
    device.double.give(envelope)
    assert not device.run()
    assert nothing_ran(device)
    assert len(device.double.results[payload["run_id"]]) == 1


def test_an_older_counter_with_fresh_dates(device: Device) -> None:
    older, newer = device.job(), device.job()
    device.double.give(device.double.seal(newer))
    assert device.run()
    device.double.counts.clear()
    device.double.give(device.double.seal(older))
    assert not device.run()
    assert nothing_ran(device)


def sample(device: Device, **changes: Any) -> Manifest:
    return parse({**device.job(), **changes})


def test_the_counter_is_durable_before_the_work_starts(device: Device) -> None:
    seen: list[int] = []
    device.double.on("lease", lambda request: _note(device, seen))
    payload = device.job()
    device.double.give(device.double.seal(payload))
    assert Counters(device.state).values.work == 0
    device.run()
    assert seen[0] == payload["counter"]


def _note(device: Device, seen: list[int]) -> None:
    seen.append(Counters(StateDirectory(device.state.root)).values.work)


def test_a_clock_set_back_does_not_revive_expired_work(device: Device) -> None:
    """The latest time that the service ever signed counts as well as the device's clock."""
    now = time.time()
    manifest = sample(device, expires_at=rfc3339(now + 60))
    seen = CounterValues(session=1, work=0, signed_time=now + 120)
    with pytest.raises(Refused, match="expired"):
        admit(manifest, seen, 0.0, None)


def test_a_clock_that_starts_in_1970_does_not_stop_fresh_work(device: Device) -> None:
    admit(sample(device), CounterValues(signed_time=time.time() - 3600), 100.0, None)


def test_a_clock_far_ahead_refuses_with_a_word_about_the_clock(device: Device) -> None:
    with pytest.raises(Refused, match="check this device's clock"):
        admit(sample(device), CounterValues(), time.time() + 10**7, None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
MEMBER = "artifact/members/bin%model"  # % stands for a slash within a name
PATHS = [
    *("version", "job_id", "run_id", "device_id", "attempt", "fence", "counter", "issued_at", "expires_at"),
    *(
        "artifact",
        "data",
        "run",
        "limits",
        "bench",
        "data/train",
        "data/eval",
        MEMBER,
        f"{MEMBER}/sha256",
        f"{MEMBER}/size",
    ),
    *(f"artifact/{name}" for name in ("digest", "name", "target", "executable", "members")),
    *(f"run/{name}" for name in ("entry", "steps", "threads", "seed", "save_weights", "held_out", "profile")),
    *(f"run/held_out/{name}" for name in ("share", "seed", "every", "patience")),
    *(f"limits/{name}" for name in ("wall_seconds", "memory_bytes", "required_bytes")),
]


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), value=JSON)
def test_any_value_anywhere_is_read_or_refused_and_nothing_else(path: str, value: Any, fuzz_payload: Any) -> None:
    changed = copy.deepcopy(fuzz_payload)
    *parents, last = (name.replace("%", "/") for name in path.split("/"))
    place = changed
    for name in parents:
        place = place[name]
    place[last] = value
    with contextlib.suppress(Malformed):
        assert isinstance(parse(changed), Manifest)


@pytest.fixture
def fuzz_payload(device: Device) -> dict[str, Any]:
    payload = device.job()
    payload["run"]["held_out"] = {"share": 0.2, "seed": 0, "every": 5, "patience": 2}
    assert isinstance(parse(payload), Manifest)
    return payload


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_any_signed_json_is_refused_and_nothing_else(value: Any, device: Device) -> None:
    with pytest.raises(Refused):
        open_envelope(device.double.seal(value), device.identity, device.keys)


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(envelope=st.dictionaries(st.sampled_from(["payload", "key_id", "signature", "x"]), JSON))
def test_any_envelope_is_refused_and_nothing_else(envelope: dict[str, Any], device: Device) -> None:
    with pytest.raises(Refused):
        open_envelope(envelope, device.identity, device.keys)


def test_a_second_agent_with_the_same_key_gets_the_device_quarantined(device: Device, tmp_path: Path) -> None:
    """The copy of a state directory opens a session with a counter that the original has used."""
    clone = tmp_path / "clone"
    shutil.copytree(device.state.root, clone)
    device.carry_out()
    with pytest.raises(NotWelcome, match="quarantined"):
        agent.run(StateDirectory(clone), FAST, once=True)
