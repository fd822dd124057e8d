"""Deltas of weights: what is restored is bit for bit what was trained, and what is not a delta is refused."""

import json
import zlib
from pathlib import Path

import pytest

from pock_agent.weights import slices
from pock_agent.weights.making import make_delta
from pock_agent.weights.restoring import base_of, is_delta, restore
from pock_agent.weights.tensors import Header, MalformedWeights, Tensor, header_bytes, read_header

BASE = "b" * 64


def write(path: Path, tensors: dict[str, tuple[str, list[int], bytes]]) -> Path:
    """A safetensors file of {name: (dtype, shape, bytes)}."""
    forms = {name: Tensor(dtype, tuple(shape)) for name, (dtype, shape, _) in tensors.items()}
    path.write_bytes(header_bytes(forms, {}) + b"".join(data for _, _, data in tensors.values()))
    return path


def read(path: Path) -> dict[str, tuple[str, list[int], bytes]]:
    with path.open("rb") as file:
        found = {}
        for name, tensor in read_header(file).tensors.items():
            file.seek(tensor.start)
            found[name] = (tensor.dtype, list(tensor.shape), file.read(tensor.nbytes))
        return found


def noise(count: int, start: int = 1) -> bytes:
    """Bytes that look random and are always the same."""
    found, state = bytearray(), start
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        found.append(state >> 16 & 0xFF)
    return bytes(found)


def flipped(data: bytes, *places: int) -> bytes:
    changed = bytearray(data)
    for place in places:
        changed[place] ^= 0xA5
    return bytes(changed)


def told(delta: Path) -> dict[str, dict[str, object]]:
    with delta.open("rb") as file:
        return dict(json.loads(read_header(file).metadata["tensors"]))


@pytest.mark.parametrize("window", [1 << 20, 64, 8])
@pytest.mark.parametrize(
    ("dtype", "shape", "places", "axis"),
    [
        ("F32", [6, 4, 3], range(0, 288, 4), None),  # all of it
        ("F32", [6, 4, 3], [48 * 2 + 5, 48 * 3, 48 * 5 + 47], 0),  # rows 2, 3 and 5
        ("F32", [6, 4, 3], [13, 61, 109, 253, 181], 1),  # channels 1 and 3
        ("F16", [2, 50], [3, 4, 101], 1),
        ("F64", [9], [8, 17], 0),
        ("BF16", [], [1], None),
        ("U8", [1, 200], [0, 199], 1),
    ],
)
def test_bits_come_back(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    window: int,
    dtype: str,
    shape: list[int],
    places: list[int],
    axis: int | None,
) -> None:
    for module in ("slices", "making", "restoring"):
        monkeypatch.setattr(f"pock_agent.weights.{module}.WINDOW", window)
    size = Tensor(dtype, tuple(shape)).nbytes
    before = {"frozen": ("F32", [3], noise(12)), "x": (dtype, shape, noise(size)), "last": ("I64", [1], noise(8))}
    after = {**before, "x": (dtype, shape, flipped(noise(size), *places))}
    base, trained = write(tmp_path / "base", before), write(tmp_path / "trained", after)
    make_delta(base, trained, BASE, tmp_path / "delta")
    assert is_delta(tmp_path / "delta") and not is_delta(base) and base_of(tmp_path / "delta") == BASE
    assert set(told(tmp_path / "delta")) == {"x"}
    if window == 1 << 20:
        assert told(tmp_path / "delta")["x"]["axis"] == axis
    restore(base, BASE, tmp_path / "delta", tmp_path / "all", everything=True, limit=1 << 20)
    assert read(tmp_path / "all") == after
    restore(base, BASE, tmp_path / "delta", tmp_path / "some", everything=False, limit=1 << 20)
    assert read(tmp_path / "some") == {"x": after["x"]}
    assert {path.name for path in tmp_path.iterdir()} == {"base", "trained", "delta", "all", "some"}


def test_only_trained_channels_cost_bytes(tmp_path: Path) -> None:
    data = noise(4 * 64 * 32)
    trained = bytearray(data)
    for row in range(64):  # every fourth channel
        for channel in range(0, 32, 4):
            place = 4 * (32 * row + channel)
            trained[place : place + 4] = noise(4, place + 7)
    base = write(tmp_path / "base", {"w": ("F32", [64, 32], data)})
    make_delta(base, write(tmp_path / "new", {"w": ("F32", [64, 32], bytes(trained))}), BASE, tmp_path / "delta")
    assert told(tmp_path / "delta")["w"]["ranges"] == [[at, at + 1] for at in range(0, 32, 4)]
    assert (tmp_path / "delta").stat().st_size < len(data) / 4 + 600


