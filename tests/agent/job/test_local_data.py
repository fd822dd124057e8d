"""Data that stays on the device: named, told of, trained on as it was when the run was asked for, and never sent."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pock_agent import cli
from pock_agent.disk.local_data import LocalData, digest_of
from pock_agent.disk.safetensors import MalformedSafetensors, read_tensors
from pock_agent.errors import AgentError
from tests.agent import fake_model
from tests.agent.conftest import Device
from tests.agent.driver import spawn
from tests.agent.service_double import ServiceDouble

SECRET = b"the-cat-is-called-Minki"


def file_of(path: Path, told: object = None) -> Path:
    """A data set of two samples whose numbers and metadata nobody else may see."""
    content = fake_model.dataset({**(told or {}), "who": SECRET.decode()})  # type: ignore[dict-item]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content[:-48] + (SECRET * 3)[:48])
    return path


@pytest.fixture
def pets(device: Device, tmp_path: Path) -> Path:
    """A file in a folder with a name of its own, which the device's owner named."""
    path = file_of(tmp_path / "private-folder" / "cats.safetensors")
    LocalData(device.state).add("pets", path)
    return path


def job_on(device: Device, name: str = "pets", **changes: Any) -> dict[str, Any]:
    """A proper payload whose data is what the device names so."""
    found = LocalData(device.state).all()[name]
    payload = device.job(**changes)
    source = {"local": name, "sha256": found.sha256, "size": found.size}
    return {**payload, "data": {"train": source, "eval": source}}


def result_of(device: Device, payload: dict[str, Any]) -> dict[str, Any]:
    device.double.give(device.double.seal(payload))
    device.run()
    (result,) = device.double.results[payload["run_id"]]
    return dict(result)


def test_a_job_reads_it_and_nothing_of_it_leaves(device: Device, pets: Path) -> None:
    """Every byte that the service ever got is searched, from the enrolment on."""
    told = LocalData(device.state).listing()
    payload = job_on(device)
    process = spawn(device.state.root)
    device.double.wait_for(lambda: device.double.listings, "the listing")
    device.double.give(device.double.seal(payload))
    process.communicate(timeout=20)
    (result,) = device.double.results[payload["run_id"]]
    assert result["state"] == "succeeded"
    assert device.double.listings == [{"datasets": told, "digest": digest_of(told)}]
    assert set(told[0]) == {"name", "digest", "size", "samples", "tensors"}
    assert told[0]["tensors"] == [
        {"name": "input", "dtype": "f32", "shape": [2, 4]},
        {"name": "labels", "dtype": "i64", "shape": [2]},
    ]
    assert len(device.double.received) > 10
    for message in device.double.received:
        for secret in (SECRET, SECRET[:8], b"private-folder", b"cats", str(pets.parent).encode()):
            assert secret not in message


def test_the_child_has_a_copy_that_it_cannot_change(device: Device, tmp_path: Path) -> None:
    told = {"train": {"overwrite": "data/train.safetensors"}}
    path = file_of(tmp_path / "cats", told)
    LocalData(device.state).add("pets", path)
    before = path.read_bytes()
    result_of(device, job_on(device))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path, data: path.write_bytes(path.read_bytes()[:-1] + b"x"), "'pets' changed since it was named"),
        (lambda path, data: path.write_bytes(path.read_bytes() + b"more"), "'pets' changed since it was named"),
        (lambda path, data: path.unlink(), "'pets' cannot be copied: No such file"),
        (lambda path, data: data.remove("pets"), "'pets' is no longer on this device"),
        (lambda path, data: data.add("pets", file_of(path, {"eval": {}})), "'pets' was replaced since the run"),
    ],
    ids=["changed", "grown", "gone", "removed", "replaced"],
)
def test_what_is_not_what_was_named_fails_with_a_sentence(
    change: Any, sentence: str, device: Device, pets: Path
) -> None:
    payload = job_on(device)
    change(pets, LocalData(device.state))
    result = result_of(device, payload)
    assert result["failure"]["code"] == 10004 and sentence in result["failure"]["detail"]
    assert str(pets.parent) not in json.dumps(result)


def test_a_paused_job_goes_on_with_the_data_that_it_began_with(device: Device, tmp_path: Path, flag: Path) -> None:
    told = {"train": {"hang_after": 70, "hang_at": str(flag)}, "eval": {}, "eval_loaded": {}}
    path = file_of(tmp_path / "cats", told)
    LocalData(device.state).add("pets", path)
    payload = job_on(device, run={"steps": 120})
    device.double.give(device.double.seal(payload))
    process = spawn(device.state.root)
    device.double.wait_for(lambda: any(e.get("step") == 70 for e in device.double.events[payload["run_id"]]), "step 70")
    device.state.owners_policy.write_text("max_minutes_per_day = 0\n")
    device.double.wait_for(lambda: '"paused"' in device.state.job_record.read_text(), "the pause")
    path.write_bytes(b"something else")
    flag.unlink()
    device.state.owners_policy.unlink()
    process.communicate(timeout=20)
    assert device.double.results[payload["run_id"]][0]["state"] == "succeeded"


