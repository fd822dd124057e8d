"""Attention in tiles: both kernels against the reference and PyTorch, here and emulated; memory and training of models
with them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

import pockengine as pock
from pockengine import interp, ops
from pockengine.autodiff import train_graph, without_dropout
from pockengine.codegen.c import CBackend
from pockengine.compile import Request, Scope, plan_programs
from pockengine.ir import Array, Node, Value
from pockengine.ops import Sample
from pockengine.recipe import resolve
from pockengine.targets import get
from tests.compiler.codegen.emulated import EMULATOR, run_emulated
from tests.compiler.codegen.harness import Case, Library, compare, expected_outputs, sample_case

Shape = tuple[int, ...]
SIZES: list[tuple[Shape, Shape, int, bool]] = [
    ((2, 3, 64, 32), (2, 3, 64, 32), 32, False),
    ((1, 4, 70, 16), (1, 2, 70, 16), 16, True),
    ((1, 2, 1, 24), (1, 1, 130, 24), 40, False),
    ((1, 2, 129, 8), (1, 2, 65, 8), 8, False),
]
"""Queries, keys, width of values, causal."""


def _samples() -> list[Sample]:
    return [sample for sample in ops.get("attention").samples if "dropout" not in sample.attrs]


def _backward(forward: Case, rng: np.random.Generator) -> Case:
    """The gradient of a forward case, from the outputs that the reference gives."""
    q, k, v, *masks = forward.node.inputs
    y, sums = forward.node.outputs
    slope = Value("dy", y.type)
    outputs = tuple(Value(f"d{value.name}", value.type) for value in (q, k, v))
    node = Node("attention_backward", (q, k, v, y, sums, slope, *masks), outputs, forward.node.attrs)
    drawn = rng.standard_normal(y.type.shape).astype(np.float32)
    arrays = (*forward.inputs[:3], *expected_outputs(forward), drawn, *forward.inputs[3:])
    return Case(node, arrays, f"gradient of {forward.label}")


def _cases() -> list[Case]:
    rng = np.random.default_rng(0)
    forward = [sample_case("attention", sample, rng) for sample in _samples()]
    hidden = forward[4]
    blind = replace(hidden, inputs=(*hidden.inputs[:3], np.zeros_like(hidden.inputs[3]), hidden.inputs[4]))
    masked = forward[2]
    least = np.full_like(masked.inputs[3], np.finfo(np.float32).min)  # all are hidden alike, and so weigh the same
    even = replace(masked, inputs=(*masked.inputs[:3], least))
    return [case for one in (*forward, blind, even) for case in (one, _backward(one, rng))]


@pytest.mark.parametrize("target", ["host", "x86-64-v3"])
def test_kernels_agree_with_the_reference(tmp_path: Path, target: str) -> None:
    library = Library(tmp_path, _cases(), get(target), threads=3, extra=("-O1",))
    for index in range(len(library.cases)):
        for tasks in (1, 3):
            library.check(index, tasks)


@pytest.mark.skipif(EMULATOR is None, reason="qemu-user is not installed")
def test_kernels_agree_on_aarch64(tmp_path: Path) -> None:
    cases = _cases()
    for case, outputs in zip(cases, run_emulated(tmp_path, cases, get("raspberry-pi-4"), tasks=2), strict=True):
        compare(case, outputs)


def test_kernels_agree_with_pytorch(tmp_path: Path) -> None:
    rng, cases, wanted = np.random.default_rng(1), list[Case](), list[list[Array]]()
    for q, k, width, causal in SIZES:
        mask = f"bool[{q[0]},1,{q[2]},{k[2]}]"
        sample = Sample((_text(q), _text(k), _text((*k[:3], width)), mask), {"scale": 0.3, "causal": False})
        forward = sample_case("attention", sample, rng)
        seen = forward.inputs[3] | np.eye(q[2], k[2], dtype=bool)
        seen[..., 0] = True  # PyTorch gives a row that sees nothing no number
        seen = np.tril(seen) if causal else seen
        case = _backward(replace(forward, inputs=(*forward.inputs[:3], seen)), rng)
        query, key, value = tensors = [torch.from_numpy(array).requires_grad_() for array in case.inputs[:3]]
        y = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=torch.from_numpy(seen), scale=0.3, enable_gqa=True
        )
        y.backward(torch.from_numpy(case.inputs[5]))
        cases += [replace(forward, inputs=(*forward.inputs[:3], seen)), case]
        wanted += [[y.detach().numpy()], [t.grad.numpy() for t in tensors if t.grad is not None]]
    library = Library(tmp_path, cases, get("host"), threads=2, extra=("-O1",))
    for index, arrays in enumerate(wanted):
        for got, want in zip(library.run(index, 2), arrays, strict=False):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * float(np.abs(want).max()))


def _text(shape: Shape) -> str:
    return f"f32[{','.join(map(str, shape))}]"


def test_what_has_no_kernel_is_expanded() -> None:
    backend, rng = CBackend(), np.random.default_rng(0)
    large = Sample(("f32[1,2,96,8]",) * 3, {"scale": 1.0, "causal": False})
    assert backend.claims(sample_case("attention", large, rng).node)
    dropping = replace(large, attrs={**large.attrs, "dropout": 0.1})
    assert not backend.claims(sample_case("attention", dropping, rng).node)
    assert not backend.claims(sample_case("attention", _samples()[0], rng).node), "few scores need no tiles"


def bert(positions: int) -> torch.nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
        max_position_embeddings=positions, num_labels=3, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    return BertForSequenceClassification(config).eval()


def llama(width: int = 32) -> torch.nn.Module:
    """Of two layers, with four heads, each two of which share keys."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=width, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=48, use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def test_scores_of_a_long_sequence_are_never_in_memory() -> None:
    length = 1024
    model = pock.from_torch(bert(length), (torch.zeros(1, length, dtype=torch.int64),))
    recipe = pock.Recipe(loss="cross_entropy", optimizer={"name": "sgd", "lr": 0.1}, batch=1)
    planned = plan_programs(Request(model, recipe, get("host"), 2, scope=Scope.TRAINING))
    assert max(slot.nbytes for slot in planned.programs["train"].plan.slots) < length * length * 4


@pytest.mark.parametrize(
    ("module", "loss", "trained"),
    [
        (bert(80), "cross_entropy", "bert.encoder.layer.0.attention.*"),
        (llama(), "causal_lm", "model.layers.0.self_attn.*"),
    ],
    ids=["bert", "llama"],
)
def test_sparse_training_with_tiles_is_the_references(module: torch.nn.Module, loss: str, trained: str) -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 50, (2, 80))
    model = pock.from_torch(module, (torch.from_numpy(tokens),))
    recipe = pock.Recipe(
        loss=loss, optimizer={"name": "sgd", "lr": 0.05, "momentum": 0.9}, update=[{"params": trained}], batch=2
    )
    artifact = pock.compile(model, recipe, target="host", threads=2)
    assert "k_attention_backward" in str(artifact.manifest.to_json())
    session = artifact.load()
    reference = train_graph(without_dropout(model), recipe, resolve(recipe, model))
    names = [value.name for value in reference.inputs]
    feed = dict(zip(names, (tokens, tokens if loss == "causal_lm" else rng.integers(0, 3, 2)), strict=True))
    tensors: dict[str, Array] = {}
    for _ in range(3):
        outputs = interp.step(reference, feed, tensors)
        assert session.step(feed) == pytest.approx(float(outputs["loss"]), rel=1e-4)
