"""Logits of a large vocabulary in chunks, against PyTorch's cross-entropy of its linear layer; and what it saves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import pockengine as pock
from pockengine import interp, passes
from pockengine.autodiff import eval_graph, train_graph
from pockengine.compile import Request, Scope, plan_programs
from pockengine.ir import Array, Builder, DType, Graph, TensorType
from pockengine.ops import Emitter
from pockengine.passes import chunks
from pockengine.plan.pipeline import PIPELINE
from pockengine.recipe import Recipe, resolve
from pockengine.targets import get
from tests.compiler.passes.networks import optimised
from tests.sweeps import some

BATCH, TIME, WIDTH, CLASSES = 4, 32, 12, 300
LIMIT = 24 << 10
"""Bytes of logits in a chunk here: there are 150 KiB of them."""
LR = 0.5
Tensors = Mapping[str, torch.Tensor]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LEAST_BYTES", LIMIT)
    monkeypatch.setattr(chunks, "LEAST_ROWS", chunks.ROW_MULTIPLE)


def model(tied: bool, bias: bool) -> Graph:
    """Embedding, a layer of tanh, and a last layer; the batch of [BATCH, TIME] token ids in, logits out."""
    builder, rng = Builder("lm"), np.random.default_rng(0)
    e = Emitter(builder)

    def param(name: str, *shape: int) -> Any:
        array = rng.standard_normal(shape).astype(np.float32)
        return builder.param(name, TensorType(DType.F32, shape), array * np.float32(0.4))

    tokens = builder.input("tokens", TensorType(DType.I64, (BATCH, TIME)))
    table = param("table", CLASSES, WIDTH)
    x = e.op("tanh", e.matmul(e.op("gather", table, tokens, axis=0), param("inner", WIDTH, WIDTH)))
    logits = e.matmul(x, table if tied else param("head", CLASSES, WIDTH), trans_b=True)
    builder.outputs = {"logits": e.add(logits, param("bias", CLASSES)) if bias else logits}
    return builder.finish()


def logits_of(params: Tensors, tokens: torch.Tensor) -> torch.Tensor:
    hidden = torch.tanh(functional.embedding(tokens, params["table"]) @ params["inner"])
    return functional.linear(hidden, params.get("head", params["table"]), params.get("bias"))


@dataclass(frozen=True)
class Case:
    """loss: the recipe's; torch: (logits, labels, other feeds) -> the same; update: what is trained."""

    loss: Any
    torch: Callable[[torch.Tensor, torch.Tensor, Tensors], torch.Tensor]
    update: Any = "full"
    tied: bool = False
    bias: bool = False
    extra: Mapping[str, Array] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict)


WEIGHTS = np.linspace(0.2, 2.0, CLASSES).astype(np.float32)
MASK = (np.random.default_rng(5).random((BATCH, TIME)) < 0.6).astype(np.float32)
SAMPLES = np.array([1, 0.5, 0, 2], np.float32)
ALL = {"label_smoothing": 0.2, "ignore_index": 7, "class_weights": WEIGHTS.tolist()}


def plain(logits: torch.Tensor, labels: torch.Tensor, feeds: Tensors, **options: Any) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), **options)


def causal(logits: torch.Tensor, labels: torch.Tensor, feeds: Tensors, **options: Any) -> torch.Tensor:
    return plain(logits[:, :-1], labels[:, 1:], feeds, **options)


def everything(logits: torch.Tensor, labels: torch.Tensor, feeds: Tensors) -> torch.Tensor:
    return plain(logits, labels, feeds, label_smoothing=0.2, ignore_index=7, weight=torch.tensor(WEIGHTS))


def masked(logits: torch.Tensor, labels: torch.Tensor, feeds: Tensors) -> torch.Tensor:
    each = plain(logits[:, :-1], labels[:, 1:], feeds, reduction="none").view(BATCH, TIME - 1)
    counted = feeds["mask"][:, 1:]
    return (each * counted).sum() / counted.sum()


def by_sample(logits: torch.Tensor, labels: torch.Tensor, feeds: Tensors) -> torch.Tensor:
    each = plain(logits, labels, feeds, reduction="none").view(BATCH, TIME)
    weight = feeds["sample_weight"][:, None].expand(BATCH, TIME)
    return (each * weight).sum() / weight.sum()


CASES = {
    "plain": Case("cross_entropy", plain),
    "bias": Case("cross_entropy", plain, bias=True),
    "frozen head": Case("cross_entropy", plain, update=["inner"], bias=True),
    "tied": Case("causal_lm", causal, tied=True, bias=True),
    "causal": Case("causal_lm", causal, update=["inner"]),
    "everything": Case({"name": "cross_entropy", **ALL}, everything, bias=True),
    "mask": Case({"name": "causal_lm", "mask": "mask"}, masked, extra={"mask": MASK}),
    "samples": Case("cross_entropy", by_sample, extra={"sample_weight": SAMPLES}, recipe={"last_batch": "partial"}),
}


def setting(case: Case) -> tuple[Graph, Recipe, dict[str, Array]]:
    graph = model(case.tied, case.bias)
    update = case.update if isinstance(case.update, str) else [{"params": name} for name in case.update]
    recipe = Recipe(case.loss, {"name": "sgd", "lr": LR}, update=update, **case.recipe)
    rng = np.random.default_rng(1)
    tokens, labels = (rng.integers(0, CLASSES, (BATCH, TIME)) for _ in range(2))
    labels[0, :5] = 7
    return graph, recipe, {"tokens": tokens, "labels": labels, **case.extra}


