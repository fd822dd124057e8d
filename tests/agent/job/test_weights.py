"""Weights that come with a job and go back from it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from pock_agent.errors import FailureCode
from pock_agent.features import FEATURES
from pock_agent.trust.manifest import WeightsForm
from pock_agent.weights.making import make_delta
from pock_agent.weights.restoring import restore
from pock_agent.weights.tensors import Tensor, header_bytes
from tests.agent.conftest import Device

ONES, TWOS, THREES = (bytes([value]) * 16 for value in (1, 2, 3))


def weights(**tensors: bytes) -> bytes:
    """A safetensors file of f32 tensors."""
    forms = {name: Tensor("F32", (len(data) // 4,)) for name, data in tensors.items()}
    return header_bytes(forms, {"format": "pt"}) + b"".join(tensors.values())


BASE = weights(frozen=ONES, head=ONES)


def order(device: Device, leave: bytes, initial: bytes | None = None, **run: Any) -> dict[str, Any]:
    """The result of a job of an artifact whose parameters are BASE, and whose training leaves these weights."""
    job = device.job({"train": {"leave": leave.hex()}})
    job["artifact"]["members"]["params.safetensors"] = device.double.add_blob(BASE)
    job["run"].update(weights_form="delta", **run)
    if initial is not None:
        job["data"]["weights"] = device.double.add_blob(initial)
    device.double.give(device.double.seal(job))
    device.run()
    (result,) = device.double.results[job["run_id"]]
    return dict(result)


def delta_of(folder: Path, trained: bytes, base: bytes = BASE) -> bytes:
    (folder / "base").write_bytes(base)
    (folder / "new").write_bytes(trained)
    make_delta(folder / "base", folder / "new", hashlib.sha256(base).hexdigest(), folder / "delta")
    return (folder / "delta").read_bytes()


def test_trained_weights_go_back_as_what_changed(device: Device, tmp_path: Path) -> None:
    result = order(device, weights(head=TWOS))
    assert (result["state"], result["weights_form"]) == ("succeeded", "delta")
    assert result["report"]["train"]["found"]["saving"] == "--save-trained"
    ((digest, delta),) = device.double.uploads.items()
    assert result["weights_digest"] == digest
    (tmp_path / "base").write_bytes(BASE)
    (tmp_path / "delta").write_bytes(delta)
    base_digest = hashlib.sha256(BASE).hexdigest()
    restore(tmp_path / "base", base_digest, tmp_path / "delta", tmp_path / "all", everything=True, limit=1 << 20)
    assert (tmp_path / "all").read_bytes() == weights(frozen=ONES, head=TWOS)


def test_a_service_of_before_gets_all_of_them(device: Device) -> None:
    result = device.carry_out()
    assert "weights_form" not in result
    assert result["report"]["train"]["found"]["saving"] == "--save"


@pytest.mark.parametrize("as_delta", [True, False])
def test_a_run_begins_with_the_weights_that_came(device: Device, tmp_path: Path, as_delta: bool) -> None:
    initial = weights(head=THREES)
    given = delta_of(tmp_path, initial) if as_delta else initial
    result = order(device, weights(frozen=ONES, head=TWOS), given)
    report = result["report"]
    assert result["state"] == "succeeded"
    assert report["eval_before"]["found"]["loaded"] == report["train"]["found"]["loaded"] == initial.hex()
    assert report["eval_after"]["found"]["loaded"] == weights(frozen=ONES, head=TWOS).hex()
    assert report["train"]["found"]["saving"] == "--save"  # what was loaded may differ anywhere
    assert list(device.double.uploads.values()) == [delta_of(tmp_path, weights(head=TWOS))]


def test_weights_of_another_artifact_are_refused(device: Device, tmp_path: Path) -> None:
    other = delta_of(tmp_path, weights(head=TWOS), weights(head=THREES))
    result = order(device, weights(head=TWOS), other)
    assert result["state"] == "failed" and result["failure"]["code"] == FailureCode.BAD_DATA
    assert "belongs to other weights" in result["failure"]["detail"]


def test_what_is_no_file_of_weights_is_refused(device: Device) -> None:
    for nonsense in (b"no weights", weights(head=ONES)[:-1]):
        result = order(device, weights(head=TWOS), nonsense)
        assert result["failure"]["code"] == FailureCode.BAD_DATA


def test_a_model_that_leaves_no_weights_fails(device: Device) -> None:
    result = order(device, b"these are no weights")
    assert result["failure"]["code"] == FailureCode.CRASHED
    assert "cannot be read" in result["failure"]["detail"] and "weights_digest" not in result
    assert device.double.uploads == {}


def test_the_agent_tells_what_it_knows() -> None:
    assert {"weights-delta", "initial-weights"} <= set(FEATURES)
    assert {form.value for form in WeightsForm} == {"safetensors", "delta"}
