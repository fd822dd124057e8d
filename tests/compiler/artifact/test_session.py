"""Sessions and runs: the compiled toy model against numpy, and batches that do not fit."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact, Session, WrongMachineError, run_artifact
from pockengine.codegen.native.library import NativeModel
from pockengine.errors import ArtifactError, DataError
from pockengine.targets import get
from tests.compiler.artifact.toy_artifact import TOY, make


@pytest.fixture
def session(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("POCK_CACHE_DIR", str(tmp_path / "cache"))
    with artifact.load(threads=2) as opened:
        yield opened


def batches(count: int) -> list[dict[str, np.ndarray]]:
    data = TOY.dataset(count * TOY.batch)
    return [{name: value[i * TOY.batch : (i + 1) * TOY.batch] for name, value in data.items()} for i in range(count)]


def test_training_matches_numpy(session: Session) -> None:
    before = session.state()
    losses, params = TOY.reference(batches(5))
    np.testing.assert_allclose([session.step(batch) for batch in batches(5)], losses, rtol=1e-5)
    after = session.state()
    for name, value in params.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-4, atol=1e-6)
    assert after["scale"].tobytes() == before["scale"].tobytes()
    assert np.abs(session.optimizer_state()["fc.weight.velocity"]).max() > 0


def test_predict_and_evaluate_take_any_number(session: Session) -> None:
    data = TOY.dataset(11)
    params = TOY.params()
    logits = (data["input"] * params["scale"]) @ params["fc.weight"].T + params["fc.bias"]
    np.testing.assert_allclose(session.predict({"input": data["input"]})["logits"], logits, rtol=1e-5, atol=1e-5)
    result = session.evaluate(data)
    assert result.accuracy == pytest.approx((logits.argmax(1) == data["labels"]).mean())
    losses = np.log(np.exp(logits).sum(1)) - logits[np.arange(11), data["labels"]]
    assert result.loss == pytest.approx(losses.mean(), rel=1e-5)


def test_weights_go_out_and_in(session: Session, tmp_path: Path) -> None:
    session.step(batches(1)[0])
    session.save(tmp_path / "w.safetensors")
    trained = session.state()
    stored = load_file(tmp_path / "w.safetensors")
    assert all(stored[name].tobytes() == value.tobytes() for name, value in trained.items())
    session.step(batches(1)[0])
    session.load(tmp_path / "w.safetensors")
    assert session.state()["fc.weight"].tobytes() == trained["fc.weight"].tobytes()


def test_tensors_are_set_by_name(session: Session) -> None:
    session.set_tensor("fc.bias", np.ones(3, np.float32))
    assert session.state()["fc.bias"].tolist() == [1, 1, 1]
    with pytest.raises(DataError, match="did you mean 'fc.bias'"):
        session.set_tensor("fc.bais", np.ones(3, np.float32))
    with pytest.raises(DataError, match=r"'fc.bias' is float32\[3\]"):
        session.set_tensor("fc.bias", np.ones(4, np.float32))
    with pytest.raises(DataError, match="'scale' differs from the one compiled in"):
        session.set_tensor("scale", np.ones(5, np.float32))


def test_labels_of_another_integer_type(session: Session) -> None:
    batch = batches(1)[0]
    narrow = {"input": batch["input"], "labels": batch["labels"].astype(np.uint8)}
    assert session.evaluate(narrow).loss == session.evaluate(batch).loss


def broken(**changes: np.ndarray | None) -> dict[str, np.ndarray]:
    merged = {**batches(1)[0], **changes}
    return {name: value for name, value in merged.items() if value is not None}


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (broken(input=None, inptu=np.zeros((8, 5))), "'inptu' is no input of the model .did you mean 'input'"),
        (broken(labels=None), "the batch lacks 'labels'"),
        (broken(input=np.zeros((8, 4), np.float32)), r"'input' has shape \[8, 4\], the model needs \[N, 5\]"),
        (broken(input=np.zeros((8, 5))), "'input' is float64, the model needs float32: use .astype"),
        (broken(labels=np.zeros(8, np.float32)), "'labels' is float32, the model needs int64"),
        (broken(labels=np.zeros(7, np.int64)), "different numbers of samples: 7, 8"),
        (broken(input=np.zeros((4, 5), np.float32), labels=np.zeros(4, np.int64)), "takes 8 samples, not 4"),
        (broken(labels=np.full(8, 3)), "'labels' in the batch holds 3 at sample 0; it must be 0 to 2"),
        (broken(labels=np.array([0, -1, 0, 0, 0, 0, 0, 0])), "holds -1 at sample 1"),
        (broken(input=np.full((8, 5), np.nan, np.float32)), "'input' in the batch holds a NaN at sample 0"),
        (broken(input=np.zeros((0, 5), np.float32), labels=np.zeros(0, np.int64)), "has no samples"),
    ],
)
def test_batches_that_do_not_fit(batch: dict[str, np.ndarray], message: str, session: Session) -> None:
    with pytest.raises(DataError, match=message):
        session.step(batch)


def test_closed_session(session: Session) -> None:
    session.close()
    session.close()
    with pytest.raises(ArtifactError, match="closed"):
        session.state()


def test_too_many_threads(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_CACHE_DIR", str(tmp_path))
    with pytest.raises(DataError, match="compiled for at most 4"):
        artifact.load(threads=5)


def test_other_machines_are_refused(artifact: Artifact) -> None:
    target = {**artifact.manifest.target, "name": "raspberry-pi-4", "triple": "aarch64-linux-musl"}
    foreign = dataclasses.replace(artifact, manifest=dataclasses.replace(artifact.manifest, target=target))
    with pytest.raises(WrongMachineError, match="compile with target 'host'"):
        foreign.load()


def built_for(artifact: Artifact, cpu: str) -> Artifact:
    target = {**artifact.manifest.target, "cpu": cpu, "features": []}
    return dataclasses.replace(artifact, manifest=dataclasses.replace(artifact.manifest, target=target))


def test_what_a_lesser_processor_of_the_kind_can_run_is_loaded(artifact: Artifact) -> None:
    built_for(artifact, {"x86_64": "x86_64", "aarch64": "generic"}[get("host").arch]).load().close()


@pytest.mark.parametrize("cpu", ["more", "that-nobody_knows"])
def test_what_needs_more_than_this_processor_has_is_refused(artifact: Artifact, cpu: str) -> None:
    more = {"x86_64": "x86_64_v4+xop+amx_bf16", "aarch64": "generic+sme2+rand"}[get("host").arch]  # no processor's
    with pytest.raises(WrongMachineError, match="compile with target 'host'"):
        built_for(artifact, more if cpu == "more" else cpu).load()


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = (
        "import sys; from pockengine.artifact import run_artifact; "
        "sys.exit(run_artifact(sys.argv[1], sys.argv[2], sys.argv[3:]))"
    )
    return subprocess.run([sys.executable, "-c", script, str(path), *arguments], capture_output=True, text=True)


def test_run_passes_arguments_and_exit_code(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POCK_CACHE_DIR", str(tmp_path / "cache"))
    save_file(TOY.dataset(), tmp_path / "d.safetensors")
    done = run(saved, "train", "--data", str(tmp_path / "d.safetensors"), "--steps", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"event":"step"') == 2
    missing = run(saved, "train", "--data", str(tmp_path / "none"), "--steps", "2")
    assert (missing.returncode, missing.stdout) == (4, "")
    assert "cannot read" in missing.stderr


def test_run_of_another_architecture(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    if not (shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")):
        pytest.skip("qemu-user is not installed")
    monkeypatch.setenv("POCK_CACHE_DIR", str(tmp_path / "cache"))
    make(tmp_path / "pi", get("raspberry-pi-4")).save(tmp_path / "pi.pock")
    save_file(TOY.dataset(8), tmp_path / "d.safetensors")
    with artifact.load(threads=2) as session:
        losses = [session.step(batches(1)[0]) for _ in range(3)]
    arguments = ["--data", str(tmp_path / "d.safetensors"), "--steps", "3", "--no-shuffle", "--threads", "2"]
    assert run_artifact(tmp_path / "pi.pock", "train", [*arguments, "--report", str(tmp_path / "r.json")]) == 0
    report = json.loads((tmp_path / "r.json").read_text())
    np.testing.assert_allclose(report["loss"], losses, rtol=1e-4)
    assert report["target"] == "raspberry-pi-4"
    monkeypatch.setenv("PATH", "")
    with pytest.raises(WrongMachineError, match="install qemu-user-static"):
        run_artifact(tmp_path / "pi.pock", "train", arguments)


def test_errors_do_not_say_where_an_artifact_is_unpacked(artifact: Artifact, tmp_path: Path) -> None:
    folder = tmp_path / "unpacked"
    shutil.copytree(artifact.unpack(), folder)
    (folder / "params.safetensors").write_bytes(b"{}")
    consts = folder / "consts.safetensors" if (folder / "consts.safetensors").exists() else None
    with pytest.raises((ArtifactError, DataError), match="params.safetensors") as caught:
        NativeModel(folder / artifact.manifest.entry_points.library, folder / "params.safetensors", consts, 1)
    assert str(tmp_path) not in str(caught.value)
