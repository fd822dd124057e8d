"""The fleet tunes itself, with real builds and agents of two types: a cold build, trials, a build that uses what was
found; one device that lies, and one that computes wrong numbers."""

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from demo import fleet
from demo.processes import program, running
from tests.e2e.conftest import BUILD_SECONDS, Scene

SECONDS = 400.0
DISHONEST = Path(__file__).with_name("dishonest_agent.py")


@contextlib.contextmanager
def agents(scene: Scene, target: str, folder: Path, **how: str) -> Iterator[dict[str, str]]:
    """One agent for each name, at work: honest, or as `how` says. Their ids by their names."""
    with contextlib.ExitStack() as stack:
        ids = {}
        for name, kind in how.items():
            device, ids[name] = scene.enroll(f"{name}-{target}", target, folder / name)
            begin = [program("pock-agent")] if kind == "honest" else [sys.executable, str(DISHONEST), kind]
            command = [*begin, "run", "--state-dir", str(device.folder)]
            stack.enter_context(running(command, fleet.log_of(device)))
        yield ids


def build(scene: Scene, target: str) -> Any:
    """A build of the scene's model that asks for the fleet's knowledge."""
    first = scene.builds[target]
    made = scene.client.builds.create(model=first.model_id, recipe=first.recipe, target=target, threads=2, tune="fleet")
    return scene.client.builds.wait(made.id, timeout=BUILD_SECONDS)


def tuned(scene: Scene, build_id: str) -> Any:
    """The search that a build began, once it is over."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        (job,) = scene.client.tuning.jobs(build_id=build_id)
        if job.state in ("succeeded", "failed", "cancelled"):
            return job
        time.sleep(0.5)
    raise AssertionError(f"not tuned in {SECONDS} s: {job}, {list(scene.client.runs.list(part_of=job.id))}")


def known(scene: Scene, target: str) -> list[Any]:
    return list(scene.client.tuning.entries(target=target, known="true"))


def test_devices_of_two_types_tune_a_model_and_a_later_build_uses_it(scene: Scene, tmp_path: Path) -> None:
    if not fleet.can_run_aarch64():
        pytest.skip("qemu-aarch64-static is not installed")
    cold = build(scene, fleet.PI)
    assert cold.summary.tuning.hits == 0 < cold.summary.tuning.to_try
    with agents(scene, fleet.PI, tmp_path, first="honest", second="honest"):
        job = tuned(scene, cold.id)
    found = known(scene, fleet.PI)
    assert job.state == "succeeded" and job.decided == len(found) > 0, job
    again = build(scene, fleet.PI)
    assert again.id != cold.id and again.summary.tuned == "known"
    assert again.summary.tuning.hits == len(found) and again.summary.tuning.known_by == {"fleet": len(found)}
    measured = found[0].provenance["measurements"][0]
    assert measured["emulated"] and measured["agent"] and measured["device"].endswith(fleet.PI)
    scene.client.tuning.export(tmp_path / "knowledge.jsonl", fleet.PI)
    assert scene.client.tuning.import_file(tmp_path / "knowledge.jsonl", fleet.PI).kept == len(found)


def test_a_device_that_lies_and_one_that_computes_wrong_numbers_convince_nobody(scene: Scene, tmp_path: Path) -> None:
    cold = build(scene, "host")
    with agents(scene, "host", tmp_path, errs="errs", lies="lies", first="honest", second="honest") as ids:
        job = tuned(scene, cold.id)
    assert job.state == "succeeded" and job.decided > 0, job
    (distrusted,) = scene.client.tuning.distrusted()
    assert distrusted.device_id == ids["errs"] and "other numbers" in distrusted.reason
    found = known(scene, "host")
    for one in found:
        believed = {told["device_id"] for told in one.provenance["measurements"]}
        assert ids["errs"] not in believed and believed & {ids["first"], ids["second"]}
    assert any(ids["lies"] not in {told["device_id"] for told in one.provenance["measurements"]} for one in found)
    again = build(scene, "host")
    assert again.summary.tuning.hits == len(found)
    scene.builds["host"] = again
    device, device_id = scene.enroll("trains-tuned", "host", tmp_path / "trains")
    with fleet.agents_running((device,)):
        report = scene.finished(scene.request_run(device_id, "host", 200)).report
    assert report.eval_after.accuracy > 0.8
