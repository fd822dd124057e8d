"""Weights are read and written tensor by tensor: exporting a large model takes the memory of one of its tensors."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import pockengine as pock
from pockengine.artifact import Artifact
from pockengine.codegen.onnx.model import OnnxModel
from pockengine.errors import DataError
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.tensors import Tensors, stored_tensors

WIDTH, LAYERS = 2048, 16
TENSOR_BYTES = 4 * WIDTH**2


def _wide() -> Graph:
    """256 MiB of weights; nearly all of them are 0, so that they take no time to make."""
    builder = Builder("wide")
    e, h = Emitter(builder), builder.input("x", TensorType(DType.F32, (1, WIDTH)))
    for layer in range(LAYERS):
        weight = np.zeros((WIDTH, WIDTH), np.float32)
        weight[layer] = layer
        h = e.matmul(h, builder.param(f"fc{layer}.weight", TensorType(DType.F32, weight.shape), weight))
    builder.outputs = {"logits": h}
    return builder.finish()


def _peak(artifact: Artifact, path: Path, **options: Any) -> int:
    """The most bytes that were allocated at once."""
    tracemalloc.start()
    artifact.export(path, **options)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def test_exporting_takes_the_memory_of_a_tensor_or_two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = pock.Recipe("cross_entropy", "sgd", update=[{"params": f"fc{LAYERS - 1}.weight"}])
    pock.compile(_wide(), recipe, threads=1, backend="reference").save(tmp_path / "wide.pock")
    artifact = Artifact.open(tmp_path / "wide.pock")
    trained = {name: np.asarray(array) for name, array in stored_tensors(_exported(artifact, tmp_path)).items()}
    trained["fc3.weight"][0, 0] = 7
    save_file(trained, tmp_path / "trained.safetensors")
    del trained
    peak = _peak(artifact, tmp_path / "again.safetensors", weights=tmp_path / "trained.safetensors")
    assert peak < 4 * TENSOR_BYTES
    found = stored_tensors(tmp_path / "again.safetensors")
    for layer in range(LAYERS):
        weight = np.asarray(found[f"fc{layer}.weight"])
        assert weight[layer].tolist() == [layer] * WIDTH and weight[0, 0] == (7 if layer == 3 else 0)
    save = OnnxModel.save
    monkeypatch.setattr(OnnxModel, "save", lambda model, path: save(model, path, largest=0))
    assert _peak(artifact, tmp_path / "wide.onnx") < 4 * TENSOR_BYTES
    assert (tmp_path / "wide.onnx.data").stat().st_size == LAYERS * TENSOR_BYTES


def _exported(artifact: Artifact, folder: Path) -> Path:
    (written,) = artifact.export(folder / "initial.safetensors")
    return written


ARRAYS: dict[str, Array] = {
    f"{name}.{dtype.value}": np.asarray(np.arange(6).reshape(2, 3) % 2, dtype.numpy)
    for name in ("b", "é")
    for dtype in DType
    if dtype is not DType.BIT
} | {"none": np.zeros((0, 3), np.int8), "number": np.full((), 3, np.float32)}


def test_what_is_read_is_what_the_library_reads(tmp_path: Path) -> None:
    save_file(ARRAYS, tmp_path / "a.safetensors", {"format": "pt"})
    found, expected = stored_tensors(tmp_path / "a.safetensors"), load_file(tmp_path / "a.safetensors")
    assert found.keys() == expected.keys() == ARRAYS.keys()
    for name, array in expected.items():
        deferred, read = found[name], np.asarray(found[name])
        assert (deferred.dtype, deferred.shape, deferred.nbytes) == (array.dtype, array.shape, array.nbytes)
        assert (read.dtype, read.shape, read.tobytes()) == (array.dtype, array.shape, array.tobytes())
    again = b"".join(Tensors(found, {"format": "pt"}).chunks())
    assert again == (tmp_path / "a.safetensors").read_bytes()


def _file(header: object, contents: int = 8) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(contents)


def _tensor(first: int, behind: int, **other: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [(behind - first) // 4], "data_offsets": [first, behind], **other}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not fit"),
        (struct.pack("<Q", 1 << 60) + b"{}", "does not fit"),
        (_file(b"[" * 100_000), "its header is none"),
        (_file([]), "its header is none"),
        (_file({"a": 3}), "its header is none"),
        (_file(b'{"a": 1, "a": 2}'), "a key is there twice"),
        (_file({"a": _tensor(0, 8, dtype="F31")}), "its header is none: 'F31'"),
        (_file({"a": _tensor(0, 8, shape=[-1, -2])}), "'a' has the shape"),
        (_file({"a": _tensor(0, 8, shape=[1] * 40 + [2])}), "'a' has the shape"),
        (_file({"a": _tensor(0, 8, shape=[True, 2])}), "'a' has the shape"),
        (_file({"a": _tensor(0, 8, shape=[3])}), "not as large as its type"),
        (_file({"a": _tensor(4, 8)}), "'a' does not begin where"),
        (_file({"a": _tensor(0, 8), "b": _tensor(4, 8)}), "'b' does not begin where"),
        (_file({"a": _tensor(0, 4)}), "its tensors take 4 bytes of 8"),
        (_file({"a": _tensor(0, 1 << 50)}), "bytes of 8"),
    ],
)
def test_a_malformed_file_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        stored_tensors(tmp_path / "a.safetensors")


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(_file({"a": _tensor(0, 8)}))
    found = stored_tensors(path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match="was shortened while it was read"):
        np.asarray(found["a"])
