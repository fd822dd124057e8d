"""Checkpoints of safetensors shards: what is in them is found without being read, and what is wrong is said."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from pockengine.errors import ModelError
from pockengine.tensors import Tensors, let_go, read_checkpoint

A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(4).astype(ml_dtypes.bfloat16)
INDEX = "model.safetensors.index.json"


def _sharded(folder: Path, places: Mapping[str, Any] | None = None) -> Path:
    save_file({"a": A}, folder / "one.safetensors")
    save_file({"b": B, "unlisted": B}, folder / "two.safetensors")
    weights = {"a": "one.safetensors", "b": "two.safetensors"} if places is None else places
    (folder / INDEX).write_text(json.dumps({"metadata": {"total_size": 32}, "weight_map": weights}))
    return folder


def test_shards_are_read_as_their_index_says(tmp_path: Path) -> None:
    for path in (_sharded(tmp_path), tmp_path / INDEX):
        found = read_checkpoint(path)
        assert list(found) == ["a", "b"]
        assert found["a"].tolist() == A.tolist() and found["b"].dtype == B.dtype and found["b"].tolist() == B.tolist()


def test_writing_into_a_tensor_leaves_its_file_alone(tmp_path: Path) -> None:
    save_file({"a": A}, tmp_path / "only.safetensors")
    before = (tmp_path / "only.safetensors").read_bytes()
    read_checkpoint(tmp_path)["a"][:] = 7
    assert (tmp_path / "only.safetensors").read_bytes() == before
    assert read_checkpoint(tmp_path / "only.safetensors")["a"].tolist() == A.tolist()


def _resident() -> int:
    return 1024 * int(next(x for x in Path("/proc/self/status").read_text().splitlines() if "RssFile" in x).split()[1])


def test_a_large_checkpoint_is_passed_on_in_the_memory_of_one_tensor(tmp_path: Path) -> None:
    """Holes of 8 x 64 MiB: mapped, each is given up before the next one is read."""
    size, names = 64 << 20, [f"w{i}" for i in range(8)]
    header = {
        name: {"dtype": "U8", "shape": [size], "data_offsets": [i * size, (i + 1) * size]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + 8 * size)
    found = read_checkpoint(tmp_path)
    for array in found.values():
        array.flags.writeable = False
    before, most, total = _resident(), 0, 0
    for piece in Tensors(found).chunks():
        total += len(piece)
        most = max(most, _resident() - before) if total % size < 1 << 20 else most
    assert total > 8 * size and most < 3 * size


def test_what_could_be_written_is_not_given_up(tmp_path: Path) -> None:
    save_file({"a": A}, tmp_path / "model.safetensors")
    array = read_checkpoint(tmp_path)["a"]
    array[:] = 7
    let_go(array)
    assert array.tolist() == np.full_like(A, 7).tolist()


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ({}, "must be tensors and the files"),
        ([], "must be tensors and the files"),
        ({"a": 3}, "beside the index"),
        ({"a": "../one.safetensors"}, "beside the index"),
        ({"a": "/etc/one.safetensors"}, "beside the index"),
        ({"a": "deeper/one.safetensors"}, "beside the index"),
        ({"a": "..\\one.safetensors"}, "beside the index"),
        ({"a": "config.json"}, "beside the index"),
        ({"a": ""}, "beside the index"),
        ({"a": "three.safetensors"}, "there is no file of weights"),
        ({"a": "two.safetensors"}, "says that 'a' is in 'two.safetensors', which does not hold it"),
    ],
)
def test_a_hostile_index_is_refused(places: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=message):
        read_checkpoint(_sharded(tmp_path, places))


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b"\xff", b"[" * 100_000, b'{"weight_map": {"a": "x", "a": "y"}}'])
def test_what_is_no_index_is_refused(text: bytes, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(text)
    with pytest.raises(ModelError, match="is no index of safetensors files"):
        read_checkpoint(tmp_path)


def test_an_endless_index_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / INDEX).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelError, match="has more than 100000000 bytes"):
        read_checkpoint(tmp_path)


def _shard(*tensors: tuple[int, int], size: int = 8) -> bytes:
    about = {
        f"t{i}": {"dtype": "U8", "shape": [end - begin], "data_offsets": [begin, end]}
        for i, (begin, end) in enumerate(tensors)
    }
    text = json.dumps(about).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not fit"),
        (struct.pack("<Q", 1 << 62) + bytes(8), "does not fit"),
        (_shard((0, 8), (4, 8)), "does not begin where the tensor before it ends"),
        (_shard((0, 4), (6, 8)), "does not begin where the tensor before it ends"),
        (_shard((0, 1 << 50)), "its tensors take"),
        (_shard((0, 4)), "its tensors take"),
    ],
)
def test_a_hostile_shard_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match=f"is not a whole safetensors file: .*{message}"):
        read_checkpoint(tmp_path)


def test_a_folder_says_which_file_is_meant(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no safetensors file"):
        read_checkpoint(tmp_path)
    save_file({"a": A}, tmp_path / "one.safetensors")
    save_file({"a": B}, tmp_path / "two.safetensors")
    with pytest.raises(ModelError, match="several candidates"):
        read_checkpoint(tmp_path)
    save_file({"a": A}, tmp_path / "model.safetensors")
    assert read_checkpoint(tmp_path)["a"].dtype == A.dtype
