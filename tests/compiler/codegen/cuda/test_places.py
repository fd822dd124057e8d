"""Sessions take tensors from where they lie on the GPU, and give theirs there: the numbers are those of numpy's arrays,
and nothing goes through the processor but what it checks."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pockengine.artifact import Artifact, Session
from pockengine.compile import compile
from pockengine.compile.planned import Planned
from pockengine.errors import DataError, PockError
from pockengine.ir import Array, DType, Graph, TensorType
from pockengine.passes import offload
from pockengine.recipe import Recipe
from tests.compiler.codegen.cuda.driver import beside, make_driver, needs_compiler
from tests.compiler.codegen.cuda.foreign import CPU, CUDA, Library, taken
from tests.compiler.codegen.opencl.apart import apart
from tests.compiler.passes.networks import Net

pytestmark = needs_compiler

BATCH, WIDTH, CLASSES = 4, 128, 5
LESS = 4 * BATCH * WIDTH
"""Bytes: what moves is less than the numbers of a batch."""
RECIPE = Recipe(optimizer={"name": "adamw", "lr": 0.01}, update="full", batch=BATCH, offload="state")
STEPS = 3


def network() -> Graph:
    net = Net("places", seed=1)
    hidden = net.linear(net.builder.input("x", TensorType(DType.F32, (BATCH, WIDTH))), "first", 64)
    return net.finish(net.linear(net.relu6(hidden), "last", CLASSES))


def batch(seed: int, samples: int = BATCH) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, samples)
    return {"x": rng.standard_normal((samples, WIDTH)).astype(np.float32), "labels": labels}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The model with its optimizer's larger states offloaded, where there is a driver."""
    planned: list[Planned] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offload, "LEAST_BYTES", 1 << 10)
        made = compile(network(), RECIPE, beside(), 1, inspect=lambda found, _: planned.append(found))
        driver = make_driver(planned[0].programs, tmp_path_factory.mktemp("driver"))
        patch.setenv("LD_LIBRARY_PATH", str(driver))
        yield made


def by_numpy(session: Session, step: int) -> float:
    return session.step(batch(step))


def by_tensors(session: Session, step: int, wide: bool = True) -> float:
    library = Library()
    given = {name: library.tensor(array, wide=wide) for name, array in batch(step).items()}
    before = library.moved()
    loss = session.step(given)
    _only_labels_moved(library, before, step, given["labels"].array)
    return loss


def in_place(session: Session, step: int) -> float:
    """The model's own places, filled late."""
    library, places, arrays = Library(), session.inputs(), batch(step)
    for name, array in arrays.items():
        at = taken(places[name])
        assert at.device == (CUDA, 0) and at.shape == array.shape
        library.put(at.address, array)
    before = library.moved()
    loss = session.step(places)
    _only_labels_moved(library, before, step, arrays["labels"])
    return loss


def _only_labels_moved(library: Library, before: tuple[int, int], step: int, labels: Array) -> None:
    """Labels come to be checked, and go back in what is left of the block of inputs."""
    there, back = np.subtract(library.moved(), before)
    assert back == labels.nbytes + 4
    assert step == 0 or labels.nbytes <= there < LESS


def _losses(step: Callable[[Session, int], float], artifact: Artifact) -> tuple[list[float], dict[str, Array]]:
    with artifact.load() as session:
        return [step(session, number) for number in range(STEPS)], session.state()


