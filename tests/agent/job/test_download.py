"""Downloads over a bad network, from a bad store, onto a full disk."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pock_agent.connection.backoff import delay
from pock_agent.connection.transport import retry_after
from pock_agent.disk.blobs import Blob, BlobCache
from pock_agent.disk.counters import Counters
from pock_agent.disk.directory import StateDirectory
from pock_agent.errors import ServiceError
from pock_agent.settings import Settings
from tests.agent.conftest import Device, enroll
from tests.agent.driver import spawn
from tests.agent.service_double import Answer, Request, ServiceDouble, problem

BIG = bytes(range(256)) * 2048  # 512 KiB


def big_job(device: Device, content: bytes = BIG) -> dict[str, Any]:
    """A job whose parameters are of some size."""
    payload = device.job(evaluate=False)
    payload["artifact"]["members"]["params.safetensors"] = device.double.add_blob(content)
    return payload


def run_big(device: Device, fault: Callable[[Request, Answer], Answer | None], **settings: Any) -> dict[str, Any]:
    """Run a job while `fault` may replace the proper answers to downloads of its parameters; the result."""
    payload = big_job(device)
    digest = payload["artifact"]["members"]["params.safetensors"]["sha256"]

    def injected(request: Request) -> Answer | None:
        return fault(request, device.double.answer_blob(request)) if request.argument == digest else None

    device.double.on("blob", injected)
    device.double.give(device.double.seal(payload))
    device.run(**settings)
    (result,) = device.double.results[payload["run_id"]]
    return dict(result)


def start_of(request: Request) -> int:
    match = re.fullmatch(r"bytes=(\d+)-", request.headers.get("Range") or "bytes=0-")
    assert match is not None
    return int(match[1])


def test_a_cut_download_goes_on_where_it_stopped(device: Device) -> None:
    starts: list[int] = []

    def cut(request: Request, answer: Answer) -> Answer:
        starts.append(start_of(request))
        answer.cut = 200_000
        return answer

    assert run_big(device, cut)["state"] == "succeeded"
    told = [event for events in device.double.events.values() for event in events if "another try" in str(event)]
    assert len(told) == 2
    assert all(event["event"] == "agent" and "before the end of blob" in event["text"] for event in told)
    assert starts == [0, 200_000, 400_000]


def test_an_agent_killed_during_a_download_goes_on_where_it_stopped(device: Device) -> None:
    payload = big_job(device)
    digest = payload["artifact"]["members"]["params.safetensors"]["sha256"]
    starts: list[int] = []
    release = threading.Event()

    def stall(request: Request) -> Answer | None:
        if request.argument != digest:
            return None
        starts.append(start_of(request))
        return Answer(200, BIG[:300_000], length=len(BIG), stall=release) if len(starts) == 1 else None

    device.double.on("blob", stall)
    device.double.give(device.double.seal(payload))
    process = spawn(device.state.root)
    partial = device.state.cache / "partial" / digest
    device.double.wait_for(lambda: partial.exists() and partial.stat().st_size >= 250_000, "most of the download")
    process.kill()
    process.communicate()
    release.set()
    assert device.run()
    assert starts[-1] >= 250_000


def test_a_service_that_fails_every_second_request(device: Device) -> None:
    for route in ("work", "lease", "blob", "events", "upload", "result", "session", "heartbeat"):
        device.double.on(route, lambda request: problem(503, "injected") if request.number % 2 else None)
    run_id = device.give()
    assert device.run()
    assert len(device.double.results[run_id]) == 1
    assert [e["step"] for e in device.double.events[run_id] if e["event"] == "step"] == [1, 2, 3, 4, 5]


def shifted(by: int) -> Callable[[Request, Answer], Answer | None]:
    """Cut the first answer; answer what follows with a range that starts elsewhere."""

    def fault(request: Request, answer: Answer) -> Answer | None:
        asked = start_of(request)
        if asked == 0:
            answer.cut = 100_000
            return answer
        start = asked + by
        header = f"bytes {start}-{len(BIG) - 1}/{len(BIG)}"
        return Answer(206, BIG[start:], {"Content-Range": header}) if request.number < 5 else None

    return fault


@pytest.mark.parametrize("by", [-1000, 1000], ids=["early", "late"])
def test_a_range_that_starts_elsewhere_is_not_kept(by: int, device: Device) -> None:
    assert run_big(device, shifted(by))["state"] == "succeeded"


@pytest.mark.parametrize(
    "header", [None, "bytes 1-2", "bytes */524288", "bytes 100000-524287/999999", "garbage"], ids=str
)
def test_a_partial_answer_with_a_wrong_content_range_is_not_kept(header: str | None, device: Device) -> None:
    def fault(request: Request, answer: Answer) -> Answer | None:
        asked = start_of(request)
        if asked == 0:
            answer.cut = 100_000
            return answer
        headers = {} if header is None else {"Content-Range": header}
        return Answer(206, bytes(len(BIG) - asked), headers) if request.number < 5 else None

    assert run_big(device, fault)["state"] == "succeeded"


def test_a_service_that_ignores_ranges_is_downloaded_from_the_start(device: Device) -> None:
    def fault(request: Request, answer: Answer) -> Answer:
        return Answer(200, BIG, cut=None if start_of(request) else 100_000)

    assert run_big(device, fault)["state"] == "succeeded"


@pytest.mark.parametrize("extra", [-1, 1], ids=["shorter", "longer"])
def test_content_of_another_length_is_not_kept(extra: int, device: Device) -> None:
    content = BIG[:-1] if extra < 0 else BIG + b"x"
    result = run_big(device, lambda request, answer: Answer(200, content))
    assert result["failure"]["code"] == 1000
    assert not list((device.state.cache / "sha256").glob(hashlib.sha256(BIG).hexdigest()))


def test_one_byte_flipped_is_refused_and_nothing_runs(device: Device) -> None:
    flipped = bytearray(BIG)
    flipped[1234] ^= 1
    result = run_big(device, lambda request, answer: Answer(200, bytes(flipped)))
    assert result["failure"]["code"] == 2004
    assert "another digest" in result["failure"]["detail"]
    assert {event["event"] for events in device.double.events.values() for event in events} == {"agent"}


def test_one_bad_copy_is_followed_by_a_good_one(device: Device) -> None:
    def fault(request: Request, answer: Answer) -> Answer | None:
        return Answer(200, bytes(len(BIG))) if request.number <= 3 else None

    assert run_big(device, fault)["state"] == "succeeded"


def test_a_4xx_is_final(device: Device) -> None:
    requests: list[int] = []

    def fault(request: Request, answer: Answer) -> Answer:
        requests.append(request.number)
        return problem(404, "no such blob", 1005)

    result = run_big(device, fault)
    assert (result["failure"]["code"], len(requests)) == (1000, 1)


def test_a_5xx_is_tried_ten_times(device: Device) -> None:
    requests: list[int] = []

    def fault(request: Request, answer: Answer) -> Answer:
        requests.append(request.number)
        return problem(500, "injected")

    result = run_big(device, fault)
    assert (result["failure"]["code"], len(requests)) == (1000, 10)


def test_retry_after_is_honoured_as_the_least_pause() -> None:
    error = ServiceError(503, "busy", retry_after=7.0)
    pauses = [delay(Settings(), failures, error) for failures in range(1, 50)]
    assert min(pauses) >= 7 and max(pauses) <= 7 + Settings().backoff_cap_seconds


def test_backoff_is_fully_jittered_and_capped() -> None:
    pauses = [delay(Settings(), 30) for _ in range(300)]
    assert min(pauses) < 10 and 50 < max(pauses) <= 60


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("999999", 3600.0),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0),
        ("soon", None),
        (None, None),
        ("-3", None),
    ],
)
def test_retry_after_reads_seconds_and_dates(text: str | None, seconds: float | None) -> None:
    assert retry_after(text) == seconds


def test_a_blob_damaged_in_the_cache_is_fetched_again(device: Device) -> None:
    device.carry_out()
    for path in (device.state.cache / "sha256").iterdir():
        os.chmod(path, 0o600)
        content = bytearray(path.read_bytes())
        content[0] ^= 1
        path.write_bytes(bytes(content))
    before = device.double.counts["blob"]
    assert device.carry_out()["state"] == "succeeded"
    assert device.double.counts["blob"] == before + 3


def test_the_cache_drops_what_was_used_least_recently(tmp_path: Path) -> None:
    cache = BlobCache(tmp_path, Settings(cache_bytes=2500))
    blobs = []
    for number in range(3):
        content = bytes([number]) * 1000
        blob = Blob(hashlib.sha256(content).hexdigest(), 1000)
        cache.partial(blob).write_bytes(content)
        path = cache.add(blob)
        assert path is not None
        os.utime(path, (number, number))
        blobs.append(blob)
    cache.make_room(1000, keep=[blobs[0]])
    assert [cache.find(blob) is not None for blob in blobs] == [True, False, False]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 384 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=384k", "tmpfs", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"needs the right to mount a tmpfs: {mounted.stderr.decode()}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.may_skip
def test_a_download_that_cannot_fit_is_refused_before_it_starts(double: ServiceDouble, small_disk: Path) -> None:
    device = enroll(double, small_disk / "state")
    payload = big_job(device)
    double.give(double.seal(payload))
    assert not device.run()
    (result,) = double.results[payload["run_id"]]
    assert result["failure"]["code"] == 2002
    assert double.counts["blob"] == 0
    assert device.carry_out(evaluate=False)["state"] == "succeeded"


@pytest.mark.may_skip
def test_a_disk_that_fills_up_during_the_job_is_reported_and_freed(double: ServiceDouble, small_disk: Path) -> None:
    device = enroll(double, small_disk / "state")
    result = device.carry_out({"train": {"write": 1 << 20}}, evaluate=False)
    assert result["failure"]["code"] == 2002
    assert "No space left" in result["failure"]["detail"]
    assert device.carry_out(evaluate=False)["state"] == "succeeded"


def test_a_file_size_limit_during_a_download_is_reported_as_a_full_disk(device: Device) -> None:
    payload = big_job(device)
    device.double.give(device.double.seal(payload))
    process = spawn(device.state.root, file_limit=100_000)
    process.communicate(timeout=20)
    assert process.returncode == 1
    (result,) = device.double.results[payload["run_id"]]
    assert result["failure"]["code"] == 2002
    assert list((device.state.cache / "partial").iterdir()) == []


def test_a_record_that_a_power_cut_left_half_written_is_not_taken(tmp_path: Path) -> None:
    """Writes go to a second file first: a leftover of one does not disturb the next."""
    state = StateDirectory(tmp_path)
    (tmp_path / "counters.json.new").write_text('{"session": 9')
    counters = Counters(state)
    assert counters.next_session() == 1
    assert Counters(state).values.session == 1
