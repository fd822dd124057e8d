"""Sessions take and give tensors of other libraries, without a copy where they lie in this process's memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.dlpack

from pockengine.artifact import Artifact, Session
from pockengine.codegen.native.library import NativeModel
from pockengine.compile import compile
from pockengine.errors import ArtifactError, DataError, PockError
from pockengine.ir import Array, DType, Graph, TensorType
from pockengine.recipe import Recipe
from tests.compiler.artifact.toy_artifact import TOY
from tests.compiler.passes.networks import Net


@pytest.fixture
def session(artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setenv("POCK_CACHE_DIR", str(tmp_path / "cache"))
    with artifact.load(threads=1) as opened:
        yield opened


class Elsewhere:
    """A tensor on a GPU, of a library that copies it to the processor when it is asked to."""

    def __init__(self, array: Array, willing: bool = True) -> None:
        self._array, self._willing = array, willing

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0

    def __dlpack__(self, *, dl_device: tuple[int, int] | None = None, **wanted: Any) -> Any:
        if dl_device != (1, 0) or not self._willing:
            raise BufferError("it lies on a GPU")
        return self._array.copy().__dlpack__(**wanted)


class Bare:
    """A tensor in the processor's memory of a library that has nothing but DLPack."""

    def __init__(self, array: Array) -> None:
        self._array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **wanted: Any) -> Any:
        return self._array.__dlpack__(**wanted)


def test_every_kind_of_tensor_trains_the_same(session: Session) -> None:
    data = TOY.dataset(TOY.batch)
    start = session.state()
    losses = []
    kinds: tuple[Callable[[Array], Any], ...] = (np.asarray, torch.from_numpy, Bare, Elsewhere)
    for kind in kinds:
        for name, array in start.items():
            session.set_tensor(name, kind(array))
        for name, array in session.optimizer_state().items():
            session.set_tensor(name, np.zeros_like(array))
        losses.append([session.step({name: kind(array) for name, array in data.items()}) for _ in range(3)])
    assert losses[0][2] < losses[0][0]
    assert losses == [losses[0]] * 4


