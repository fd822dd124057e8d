"""The main job with real processes: a model and a recipe go in, a device trains, its report comes back."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_torch

from demo import fleet
from demo.processes import program, running
from demo.table import largest_difference
from pock_client import RunFailed
from tests.e2e.conftest import BUILD_SECONDS, Scene
from tests.e2e.small_model import Files, SmallNet

STEPS = 200
FEW_STEPS = 10


def test_a_device_trains_and_its_weights_load_back_into_pytorch(scene: Scene, files: Files, tmp_path: Path) -> None:
    device, device_id = scene.enroll("host-trains", "host", tmp_path / "device")
    with fleet.agents_running((device,)):
        run = scene.finished(scene.request_run(device_id, "host", STEPS))
    train, before, after = run.report.train, run.report.eval_before, run.report.eval_after
    assert train.steps == STEPS == len(train.loss) == len(train.step_ms.samples)
    assert before.accuracy < 0.3 and after.accuracy > 0.8
    assert train.arena_bytes == scene.builds["host"].summary.arena_bytes
    assert train.peak_rss_bytes > 0
    assert run.weights_form == "delta" and run.weights_bytes < 0.95 * run.full_weights_bytes
    weights = scene.client.runs.weights(run, tmp_path / "weights.safetensors")
    model = SmallNet().eval()
    missing = model.load_state_dict(load_torch(str(weights)), strict=False)
    assert not missing.unexpected_keys
    held_out = load_file(str(files.held_out))
    with torch.no_grad():
        guesses = model(torch.from_numpy(held_out["image"])).argmax(1).numpy()
    assert float((guesses == held_out["labels"]).mean()) == pytest.approx(after.accuracy, abs=1e-6)
    delta = scene.client.runs.delta(run, tmp_path / "weights.delta")
    assert delta.stat().st_size == run.weights_bytes
    with fleet.agents_running((device,)):
        further = scene.finished(scene.request_run(device_id, "host", FEW_STEPS, weights_of=run))
    assert further.report.eval_before.accuracy == after.accuracy
    assert further.report.train.loss[0] < 0.5 * train.loss[0]


def test_an_emulated_raspberry_pi_computes_the_hosts_losses(scene: Scene, tmp_path: Path) -> None:
    if not fleet.can_run_aarch64():
        pytest.skip("qemu-aarch64-static is not installed")
    losses = {}
    for target in ("host", fleet.PI):
        device, device_id = scene.enroll(f"{target}-compares", target, tmp_path / target)
        with fleet.agents_running((device,)):
            run = scene.finished(scene.request_run(device_id, target, FEW_STEPS))
        losses[target] = run.report.train.loss
    assert len(losses["host"]) == len(losses[fleet.PI]) == FEW_STEPS
    assert largest_difference(losses["host"], losses[fleet.PI]) < 1e-4


def test_an_agent_killed_in_mid_run_finishes_it_after_a_restart(scene: Scene, tmp_path: Path) -> None:
    steps = 8_000
    device, device_id = scene.enroll("killed", "host", tmp_path / "device")
    run_id = scene.request_run(device_id, "host", steps)
    command = [program("pock-agent"), "run", "--state-dir", str(device.folder)]
    with running(command, fleet.log_of(device)) as agent:
        _wait_for_a_step(scene, run_id)
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait()
    assert scene.client.runs.get(run_id).state != "succeeded"
    with fleet.agents_running((device,)):
        report = scene.finished(run_id).report
    assert report.train.steps == steps
    assert report.eval_after.accuracy > 0.8


def test_one_flipped_byte_in_a_stored_blob_reaches_no_device_and_the_same_build_heals_it(
    scene: Scene, tmp_path: Path
) -> None:
    build = scene.builds["host"]
    manifest = scene.client.artifacts.get(build.artifact_digest)
    stored = _stored_blob(scene, manifest.members["bin/model"].sha256)
    original = stored.read_bytes()
    middle = len(original) // 2
    device, device_id = scene.enroll("flipped", "host", tmp_path / "device")
    stored.write_bytes(original[:middle] + bytes([original[middle] ^ 1]) + original[middle + 1 :])
    run_id = scene.request_run(device_id, "host", FEW_STEPS, retries={})
    with fleet.agents_running((device,)):
        with pytest.raises(RunFailed) as failed:
            scene.finished(run_id)
        assert failed.value.code in (1000, 2004)
        assert list(scene.client.runs.steps(run_id)) == []
        again = scene.client.builds.create(
            model=build.model_id, recipe=build.recipe, target=build.target, threads=build.threads
        )
        assert again.id != build.id
        scene.builds["host"] = scene.client.builds.wait(again.id, timeout=BUILD_SECONDS)
        assert stored.read_bytes() == original
        scene.finished(scene.request_run(device_id, "host", FEW_STEPS))


def _wait_for_a_step(scene: Scene, run_id: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        progress = scene.client.runs.get(run_id).progress
        if progress is not None and progress.step:
            return
        time.sleep(0.1)
    raise AssertionError(f"no step was reported: {scene.client.runs.get(run_id)}")


def _stored_blob(scene: Scene, digest: str) -> Path:
    found = [
        path for path in (scene.home / "data").rglob("*") if path.is_file() and digest in str(path).replace("/", "")
    ]
    assert len(found) == 1, f"{digest} is stored {len(found)} times"
    return found[0]
