"""Weights in files beside an ONNX model: mapped, never copied, and read from nowhere else."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from pockengine.errors import ModelError
from pockengine.frontends import load, survey
from pockengine.ir import DType
from pockengine.tensors import let_go

from ..onnx_models import model, save

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4)
MIB = 1 << 20


def external(folder: Path, location: str, **entries: str) -> Path:
    """A model whose weight lies in another file."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")
    proto = model([node], {"x": (np.float32, [2, 3])}, ["y"], {"w": WEIGHT})
    tensor = proto.graph.initializer[0]
    (folder / "w.bin").write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    _lies(tensor, location, **entries)
    return _written(proto, folder)


def _lies(tensor: onnx.TensorProto, location: str, **entries: str) -> None:
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)


def _written(proto: onnx.ModelProto, folder: Path) -> Path:
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def layers(folder: Path, count: int, width: int) -> Path:
    """Products with weights in f16, all of them holes of one file: they take no disk."""
    nodes = [helper.make_node("MatMul", [f"h{i}", f"w{i}"], [f"h{i + 1}"], name=f"fc{i}") for i in range(count)]
    proto = model(nodes, {"h0": (np.float16, [1, width])}, [f"h{count}"])
    nbytes = 2 * width * width
    for i in range(count):
        tensor = onnx.TensorProto(name=f"w{i}", data_type=onnx.TensorProto.FLOAT16, dims=[width, width])
        _lies(tensor, "weights", offset=str(i * nbytes), length=str(nbytes))
        proto.graph.initializer.append(tensor)
    with (folder / "weights").open("wb") as file:
        file.truncate(count * nbytes)
    return save(proto, folder / "m.onnx")


def message(path: Path, read: Callable[[Path], object] = load) -> str:
    with pytest.raises(ModelError) as caught:
        read(path)
    return str(caught.value)


def _resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_weights_are_mapped(tmp_path: Path) -> None:
    weight = load(external(tmp_path, "w.bin", offset="0", length="48")).data["w"]
    np.testing.assert_array_equal(weight, WEIGHT)
    assert not weight.flags.writeable
    owner: object = weight
    while isinstance(owner, np.ndarray | memoryview):
        owner = owner.obj if isinstance(owner, memoryview) else owner.base
    assert isinstance(owner, mmap.mmap)


def test_weights_stay_on_disk_and_in_16_bits(tmp_path: Path) -> None:
    path = layers(tmp_path, 8, 4096)
    survey(path), load(path)  # what the first import brings in is no matter
    before = _resident()
    survey(path)
    graph = load(path)
    assert _resident() - before < 16 * MIB
    assert sum(array.nbytes for array in graph.data.values()) == 256 * MIB
    assert {value.type.dtype for value in graph.params} == {DType.F16}
    assert not graph.data["w3"].any()
    assert _resident() - before > 24 * MIB  # what was looked at is in memory until it is let go
    let_go(graph.data["w3"])
    assert _resident() - before < 16 * MIB


def test_many_weights_take_one_open_file(tmp_path: Path) -> None:
    path = layers(tmp_path, 50, 8)
    before = len(os.listdir("/proc/self/fd"))
    graph = load(path)
    assert len(graph.data) == 50
    assert len(os.listdir("/proc/self/fd")) - before <= 2


def test_file_missing(tmp_path: Path) -> None:
    assert "there is no file" in message(external(tmp_path, "other.bin"))
    assert survey(external(tmp_path, "other.bin")).missing_weights


def test_file_short(tmp_path: Path) -> None:
    path = external(tmp_path, "w.bin")
    (tmp_path / "w.bin").write_bytes(b"\0" * 40)
    assert "is truncated: 'w' ends at byte 48 of 40" in message(path)
    (tmp_path / "w.bin").write_bytes(b"")
    assert "is truncated: 'w' ends at byte 48 of 0" in message(path)


@pytest.mark.parametrize("read", [load, survey])
@pytest.mark.parametrize(
    "location, entries, sentence",
    [
        ("w.bin", {"offset": "1"}, "is truncated: 'w' ends at byte 49 of 48"),
        ("w.bin", {"offset": str(2**64)}, "is truncated"),
        ("w.bin", {"offset": "-1"}, "begins at byte -1 of its file"),
        ("w.bin", {"offset": "9" * 5000}, "an external position that is not a number"),
        ("w.bin", {"length": "-48"}, "has -48 bytes instead of 48"),
        ("w.bin", {"length": "4"}, "has 4 bytes instead of 48"),
        ("w\0.bin", {}, "a file of no valid name"),
        ("folder", {}, "folder' is no file"),
        ("pipe", {}, "pipe' is no file"),
        ("../w.bin", {}, "outside the model's folder"),
        ("/etc/passwd", {}, "outside the model's folder"),
        ("a/../../w.bin", {}, "outside the model's folder"),
        ("", {}, "outside the model's folder"),
        ("link", {}, "outside the model's folder"),
        ("circle", {}, "the tensor 'w'"),
    ],
)
def test_what_lies_nowhere_is_refused(tmp_path, location, entries, sentence, read) -> None:
    inner = tmp_path / "inner"
    (inner / "folder").mkdir(parents=True)
    os.mkfifo(inner / "pipe")
    (tmp_path / "w.bin").write_bytes(b"\0" * 48)
    (inner / "link").symlink_to(tmp_path / "w.bin")
    (inner / "circle").symlink_to(inner / "circle")
    assert sentence in message(external(inner, location, **entries), read)


def test_a_name_too_long_is_a_missing_file(tmp_path: Path) -> None:
    assert "File name too long" in message(external(tmp_path, "x" * 5000))
    assert survey(external(tmp_path, "x" * 5000)).missing_weights