@pytest.mark.parametrize("name", some(["plain", "frozen head", "tied", "everything", "mask"], 2))
def test_compiled_steps_against_pytorch(name: str) -> None:
    case = CASES[name]
    graph, recipe, feeds = setting(case)
    given = {key: torch.tensor(array) for key, array in feeds.items()}
    params = {key: torch.tensor(array, requires_grad=True) for key, array in graph.data.items()}
    expected = []
    for _ in range(2):
        loss = case.torch(logits_of(params, given["tokens"]), given["labels"], given)
        loss.backward()
        expected.append(loss.item())
        with torch.no_grad():
            for key, param in params.items():
                if case.update == "full" or key in case.update:
                    assert param.grad is not None
                    param -= LR * param.grad
                param.grad = None
    evaluated = case.torch(logits_of(params, given["tokens"]), given["labels"], given).item()
    planned = plan_programs(Request(graph, recipe, get("host"), 2))
    for kind in ("train", "eval"):
        assert widest(planned.programs[kind].graph) <= LIMIT + 4 * CLASSES * chunks.ROW_MULTIPLE, kind
    with pock.compile(graph, recipe, threads=2).load() as session:
        np.testing.assert_allclose([session.step(feeds) for _ in expected], expected, rtol=1e-5)
        for key, param in params.items():
            np.testing.assert_allclose(session.state()[key], param.detach().numpy(), rtol=1e-4, atol=1e-6, err_msg=key)
        found = session.evaluate(feeds)
        assert found.loss == pytest.approx(evaluated, rel=1e-5)
        if name == "plain":
            right = logits_of(params, given["tokens"]).argmax(-1) == given["labels"]
            assert found.accuracy == pytest.approx(right.double().mean().item())


def widest(graph: Graph) -> int:
    """Bytes of the largest value whose last axis is that of the classes and that is no weight or its gradient."""
    made = [value for node in graph.nodes for value in node.outputs]
    return max(v.type.nbytes for v in made if v.type.shape[-1:] == (CLASSES,) and v.type.rank > 1)


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers_as_whole_logits(name: str) -> None:
    graph, recipe, feeds = setting(CASES[name])
    for whole in (train_graph(graph, recipe, resolve(recipe, graph)), eval_graph(graph, recipe)):
        frozen = {value.name for value in graph.params} - {value.name for value in whole.updates}
        reduced = optimised(whole, frozen, passes.ALGEBRA)
        chunked = passes.chunk_rows(reduced)
        assert sum(node.op == "matmul" for node in chunked.nodes) > sum(node.op == "matmul" for node in reduced.nodes)
        once, again = dict(graph.data), dict(graph.data)
        expected, found = interp.step(reduced, feeds, once), interp.step(chunked, feeds, again)
        for key, array in {**expected, **once}.items():
            np.testing.assert_allclose({**found, **again}[key], array, rtol=1e-5, atol=1e-6, err_msg=key)


def test_larger_chunks_give_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, recipe, feeds = setting(CASES["frozen head"])
    reduced = optimised(eval_graph(graph, recipe), (), passes.ALGEBRA)
    counts = {}
    for size in (BATCH * TIME * CLASSES, 2 * BATCH * TIME * CLASSES):
        monkeypatch.setattr(chunks, "WIDE_BYTES", size)
        chunked = chunks.chunk_rows_widely(reduced)
        counts[size] = sum(node.op == "matmul" for node in chunked.nodes)
        expected, found = (interp.step(one, feeds, dict(graph.data)) for one in (reduced, chunked))
        for key, array in expected.items():
            np.testing.assert_allclose(found[key], array, rtol=1e-5, atol=1e-6, err_msg=key)
    assert [*counts.values()] == sorted(counts.values(), reverse=True) and len({*counts.values()}) == 2


def test_the_arena_has_no_logits() -> None:
    graph, recipe, _ = setting(CASES["frozen head"])
    target, pipeline = get("host"), PIPELINE
    with_chunks, without = (
        plan_programs(Request(graph, recipe, target, 1, pipeline=chosen, scope=Scope.TRAINING)).arena_bytes
        for chosen in (pipeline, pipeline.without("chunk_rows"))
    )
    logits = 4 * BATCH * TIME * CLASSES
    assert with_chunks < logits < without and without - with_chunks > logits / 2


def test_logits_that_are_asked_for_are_whole() -> None:
    graph = model(tied=False, bias=True)
    assert passes.chunk_rows(graph) is graph


def test_a_gradient_larger_than_the_logits_is_not_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few rows the weight's gradient, which its update would otherwise swallow, takes more than is saved."""
    monkeypatch.setattr(chunks, "LEAST_ROWS", BATCH * TIME - WIDTH + 4)
    graph, recipe, _ = setting(CASES["plain"])
    whole = train_graph(graph, recipe, resolve(recipe, graph))
    reduced = optimised(whole, (), passes.ALGEBRA)
    assert passes.chunk_rows(reduced) is reduced


def test_a_chunk_has_rows_enough_to_be_worth_reading_the_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "LEAST_ROWS", 64)
    graph, recipe, _ = setting(CASES["frozen head"])
    whole = train_graph(graph, recipe, resolve(recipe, graph))
    chunked = passes.chunk_rows(optimised(whole, (), passes.ALGEBRA))
    logits = [node.output for node in chunked.nodes if node.op == "matmul" and node.output.type.shape[1] == CLASSES]
    assert [value.type.shape[0] for value in logits] == [64, 64]