@pytest.mark.parametrize("kind", [torch.from_numpy, Bare])
def test_memory_of_this_process_is_given_to_the_model_itself(
    session: Session, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = {name: np.asarray(array, order="C") for name, array in TOY.dataset(2 * TOY.batch).items()}
    seen: list[int] = []
    real = NativeModel.predict

    def watched(model: NativeModel, batch: Any, outputs: Any) -> None:
        seen.extend(array.ctypes.data for array in (*batch, *outputs) if array is not None)
        real(model, batch, outputs)

    monkeypatch.setattr(NativeModel, "predict", watched)
    found = session.predict({"input": kind(data["input"])})["logits"]
    half = data["input"].nbytes // 2
    given = [data["input"].ctypes.data, found.ctypes.data]
    assert seen == [*given, given[0] + half, given[1] + found.nbytes // 2]


def test_results_are_other_libraries_tensors_without_a_copy(session: Session) -> None:
    found = session.predict({"input": TOY.dataset(5)["input"]})["logits"]
    tensor = torch.utils.dlpack.from_dlpack(found)
    assert tensor.data_ptr() == found.ctypes.data
    np.testing.assert_array_equal(tensor.numpy(), found)


@pytest.mark.parametrize(
    "tensor, said",
    [
        (torch.zeros(TOY.batch, requires_grad=True), "cannot be taken from torch: Can't call numpy"),
        (torch.zeros(TOY.batch, dtype=torch.bfloat16), "cannot be taken from torch: Got unsupported ScalarType"),
        (Elsewhere(np.zeros(TOY.batch), willing=False), "it lies on a GPU; copy it to the processor first"),
    ],
)
def test_what_a_library_does_not_give_is_said(session: Session, tensor: Any, said: str) -> None:
    with pytest.raises(DataError, match=f"'input' .*{said}"):
        session.step({**TOY.dataset(TOY.batch), "input": tensor})


def test_inputs_are_filled_in_place(session: Session) -> None:
    data = TOY.dataset(TOY.batch)
    start = session.state()
    expected = [session.step(data) for _ in range(2)]
    for name, array in start.items():
        session.set_tensor(name, array)
    for name, array in session.optimizer_state().items():
        session.set_tensor(name, np.zeros_like(array))
    places = session.inputs()
    by_torch, by_numpy = torch.utils.dlpack.from_dlpack(places["input"]), np.from_dlpack(places["labels"])
    by_torch.copy_(torch.from_numpy(data["input"]))
    by_numpy[...] = data["labels"]
    assert [session.step(places), session.step({"input": by_torch, "labels": by_numpy})] == expected
    assert (places["input"].shape, places["input"].dtype) == (data["input"].shape, "f32")


def test_results_and_weights_are_read_in_place(session: Session) -> None:
    data = {"input": TOY.dataset(TOY.batch)["input"]}
    expected = session.predict(data)["logits"]
    found = torch.utils.dlpack.from_dlpack(session.predict_in_place(data)["logits"])
    np.testing.assert_array_equal(found.numpy(), expected)
    trained = next(tensor.name for tensor in session.manifest.tensors if tensor.trained == "all")
    weight, before = np.from_dlpack(session.view(trained)), session.tensor(trained)
    session.step(TOY.dataset(TOY.batch))
    np.testing.assert_array_equal(weight, session.tensor(trained))
    assert not np.array_equal(weight, before)
    with pytest.raises(ValueError, match="read-only"):
        weight[...] = 0
    with pytest.raises(BufferError, match="neither moved nor copied"):
        torch.utils.dlpack.from_dlpack(session.view(trained), copy=True)
    after = session.tensor(trained)
    session.close()
    np.testing.assert_array_equal(weight, after)
    with pytest.raises(ArtifactError, match="this session is closed"):
        session.view(trained)


def network() -> Graph:
    net = Net("network")
    hidden = net.linear(net.builder.input("x", TensorType(DType.F32, (64, 128))), "first", 128)
    return net.finish(net.linear(net.relu6(hidden), "last", 64))


RECIPE = Recipe(update=[{"params": "last.*"}], batch=64)


def test_a_weight_that_lies_packed_is_not_read_in_place() -> None:
    with compile(network(), RECIPE, threads=1).load() as session:
        with pytest.raises(DataError, match=r"'first.weight' does not lie in memory as it is in files: copy it"):
            session.view("first.weight")
        assert session.view("last.bias").shape == (64,)


def test_the_reference_hands_out_its_places() -> None:
    rng = np.random.default_rng(0)
    data: dict[str, Array] = {
        "x": rng.standard_normal((64, 128)).astype(np.float32),
        "labels": rng.integers(0, 64, 64),
    }
    built = [compile(network(), RECIPE, threads=1, backend=name) for name in ("reference", "c")]
    with built[0].load() as session, built[1].load() as native:
        places = session.inputs()
        for name, array in data.items():
            np.from_dlpack(places[name])[...] = array
        assert session.step(places) == pytest.approx(native.step(data), rel=1e-5)
        found: Array = np.from_dlpack(session.predict_in_place({"x": data["x"]})["logits"])
        np.testing.assert_allclose(found, native.predict({"x": data["x"]})["logits"], rtol=1e-3, atol=1e-5)
        np.testing.assert_array_equal(np.from_dlpack(session.view("last.bias")), session.tensor("last.bias"))


def test_one_inputs_place_is_no_others() -> None:
    """It may be filled before it is read."""
    net = Net("two", seed=1)
    cur, prev = (net.builder.input(name, TensorType(DType.F32, (4, 64))) for name in ("cur", "prev"))
    graph = net.finish(net.linear(net.e.sub(cur, net.e.mul(prev, 2.0)), "last", 3))
    with compile(graph, Recipe(update="full", batch=4), threads=1).load() as session:
        places = session.inputs()
        for name, value in (("cur", 1.0), ("prev", 2.0)):
            np.from_dlpack(places[name])[...] = value
        right = session.predict({name: places[name] for name in ("cur", "prev")})["logits"]
        filled: dict[str, Any] = {"cur": np.full((4, 64), 5, np.float32), "prev": places["cur"]}
        for given in (filled, {"cur": places["prev"], "prev": places["cur"]}):
            with pytest.raises(PockError, match="lies in the place of another input, or beyond its own: copy it first"):
                session.predict(given)
        np.testing.assert_array_equal(session.predict(places)["logits"], right)


def test_what_samples_count_is_no_place_to_fill() -> None:
    """It holds what it held at the last step; left out, each counts 1."""
    recipe = replace(RECIPE, last_batch="partial")
    rng = np.random.default_rng(0)
    data: dict[str, Array] = {
        "x": rng.standard_normal((64, 128)).astype(np.float32),
        "labels": rng.integers(0, 64, 64),
    }
    with compile(network(), recipe, threads=1).load() as session, compile(network(), recipe, threads=1).load() as other:
        for one in (session, other):
            one.step({name: array[:50] for name, array in data.items()})
        places = session.inputs()
        assert set(places) == {"x", "labels"}
        for name, array in data.items():
            np.from_dlpack(places[name])[...] = array
        assert session.step(places) == other.step(data)