def test_a_tensor_that_the_base_has_not_or_in_another_form_comes_whole(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": ("F32", [2], noise(8)), "v": ("F32", [2], noise(8))})
    after = {"w": ("F16", [4], noise(8, 5)), "new": ("F32", [1], noise(4, 6)), "v": ("F32", [2], noise(8))}
    make_delta(base, write(tmp_path / "trained", after), BASE, tmp_path / "delta")
    restore(base, BASE, tmp_path / "delta", tmp_path / "all", everything=True, limit=1 << 20)
    assert read(tmp_path / "all") == after


def test_nothing_trained_is_an_empty_delta(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": ("F32", [2], noise(8)), "none": ("F32", [0, 5], b"")})
    make_delta(base, base, BASE, tmp_path / "delta")
    restore(base, BASE, tmp_path / "delta", tmp_path / "all", everything=True, limit=1 << 20)
    assert read(tmp_path / "all") == read(base) and told(tmp_path / "delta") == {}


def hostile(path: Path, packed: bytes, size: int | None = None, metadata: object = None, **changes: object) -> Path:
    """A delta of the tensor w: F32 [4, 4] that is wrong in some way."""
    form = {"dtype": "F32", "shape": [4, 4], "based": True, "axis": None, "ranges": [], **changes}
    tensors = {"w": Tensor("U8", (len(packed) if size is None else size,))}
    listed = json.dumps({"w": form}) if metadata is None else metadata
    known = {"format": "pock-delta", "version": "1", "base": BASE, "tensors": str(listed)}
    path.write_bytes(header_bytes(tensors, known) + packed)
    return path


GOOD = zlib.compress(bytes(64))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"packed": b"nonsense"}, "cannot be unpacked"),
        ({"packed": zlib.compress(bytes(63))}, "end too early"),
        ({"packed": zlib.compress(bytes(65))}, "do not end where"),
        ({"packed": zlib.compress(bytes(1 << 24))}, "do not end where"),
        ({"packed": GOOD[:-1]}, "do not end where"),
        ({"packed": GOOD + b"x"}, "do not end where"),
        ({"packed": GOOD + bytes(1 << 17)}, "do not end where"),
        ({"packed": GOOD, "size": 3}, "the tensors end at"),
        ({"packed": GOOD, "metadata": "{}"}, "names others"),
        ({"packed": GOOD, "metadata": "[" * 100_000}, "not JSON"),
        ({"packed": GOOD, "metadata": '{"w": 1, "w": 1}'}, "twice"),
        ({"packed": GOOD, "metadata": '{"w": 1}'}, "not described"),
        ({"packed": GOOD, "dtype": "F31"}, "unknown dtype"),
        ({"packed": GOOD, "shape": [2, -8]}, "no valid shape"),
        ({"packed": GOOD, "shape": [1 << 52, 1 << 52]}, "another form"),
        ({"packed": GOOD, "shape": [1 << 52, 1 << 52], "based": False}, "more than"),
        ({"packed": GOOD, "shape": [1 << 40, 0, 2], "based": False, "axis": 1, "ranges": []}, "do not end where"),
        ({"packed": GOOD, "shape": [2, 8]}, "another form"),
        ({"packed": GOOD, "based": 1}, "not packed"),
        ({"packed": GOOD, "axis": 2, "ranges": []}, "along no axis"),
        ({"packed": GOOD, "axis": True, "ranges": []}, "along no axis"),
        ({"packed": GOOD, "axis": 0, "ranges": [[0, 5]]}, "further ones"),
        ({"packed": GOOD, "axis": 0, "ranges": [[2, 3], [0, 1]]}, "do not ascend"),
        ({"packed": GOOD, "axis": 0, "ranges": [[0, 1]]}, "do not end where"),
        ({"packed": GOOD, "axis": None, "ranges": [[0, 1]]}, "along no axis"),
    ],
)
def test_what_is_no_delta_is_refused(tmp_path: Path, wrong: dict[str, object], said: str) -> None:
    base = write(tmp_path / "base", {"w": ("F32", [4, 4], noise(64))})
    delta = hostile(tmp_path / "delta", **wrong)  # type: ignore[arg-type]
    with pytest.raises(MalformedWeights, match=said):
        restore(base, BASE, delta, tmp_path / "out", everything=True, limit=1 << 20)
    assert not (tmp_path / "out").exists()


def test_a_delta_of_other_weights_is_refused(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": ("F32", [4, 4], noise(64))})
    with pytest.raises(MalformedWeights, match="other weights"):
        restore(base, "c" * 64, hostile(tmp_path / "delta", GOOD), tmp_path / "out", everything=True, limit=1 << 20)


def test_more_than_the_limit_is_not_written(tmp_path: Path) -> None:
    base = write(tmp_path / "base", {"w": ("F32", [4, 4], noise(64))})
    delta = hostile(tmp_path / "delta", GOOD)
    with pytest.raises(MalformedWeights, match="more than 99 bytes"):
        restore(base, BASE, delta, tmp_path / "out", everything=True, limit=99)
    restore(base, BASE, delta, tmp_path / "out", everything=True, limit=200)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"short",
        (1 << 40).to_bytes(8, "little"),
        (2).to_bytes(8, "little") + b"[]",
        (3).to_bytes(8, "little") + b"{}",
    ],
)
def test_broken_headers(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(MalformedWeights):
        is_delta(tmp_path / "file")


def test_windows_of_the_spec_are_a_mebibyte() -> None:
    assert slices.WINDOW == 1 << 20
    assert isinstance(Header({}, {}).tensors, dict)