@pytest.mark.parametrize("streams", ["late", "eager"])
def test_steps_are_the_same_wherever_a_batch_lies(
    artifact: Artifact, streams: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE", streams)
    expected, weights = apart(_losses, by_numpy, artifact)
    assert expected[-1] != expected[0]
    for way in (by_tensors, partial(by_tensors, wide=False), in_place):
        found, others = apart(_losses, way, artifact)
        assert found == expected
        for name, array in weights.items():
            np.testing.assert_array_equal(others[name], array, err_msg=name)


def _shared(artifact: Artifact) -> list[list[float]]:
    """Where memory is shared, places are the processor's as well."""
    losses = []
    for way in ("numpy", "tensors", "there", "here"):
        with artifact.load() as session:
            library, told = Library(), []
            for step in range(STEPS):
                given: dict[str, Any] = dict(batch(step))
                if way == "tensors":
                    given = {name: library.tensor(array) for name, array in given.items()}
                elif way != "numpy":
                    places, arrays = session.inputs(), given
                    for name, array in arrays.items():
                        if way == "there":
                            library.put(taken(places[name]).address, array)
                        else:
                            np.from_dlpack(places[name], device="cpu")[...] = array
                    given = dict(places)
                told.append(session.step(given))
            losses.append(told)
    return losses


def test_steps_are_the_same_in_shared_memory(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", "integrated")
    expected, *others = apart(_shared, artifact)
    assert others == [expected] * 3


def _results(artifact: Artifact) -> None:
    data = batch(7, 2 * BATCH + 1)
    with artifact.load() as session:
        session.step(batch(0))
        library = Library()
        expected = session.predict(data)["logits"]
        np.testing.assert_array_equal(session.predict({"x": library.tensor(data["x"])})["logits"], expected)
        x = library.tensor(data["x"][:BATCH])
        before = library.moved()
        found = taken(session.predict_in_place({"x": x})["logits"])
        there, back = np.subtract(library.moved(), before)
        assert there < LESS and back == 0
        assert (found.device, found.type, found.shape) == ((CUDA, 0), (2, 32, 1), (BATCH, CLASSES))
        np.testing.assert_array_equal(found.numbers(np.float32), expected[:BATCH])
        assert not found.read_only
        whole = session.evaluate({name: library.tensor(array) for name, array in data.items()})
        assert whole.loss == session.evaluate(data).loss


def test_results_stay_where_they_are_made(artifact: Artifact) -> None:
    apart(_results, artifact)


def _tensors(artifact: Artifact) -> None:
    with artifact.load() as session:
        first = taken(session.view("first.weight"))
        np.testing.assert_array_equal(first.numbers(np.float32), session.tensor("first.weight"))
        session.step(batch(0))
        assert first.read_only and first.device == (CUDA, 0)
        np.testing.assert_array_equal(first.numbers(np.float32), session.tensor("first.weight"))
        session.set_tensor("first.weight", session.tensor("first.weight") * 2)
        np.testing.assert_array_equal(
            taken(session.view("first.weight")).numbers(np.float32), session.tensor("first.weight")
        )
        state = next(name for name, array in session.optimizer_state().items() if array.nbytes >= 1 << 10)
        there, here = (taken(session.view(state), **wanted) for wanted in ({}, {"dl_device": (CPU, 0)}))
        assert (there.device, here.device) == ((CUDA, 0), (CPU, 0))
        for one in (there, here):
            np.testing.assert_array_equal(one.numbers(np.float32), session.tensor(state))
        with pytest.raises(BufferError, match="neither moved nor copied"):
            session.view("first.weight").__dlpack__(dl_device=(CPU, 0))


def test_weights_and_state_are_read_where_they_lie(artifact: Artifact) -> None:
    apart(_tensors, artifact)


def _after_the_end(artifact: Artifact, log: Path) -> None:
    session = artifact.load()
    expected = session.tensor("first.weight")
    found = taken(session.view("first.weight"))
    session.close()
    with pytest.raises(PockError, match="this session is closed"):
        session.step(batch(0))
    del session
    gc.collect()
    assert not log.exists()
    np.testing.assert_array_equal(found.numbers(np.float32), expected)
    del found
    assert log.exists()


def test_memory_stays_until_nobody_has_a_view(
    artifact: Artifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver writes its log when the model gives it back."""
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    apart(_after_the_end, artifact, tmp_path / "log")


@dataclass(frozen=True)
class _At:
    """A batch's part as the library takes it: where it begins."""

    address: int


def _labels_place(session: Session) -> int:
    names = [port.name for port in session.manifest.inputs]
    address = session._model.input_place(names.index("labels")).on_gpu
    assert address is not None and names[0] == "x"
    return address


def _refused(artifact: Artifact) -> None:
    good = batch(0)
    with artifact.load() as session:
        session.step(good)
        library = Library()
        x = good["x"]
        for wrong, said in (
            (library.tensor(x, ordinal=1), "'x' lies on GPU 1, this session is on GPU 0: copy it there first"),
            (library.tensor(x.astype(np.float64)), "'x' is f64, the model needs f32: convert it on the GPU first"),
            (library.tensor(x.astype(np.complex64)), "'x' is of a type that no model has, the model needs f32"),
            (library.tensor(x.T.copy().T), "'x' does not lie in one piece on the GPU: make it contiguous first"),
            (library.tensor(x[:, :3].copy()), r"'x' has shape \[4, 3\], the model needs \[N, 128\]"),
            (library.tensor(x[:3].copy()), "the inputs have different numbers of samples: 3, 4"),
        ):
            with pytest.raises(DataError, match=said):
                session.step({**good, "x": wrong})
        with pytest.raises(DataError, match="'labels' in the batch holds 77 at sample 2; it must be 0 to 4"):
            session.step({**good, "labels": library.tensor(np.array([0, 1, 77, 0]))})
        with pytest.raises(DataError, match="in place there is one batch of 4 samples, not 5: use predict"):
            session.predict_in_place(batch(0, 5))
        with pytest.raises(PockError, match="'x' in the batch lies in the place of another input, or beyond its own"):
            session._model.step([_At(_labels_place(session)), good["labels"]])
        narrow: dict[str, Any] = {"x": x, "labels": library.tensor(good["labels"].astype(np.int32))}
        assert session.evaluate(narrow).loss == session.evaluate(good).loss


def test_what_cannot_be_taken_is_said(artifact: Artifact) -> None:
    apart(_refused, artifact)


def _of_another_gpu(artifact: Artifact) -> None:
    with artifact.load() as session, pytest.raises(DataError, match="'x' in the batch lies on GPU 1, .* is on GPU 0"):
        session.step({**batch(0), "x": Library().tensor(batch(0)["x"])})


def test_the_library_asks_the_driver_whose_memory_it_is(artifact: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE", "elsewhere")
    apart(_of_another_gpu, artifact)


def _micro_batches(artifact: Artifact) -> None:
    with artifact.load() as session, artifact.load() as other:
        library = Library()
        for step in range(STEPS):
            data = batch(step, 2 * BATCH)
            given = {name: library.tensor(array) for name, array in data.items()}
            assert session.step(given) == other.step(data)
        with pytest.raises(DataError, match="'labels' in the batch holds -3 at sample 6"):
            session.step({**data, "labels": library.tensor(np.array([0, 1, 2, 3, 4, 0, -3, 1]))})


def test_each_micro_batch_is_taken_from_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Planned] = []
    recipe = RECIPE.with_(accumulate=2, offload=[])
    artifact = compile(network(), recipe, beside(), 1, inspect=lambda found, _: planned.append(found))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(make_driver(planned[0].programs, tmp_path)))
    apart(_micro_batches, artifact)
