"""One measurement: a deployment, a fleet, people, for a time; and what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.load.deployments import Deployment
from benchmarks.load.device import Device
from benchmarks.load.figures import Figures, quantile
from benchmarks.load.people import OWN_DELAY, Person, notice_own_delay, probe_forever
from benchmarks.load.processes import Usage, sample_forever
from tests.server.harness import safetensors

_AT_ONCE = 16
"""Devices that enrol at the same time."""
_SETTLE_SECONDS = 20.0
"""At least; and until each device has beaten once, which writes down what it is."""
_DRAIN_SECONDS = 60.0


@dataclass(frozen=True)
class Plan:
    """What to measure. `seconds` are those of the measured phase; runs are submitted at `runs_per_minute`."""

    agents: int
    seconds: float
    runs_per_minute: float
    watchers: int


@dataclass(frozen=True)
class Result:
    """Milliseconds by kind of call, calls a second, memory in bytes (median of the first and last tenth), and runs."""

    plan: dict[str, Any]
    enrol_seconds: float
    rate: float
    milliseconds: dict[str, dict[str, float]]
    errors: dict[str, int]
    runs: dict[str, int]
    memory: dict[str, dict[str, float]]
    processor: dict[str, float]


async def measure(deployment: Deployment, plan: Plan) -> Result:
    """Enrol the fleet, let it settle, measure, wait for the last runs, and count."""
    before, figures = Figures(), Figures()
    admin = Person(deployment.place, deployment.key, before)
    order = await _prepare(admin, deployment)
    began = time.monotonic()
    devices = await _enrol(admin, deployment, plan.agents, before)
    enrol_seconds = time.monotonic() - began
    _say(f"{plan.agents} devices enrolled in {enrol_seconds:.0f} s")
    submitter = Person(deployment.place, deployment.key, figures)
    watchers = [Person(deployment.place, deployment.key, figures) for _ in range(plan.watchers)]
    usage = Usage()
    ids = [device.id for device in devices]
    async with _running(*(device.live() for device in devices)):
        await asyncio.sleep(max(_SETTLE_SECONDS, 1.2 * max(device.interval for device in devices)))
        for device in devices:
            device.figures = figures
        started = time.monotonic()
        async with _running(
            submitter.submit_forever(ids, order, plan.runs_per_minute),
            probe_forever(deployment.place, figures),
            notice_own_delay(figures),
            sample_forever(deployment.parts, usage),
            *(watcher.watch_forever() for watcher in watchers),
        ):
            await _wait(plan.seconds)
        seconds = time.monotonic() - started
        requests, figures.recording = figures.requests() - len(figures.latencies[OWN_DELAY]), False
        await _drain(figures)
    unfinished = await submitter.unfinished()
    if before.errors:
        _say(f"before the measurement: {dict(before.errors)}")
    return Result(
        plan=asdict(plan),
        enrol_seconds=enrol_seconds,
        rate=requests / seconds,
        milliseconds=_milliseconds(figures),
        errors=dict(figures.errors),
        runs=_runs(figures, unfinished),
        memory={name: _ends(samples) for name, samples in usage.memory.items()},
        processor={name: used / seconds for name, used in usage.processor.items()},
    )


async def _prepare(admin: Person, deployment: Deployment) -> dict[str, Any]:
    """Upload a model and a dataset and have a build finished; the order of a run, but for its device."""
    model = await admin.call(
        "model", "POST", "/v1/models", {"name": "net", "digest": await _upload(admin, b"an ONNX file")}
    )
    data = safetensors({"input": ("F32", (8, 4)), "labels": ("I64", (8,))})
    dataset = await admin.call(
        "dataset", "POST", "/v1/datasets", {"name": "digits", "digest": await _upload(admin, data)}
    )
    body = {"model_id": model["id"], "recipe": {"batch": 2}, "target": "raspberry-pi-4"}
    build = await admin.call("build", "POST", "/v1/builds", body)
    await asyncio.to_thread(deployment.finish_build)
    return {"build_id": build["id"], "dataset_id": dataset["id"]}


async def _upload(admin: Person, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    upload = await admin.call("upload", "POST", "/v1/uploads", {"digest": digest, "size": len(data)})
    if not upload["complete"]:
        await admin.append(upload["id"], data)
    return digest


async def _enrol(admin: Person, deployment: Deployment, count: int, figures: Figures) -> list[Device]:
    devices = [Device(number, deployment.place, figures) for number in range(count)]
    waiting = iter(devices)
    callers = [Person(deployment.place, deployment.key, figures) for _ in range(_AT_ONCE)]

    async def take_turns(caller: Person) -> None:
        for device in waiting:
            made = await caller.call("token", "POST", "/v1/enrollment-tokens", {})
            await device.enrol(made["token"])

    await asyncio.gather(*map(take_turns, callers))
    return devices


async def _wait(seconds: float) -> None:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if sys.stderr.isatty():
            print(f"\r{left:5.0f} s left ", end="", file=sys.stderr, flush=True)
        await asyncio.sleep(min(1.0, left))
    if sys.stderr.isatty():
        print("\r", end="", file=sys.stderr)


async def _drain(figures: Figures) -> None:
    """Wait until every submitted run was carried out, for a limited time."""
    ends = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < ends and any(not figures.finished[run] for run in figures.submitted):
        await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def _running(*jobs: Any) -> Any:
    """The jobs while the block runs; one that fails ends the measurement."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(job) for job in jobs]
        yield
        for task in tasks:
            task.cancel()


def _milliseconds(figures: Figures) -> dict[str, dict[str, float]]:
    kinds: dict[str, list[float]] = {**figures.latencies, "submit to lease": figures.waits()}
    kinds.pop("poll", None)  # it waits for work on purpose
    return {
        kind: {"count": len(values), **{name: 1000 * quantile(values, share) for name, share in _SHARES.items()}}
        for kind, values in sorted(kinds.items())
        if values
    }


_SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


def _runs(figures: Figures, unfinished: Sequence[str]) -> dict[str, int]:
    counts = [figures.finished[run] for run in figures.submitted]
    return {
        "submitted": len(counts),
        "done once": counts.count(1),
        "done more often": sum(count > 1 for count in counts),
        "not done": counts.count(0),
        "not succeeded": len(unfinished),
    }


def _ends(samples: Sequence[int]) -> dict[str, float]:
    part = max(1, len(samples) // 10)
    return {"first": statistics.median(samples[:part]), "last": statistics.median(samples[-part:]), "max": max(samples)}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