@pytest.mark.parametrize(
    "source",
    [
        {"local": "../pets"},
        {"local": ""},
        {"local": 3},
        {"local": None},
        {"local": "pets", "more": 1},
        {"local": "pets", "sha256": "x"},
    ],
)
def test_a_manifest_that_names_data_wrongly_is_refused(source: dict[str, Any], device: Device, pets: Path) -> None:
    payload = job_on(device)
    payload["data"] = {"train": {**payload["data"]["train"], **source}, "eval": None}
    result = result_of(device, payload)
    assert result["failure"]["code"] == 2004


def test_the_commands(device: Device, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = file_of(tmp_path / "train"), file_of(tmp_path / "test", {"x": 1})
    state = ["--state-dir", str(device.state.root)]
    assert cli.main(["data", "add", "pets", str(train), "--eval", str(test), *state]) == 0
    assert capsys.readouterr().out.startswith("pets: 2 samples, ")
    assert cli.main(["data", "list", "--json", *state]) == 0
    shown = json.loads(capsys.readouterr().out)["datasets"]
    assert [(one["name"], one["path"]) for one in shown] == [("pets", str(train)), ("pets-eval", str(test))]
    assert cli.main(["data", "list", *state]) == 0
    assert "input f32[2, 4], labels i64[2]" in capsys.readouterr().out
    assert cli.main(["data", "remove", "pets", *state]) == 0
    assert cli.main(["data", "remove", "pets", *state]) == 2
    assert "no data is named 'pets' here" in capsys.readouterr().err
    assert list(LocalData(device.state).all()) == ["pets-eval"] and train.exists()


def test_what_changes_is_told_anew(device: Device, pets: Path) -> None:
    process = spawn(device.state.root)
    double: ServiceDouble = device.double
    try:
        double.wait_for(lambda: len(double.listings) == 1, "the listing")
        LocalData(device.state).remove("pets")
        double.wait_for(lambda: len(double.listings) == 2, "the empty listing")
        beats = len(double.heartbeats)
        double.wait_for(lambda: len(double.heartbeats) > beats + 2, "heartbeats")
    finally:
        process.kill()
        process.communicate()
    assert double.listings[1:] == [{"datasets": [], "digest": ""}]


def raw(header: object, data: int = 0, length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + bytes(data)


def one(**changes: Any) -> dict[str, Any]:
    return {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it is no safetensors file"),
        (raw(one(), 8, 1 << 62), "it is no safetensors file, or its header is too long"),
        (raw(b"{" + b" " * (1 << 20), 8), "its header is too long"),
        (raw(b"[1]"), "its header is no JSON object"),
        (raw(b"{" + b'"a":{' * 50_000), "its header is no JSON"),
        (raw(b'{"x":1,"x":1}'), "names something twice"),
        (raw({}), "it has 0 tensors"),
        (raw({f"t{n}": 1 for n in range(101)}), "it has 101 tensors"),
        (raw({"x\n": 1}), "cannot be printed"),
        (raw(one(dtype="C64"), 8), "no valid dtype and shape"),
        (raw(one(dtype=["F32"]), 8), "no valid dtype and shape"),
        (raw(one(shape=[-2]), 8), "no valid dtype and shape"),
        (raw(one(shape=[True, 2]), 8), "no valid dtype and shape"),
        (raw(one(shape=[1] * 17), 8), "no valid dtype and shape"),
        (raw(one(data_offsets=[0, 9]), 9), "do not fit its dtype and shape"),
        (raw(one(data_offsets=[4, 12]), 12), "leaves a hole"),
        (raw(one(), 7), "the tensors cover 8 bytes, and the file holds 7"),
        (raw({"x": 3}, 7), "no valid dtype and shape"),
        (raw(one(shape=[], data_offsets=[0, 4]), 4), "no first dimension in common"),
        (raw(one(shape=[0], data_offsets=[0, 0])), "no first dimension in common"),
        (raw({**one(), "y": {"dtype": "U8", "shape": [3], "data_offsets": [8, 11]}}, 11), "no first dimension"),
    ],
)
def test_files_that_are_no_data(content: bytes, sentence: str, device: Device, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(AgentError) as caught:
        LocalData(device.state).add("pets", path)
    assert sentence in str(caught.value)
    assert LocalData(device.state).all() == {}


@pytest.mark.parametrize("name", ["", "../x", "a b", "é", "x" * 101, "-x"])
def test_names_that_are_none(name: str, device: Device, pets: Path) -> None:
    with pytest.raises(AgentError, match="is no name for data"):
        LocalData(device.state).add(name, pets)


@pytest.mark.parametrize("content", ["{", "[]", '{"pets": 1}', '{"pets": {"path": "x"}}'])
def test_a_damaged_list_stops_no_heartbeat(content: str, device: Device) -> None:
    device.state.local_data.write_text(content)
    process = spawn(device.state.root)
    try:
        device.double.wait_for(lambda: len(device.double.heartbeats) > 2, "heartbeats")
    finally:
        process.kill()
        process.communicate()
    with pytest.raises(AgentError, match=r"data\.json is damaged"):
        LocalData(device.state).all()


def test_the_header_alone_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(raw({"x": {"dtype": "U8", "shape": [1 << 40], "data_offsets": [0, 1 << 40]}}))
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + (1 << 40))
    (tensor,) = read_tensors(path)
    assert tensor.shape == (1 << 40,)
    with pytest.raises(MalformedSafetensors):
        read_tensors(Path("/dev/null"))
