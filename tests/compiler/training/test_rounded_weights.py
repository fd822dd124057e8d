"""Frozen weights lie in a GPU's memory in 16 bits where all programs round them: the same results, and whoever asks for
them gets the original."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pockengine.artifact import Artifact
from pockengine.codegen import backends
from pockengine.codegen.native.toolchain import RUNTIME
from pockengine.compile import Planned, Request, compile, plan_programs
from pockengine.errors import DataError
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.passes import copied_weights
from pockengine.plan.space import Space
from pockengine.recipe import Recipe
from pockengine.targets import Target, get
from tests.compiler.codegen.harness import compile_sources
from tests.compiler.models import zoo
from tests.compiler.models.test_ten_steps import OPTIMIZERS

GPU = backends.get("emulated")
BATCH = WIDTH = 64
CLASSES = 4
SQUARE = ("products", "epilogue", "elementwise", "trained")
RECIPE = Recipe(optimizer={"name": "sgd", "lr": 0.1}, update=[{"params": name} for name in ("trained", "head")])


def _target(compute: str = "bf16") -> Target:
    return replace(get("host"), compute=compute)


def _weights(seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    shapes = {**dict.fromkeys(SQUARE, (WIDTH, WIDTH)), "few": (WIDTH, 8), "head": (8, CLASSES)}
    return {name: (0.2 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}


def _graph() -> Graph:
    """A weight for each way to be read: by products alone; by their epilogue, or by something elementwise, too; by a
    product that does not round; in training."""
    builder = Builder("frozen")
    e, h = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, WIDTH)))
    p = {name: builder.param(name, TensorType(DType.F32, array.shape), array) for name, array in _weights().items()}
    h = e.op("tanh", e.mul(h, p["elementwise"]))
    h = e.op("tanh", e.matmul(h, p["elementwise"]))
    h = e.op("tanh", e.matmul(h, p["products"]))
    h = e.op("tanh", e.matmul(h, p["trained"]))
    h = e.op("tanh", e.matmul(h, e.transpose(p["products"], (1, 0))))
    h = e.op("tanh", e.add(e.matmul(h, p["epilogue"]), p["epilogue"]))
    h = e.op("tanh", e.matmul(h, p["few"]))
    builder.outputs = {"logits": e.matmul(h, p["head"])}
    return builder.finish()


def _batch(seed: int = 7, batch: int = BATCH) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.standard_normal((batch, WIDTH)).astype(np.float32),
        "labels": rng.integers(0, CLASSES, batch),
    }


def _compiled(recipe: Recipe = RECIPE, *, rounded: bool = True, graph: Graph | None = None) -> Artifact:
    pipeline = GPU.pipeline if rounded else GPU.pipeline.without("read_rounded")
    return compile(graph or _graph(), recipe, _target(), 1, backend="emulated", pipeline=pipeline)


def _planned(graph: Graph, recipe: Recipe = RECIPE, compute: str = "bf16", *, rounded: bool = True) -> Planned:
    pipeline = GPU.pipeline if rounded else GPU.pipeline.without("read_rounded")
    return plan_programs(Request(graph, recipe, _target(compute), 1, backend=GPU, pipeline=pipeline))


@pytest.mark.parametrize("compute", ["bf16", "f16"])
def test_what_products_alone_read_and_round_lies_rounded(compute: str) -> None:
    planned, whole = _planned(_graph(), compute=compute), _planned(_graph(), compute=compute, rounded=False)
    assert planned.rounded == {"products": DType(compute)} and not whole.rounded
    for program in planned.programs.values():
        types = {value.name: value.type.dtype for value in program.graph.params}
        assert types.pop("products") is DType(compute) and set(types.values()) == {DType.F32}
    saved = whole.spaces.sizes[Space.PARAM] - planned.spaces.sizes[Space.PARAM]
    assert saved == WIDTH * WIDTH * 2
    assert [value.type.dtype for value in planned.model.params] == [DType.F32] * len(_weights())


@pytest.mark.parametrize("compute", ["f32", "tf32"])
def test_other_formats_leave_weights_as_they_are(compute: str) -> None:
    assert not _planned(_graph(), compute=compute).rounded


def test_processors_leave_weights_as_they_are() -> None:
    assert not plan_programs(Request(_graph(), RECIPE, _target(), 1)).rounded


def test_a_program_that_does_not_round_keeps_a_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = type(GPU).rounds
    assert _planned(_graph()).rounded
    monkeypatch.setattr(type(GPU), "rounds", lambda *a: None if a[1].phase == "backward" else rounds(*a))
    assert not _planned(_graph()).rounded


def test_no_step_copies_a_frozen_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LEAST_WORK", "LEAST_READS"):
        monkeypatch.setattr(copied_weights, name, 1)

    def copied(planned: Planned) -> list[str]:
        found = (step.node for step in planned.programs["train"].steps if len(step.node.inputs) == 1)
        return [node.inputs[0].name for node in found if node.output.type.dtype is DType.BF16]

    assert {"products", "trained"} <= {*copied(_planned(_graph(), rounded=False))}
    planned = _planned(_graph())
    assert planned.rounded == {"products": DType.BF16}
    assert "products" not in copied(planned) and "trained" in copied(planned)


def test_a_weight_of_sums_in_parts_lies_rounded() -> None:
    """In others, maybe, than those of a product that rounds it itself."""
    builder, rng = Builder("long"), np.random.default_rng(2)
    e, x = Emitter(builder), builder.input("x", TensorType(DType.F32, (BATCH, 4096)))
    shapes = {"long": (4096, 32), "head": (32, CLASSES)}
    drawn = {name: (0.02 * rng.standard_normal(shape)).astype(np.float32) for name, shape in shapes.items()}
    long, head = (builder.param(name, TensorType(DType.F32, one.shape), one) for name, one in drawn.items())
    builder.outputs = {"logits": e.matmul(e.op("tanh", e.matmul(x, long)), head)}
    recipe, graph = Recipe(optimizer={"name": "sgd", "lr": 0.1}, update=[{"params": "head"}]), builder.finish()
    assert _planned(graph, recipe).rounded == {"long": DType.BF16}
    labels = rng.integers(0, CLASSES, BATCH)
    feeds: dict[str, Array] = {"x": rng.standard_normal((BATCH, 4096)).astype(np.float32), "labels": labels}
    losses = []
    for rounded in (True, False):
        with _compiled(recipe, rounded=rounded, graph=graph).load() as session:
            losses.append([session.step(feeds) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def _steps(artifact: Artifact, feeds: Sequence[Mapping[str, Array]]) -> tuple[list[float], float, Mapping[str, Array]]:
    with artifact.load() as session:
        losses = [session.step(one) for one in feeds]
        return losses, session.evaluate(feeds[0]).loss, session.state()


def _same(one: Artifact, other: Artifact, feeds: Sequence[Mapping[str, Array]]) -> None:
    (losses, evaluated, state), (others, other_evaluated, other_state) = _steps(one, feeds), _steps(other, feeds)
    assert (losses, evaluated) == (others, other_evaluated)
    assert state.keys() == other_state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(array, other_state[name], strict=True)


@pytest.mark.parametrize("model, update", [("bert", "channels"), ("mobilenet_v2", "last")])
def test_steps_are_the_same_to_the_bit(model: str, update: str) -> None:
    recipe = Recipe(optimizer=OPTIMIZERS["adamw"], update=zoo.UPDATES[model][update], batch=zoo.BATCH)
    recipe, graph = recipe.bound(zoo.graph(model)), zoo.graph(model)
    assert _planned(graph, recipe).rounded
    feeds = [zoo.MODELS[model].feeds(step) for step in range(3)]
    _same(_compiled(recipe, graph=graph), _compiled(recipe, graph=graph, rounded=False), feeds)


def test_accumulated_steps_are_the_same_to_the_bit() -> None:
    recipe = RECIPE.with_(accumulate=2)
    assert _planned(_graph(), recipe).rounded
    feeds = [_batch(seed, 2 * BATCH) for seed in range(3)]
    _same(_compiled(recipe), _compiled(recipe, rounded=False), feeds)


def test_everyone_gets_the_original(tmp_path: Path) -> None:
    """A session, its file of weights, and exports."""
    artifact, weights, batch = _compiled(), _weights(), _batch()
    with artifact.load() as session:
        session.step(batch)
        session.save(tmp_path / "saved.safetensors")
        first = session.predict(batch)["logits"]
        artifact.export(tmp_path / "exported.safetensors", weights=session.state())
        artifact.export(tmp_path / "of_file.safetensors", weights=tmp_path / "saved.safetensors")
        found = [session.state(), *(load_file(tmp_path / f"{n}.safetensors") for n in ("saved", "exported", "of_file"))]
        for tensors in found:
            np.testing.assert_array_equal(tensors["products"], weights["products"], strict=True)
        session.load(tmp_path / "saved.safetensors")
        session.set_tensor("products", weights["products"])
        with pytest.raises(DataError, match="differs from the one compiled in"):
            session.set_tensor("products", np.nextafter(weights["products"], np.float32(9)))
        np.testing.assert_array_equal(session.predict(batch)["logits"], first)
    np.testing.assert_array_equal(load_file(artifact.unpack() / "params.safetensors")["products"], weights["products"])


def test_a_weight_of_another_shape_is_refused(tmp_path: Path) -> None:
    save_file({"products": np.zeros((WIDTH, 1), np.float32)}, tmp_path / "new.safetensors")
    with _compiled().load() as session, pytest.raises(DataError, match=r"has shape \[64, 1\]"):
        session.load(tmp_path / "new.safetensors")


def test_the_executable_saves_and_resumes(tmp_path: Path) -> None:
    artifact = _compiled()
    save_file(_batch(batch=3 * BATCH), tmp_path / "data.safetensors")
    model = artifact.unpack() / artifact.manifest.entry_points.executable

    def train(steps: int, *options: object) -> subprocess.CompletedProcess[str]:
        given = ["train", "--data", tmp_path / "data.safetensors", "--steps", steps, *options]
        return subprocess.run([str(model), *map(str, given)], capture_output=True, text=True, check=False)

    saved, checkpoint, other = (tmp_path / name for name in ("w.safetensors", "c.ckpt", "other.safetensors"))
    assert train(4, "--save", saved).returncode == 0
    whole = load_file(saved)
    assert train(2, "--checkpoint", checkpoint, "--checkpoint-every", 1).returncode == 0
    assert train(4, "--resume", checkpoint, "--save", saved).returncode == 0
    for name, array in load_file(saved).items():
        np.testing.assert_array_equal(array, whole[name])
    np.testing.assert_array_equal(whole["products"], _weights()["products"])
    nearly = {"products": np.nextafter(_weights()["products"], np.float32(9))}
    save_file(nearly, other)
    assert "differs from the one compiled in" in train(4, "--load", other).stderr
    save_file(_weights() | nearly, other)
    assert "other frozen parameters" in train(4, "--resume", checkpoint, "--params", other).stderr
    save_file({name: array for name, array in _weights().items() if name != "products"}, other)
    assert "lacks 'products'" in train(1, "--params", other).stderr


@pytest.mark.parametrize("dtype", [DType.BF16, DType.F16])
def test_numbers_are_rounded_to_the_nearest(dtype: DType, tmp_path: Path) -> None:
    """Each one of 16 bits, what lies in the middle between it and the next, and the neighbours of that."""
    text = (RUNTIME / "rounded.c").read_text()
    for name in ("rounded.h", "pock.h"):
        text = text.replace(f'#include "{name}"', (RUNTIME / name).read_text())
    library = compile_sources(tmp_path, {"rounded": text}, get("host"), ("-O1",))
    with np.errstate(invalid="ignore", over="ignore"):
        exact = np.arange(1 << 16, dtype=np.uint16).view(dtype.numpy).astype(np.float32).view(np.uint32)
        half = np.uint32(1 << 15 if dtype is DType.BF16 else 1 << 12)
        numbers = np.concatenate([exact, exact + half - 1, exact + half, exact + half + 1]).view(np.float32)
        small = np.random.default_rng(0).uniform(-(2.0**-13), 2.0**-13, 1 << 16).astype(np.float32)
        numbers = np.concatenate([numbers, small, np.array([65519.9, 65520, 65536, 3e38, np.inf], np.float32)])
        wanted = numbers.astype(dtype.numpy)
    found = np.empty(numbers.size, dtype.numpy)
    order = {DType.F16: 2, DType.BF16: 3}  # as `pock_dtype` has them
    library.pock_round(*map(ctypes.c_void_p, (found.ctypes.data,)), order[dtype], ctypes.c_void_p(numbers.ctypes.data),
                       ctypes.c_size_t(numbers.size))  # fmt: skip
    real = ~np.isnan(numbers)
    assert (found.view(np.uint16)[real] == wanted.view(np.uint16)[real]).all()
    assert np.isnan(found[~real].astype(np.float32)).all()
