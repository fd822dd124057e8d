"""Parts that need no service: events out of bytes, the external files of a model, enumerations, pauses."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import msgspec
import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from pock_client import BuildState, Entry, PockClientError, ServiceError
from pock_client.onnx_files import external_files
from pock_client.retry import Attempts
from pock_client.sse import Parser, Sent

LINES = st.sampled_from(
    [b"data: a", b"data:b", b"data", b"event: state", b"id: 7", b": ping", b"", b"other: x", b"id:8"]
)


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n"]))), st.lists(st.integers(0, 400)))
def test_events_do_not_depend_on_where_the_bytes_are_cut(lines: list[tuple[bytes, bytes]], cuts: list[int]) -> None:
    text = b"".join(line + end for line, end in lines)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    parser = Parser()
    found = [one for a, b in itertools.pairwise(places) for one in parser.feed(text[a:b])]
    assert found == Parser().feed(text)


def test_an_event_has_all_its_lines() -> None:
    text = b": hello\r\nid: 3\r\nevent: log\ndata: one\ndata:two\n\ndata: three\n\nid: 4\n\n"
    assert Parser().feed(text) == [Sent(3, "log", b"one\ntwo"), Sent(3, "message", b"three")]


def save(path: Path, *locations: str, inside: bool = False) -> None:
    """A model that keeps a tensor in each of these files; `inside`: in a branch of an If."""
    tensors = []
    for number, location in enumerate(locations):
        tensor = numpy_helper.from_array(np.ones(4, np.float32), f"w{number}")
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value=location)
        tensor.external_data.add(key="offset", value="0")
        tensors.append(tensor)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4])
    if inside:
        branch = helper.make_graph([], "branch", [], [output], tensors)
        node = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
        graph = helper.make_graph([node], "net", [], [output])
    else:
        graph = helper.make_graph([], "net", [], [output], tensors)
    path.write_bytes(helper.make_model(graph).SerializeToString())


@pytest.mark.parametrize("inside", [False, True])
def test_the_files_of_a_model_are_found(inside: bool, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("net.data", "deep/more.bin"):
        (tmp_path / name).write_bytes(bytes(16))
    save(tmp_path / "net.onnx", "net.data", "deep/more.bin", "net.data", inside=inside)
    assert external_files(tmp_path / "net.onnx") == {
        "net.data": (tmp_path / "net.data").resolve(),
        "deep/more.bin": (tmp_path / "deep/more.bin").resolve(),
    }


def test_a_model_as_onnx_writes_it(tmp_path: Path) -> None:
    weight = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    graph = helper.make_graph(
        [], "net", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64])], [weight]
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx", save_as_external_data=True, location="net.weights")
    assert list(external_files(tmp_path / "net.onnx")) == ["net.weights"]


@pytest.mark.parametrize(
    ("location", "sentence"),
    [
        ("../secret", "no plain path"),
        ("/etc/passwd", "no plain path"),
        ("..", "no plain path"),
        ("a/../../secret", "no plain path"),
        ("out", "leads out of its folder"),
        ("link/secret", "leads out of its folder"),
        ("missing", "is not there"),
        ("", "no plain path"),
    ],
)
def test_a_model_cannot_have_other_files_sent(location: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a key")
    home = tmp_path / "home"
    home.mkdir()
    (home / "out").symlink_to(tmp_path / "secret")
    (home / "link").symlink_to(tmp_path)
    save(home / "net.onnx", location)
    with pytest.raises(PockClientError, match=sentence):
        external_files(home / "net.onnx")


@given(st.binary(min_size=1, max_size=300))
def test_what_is_no_model_has_no_files_or_is_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.onnx"
    path.write_bytes(data)
    with contextlib.suppress(PockClientError):
        assert external_files(path) == {}


def test_a_model_that_nests_for_ever_is_no_model(tmp_path: Path) -> None:
    data = b""
    for _ in range(3000):  # a node's attribute has a graph, which has a node, …
        for tag in (0x32, 0x2A, 0x0A):
            size, length = len(data), b""
            while size > 127:
                length, size = length + bytes([size & 127 | 128]), size >> 7
            data = bytes([tag]) + length + bytes([size]) + data
    (tmp_path / "net.onnx").write_bytes(data)
    assert external_files(tmp_path / "net.onnx") == {}


def test_members_that_are_not_known_yet_keep_their_text() -> None:
    state = msgspec.json.decode(b'"paused"', type=BuildState)
    assert (state, str(state), repr(state)) == ("paused", "paused", "<BuildState.paused: 'paused'>")
    assert state not in list(BuildState) and msgspec.json.encode(state) == b'"paused"'
    assert msgspec.json.decode(b'"failed"', type=BuildState) is BuildState.failed
    assert Entry("train") is Entry.train
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b"7", type=BuildState)


def test_pauses_grow_and_end_with_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("random.uniform", lambda low, high: high)
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    attempts, error, pauses = Attempts(60), ServiceError(503, "busy", retryable=True), []
    with pytest.raises(ServiceError):
        while True:
            pauses.append(attempts.pause(error, True))
            now[0] += pauses[-1]
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 10, 10, 10, 10]
    attempts.progressed()
    assert attempts.pause(error, True) == 0.25
