"""A phone on a cable: a build for its chip, run on it over adb. The phone is a folder, and qemu is its processor."""

import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from demo import fleet
from demo.processes import program, running
from demo.table import largest_difference
from tests.agent.adb.phone import EMULATOR, FakePhone
from tests.e2e.conftest import BUILD_SECONDS, Scene
from tests.e2e.small_model import RECIPE

PHONE = "snapdragon-8-gen-3"
STEPS = 300
PATIENCE = 240.0

needs_emulator = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which(EMULATOR) is None, reason="qemu-aarch64-static is not installed"
)


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePhone:
    folder = tmp_path / "phones"
    folder.mkdir()
    found = FakePhone(folder)
    found.emulate()
    monkeypatch.setenv("ADB", found.adb)
    return found


@pytest.fixture
def enrolled(scene: Scene, phone: FakePhone, tmp_path: Path) -> tuple[fleet.Device, str]:
    """An agent for the phone, as a person enrols one, and its id; a build for it is in the scene."""
    if PHONE not in scene.builds:
        host = scene.builds["host"]
        request = scene.client.builds.create(model=host.model_id, recipe=RECIPE, target=PHONE, threads=2)
        scene.builds[PHONE] = scene.client.builds.wait(request.id, timeout=BUILD_SECONDS)
    name, state = f"phone-{tmp_path.name}", tmp_path / "phone"
    token = scene.client.enrolment_tokens.create(name=name).token
    command = [program("pock-agent"), "enroll", "--adb", scene.url, token, "--name", name, "--state-dir", str(state)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"target {PHONE}" in said
    return fleet.Device(name, PHONE, state), scene.client.devices.find(name).id


def on_host(scene: Scene, folder: Path, steps: int) -> Any:
    """The same training on this machine."""
    device, device_id = scene.enroll(f"host-{folder.parent.name}", "host", folder)
    with fleet.agents_running((device,)):
        return scene.finished(scene.request_run(device_id, "host", steps))


@needs_emulator
def test_a_phone_trains_and_goes_on_where_its_cable_was_pulled(
    scene: Scene, phone: FakePhone, enrolled: tuple[fleet.Device, str], tmp_path: Path
) -> None:
    """Its losses are the host's; what it reports of itself is its own; it keeps nothing."""
    device, device_id = enrolled
    run_id = scene.request_run(device_id, PHONE, STEPS)
    with running([program("pock-agent"), "run", "--adb", "--state-dir", str(device.folder)], fleet.log_of(device)):
        wait_for(lambda: (scene.client.runs.get(run_id).progress or NOTHING).step)
        phone.pull_cable()
        wait_for(lambda: scene.client.runs.get(run_id).paused)
        waiting = scene.client.runs.get(run_id)
        assert waiting.paused is not None and waiting.progress is not None and 0 < waiting.progress.step < STEPS
        assert f"the phone {phone.serial}: it is not attached" in waiting.paused.reason
        phone.plug_in()
        run = scene.finished(run_id)
    host = on_host(scene, tmp_path / "host", STEPS)
    train = run.report.train
    assert len(train.loss) == STEPS
    assert largest_difference(train.loss[:50], host.report.train.loss[:50]) < 1e-4
    assert largest_difference(train.loss, host.report.train.loss) < 1e-2
    assert [one.step for one in scene.client.runs.steps(run_id)] == list(range(1, STEPS + 1))
    assert run.report.eval_after.accuracy == pytest.approx(host.report.eval_after.accuracy, abs=0.02)
    weights, wanted = (load_file(str(scene.client.runs.weights(one, tmp_path / f"{one.id}.st"))) for one in (run, host))
    assert weights.keys() == wanted.keys()
    assert all(np.allclose(weights[name], wanted[name], atol=1e-2) for name in wanted)
    health = run.report.health
    assert (health["pauses"], health["emulated"], health["before"]["battery_percent"]) == (1, False, 67.0)
    assert phone.left() == []


class NOTHING:
    """A run that has not begun."""

    step = None


def wait_for(condition: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)
