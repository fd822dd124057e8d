"""What is measured on a GPU, as data: training steps, what each has to reach, and which cannot be made yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.gpu.language_models import STEPS
from benchmarks.workloads import FULL, Family, Update, images, text, workload_named

BERT = Family(
    "bert", "BERT-base, 128 tokens", partial(text, length=128, vocabulary=30522, classes=2), {"num_labels": 2},
    input_name="input_ids",
)  # fmt: skip
_BERT_LAST_4: Update = (
    *(
        {"params": f"bert.encoder.layer.{layer}.{part}.*"}
        for layer in (8, 9, 10, 11)
        for part in ("attention", "intermediate")
    ),
    {"params": "bert.pooler.*"},
    {"params": "classifier.*"},
)


@dataclass(frozen=True)
class Row:
    """One training step.

    ask      our time, divided by the best peer's, that is wanted
    peers    which peers count; empty: all
    language a step of `language_models.STEPS`, in the place of family and update, of a model of `llama.MODELS`
    tokens   of it in a sample, where they are not the step's; `batch` then counts as well
    missing  why there is no such step of ours yet; the other fields then say nothing"""

    name: str
    title: str
    ask: str
    family: Family = BERT
    batch: int = 1
    update: Update = FULL
    peers: tuple[str, ...] = ()
    language: str = ""
    model: str = "7b"
    tokens: int = 0
    missing: str = ""


def _step(name: str, scheme: str, ask: float, *peers: str) -> Row:
    workload = workload_named(name)
    family, batch = workload.model, workload.batch
    return Row(name, f"{family.title}, batch {batch}, {scheme}", f"{ask:.2f}", family, batch, workload.update, peers)


def _of_7b(name: str, ask: str, language: str) -> Row:
    step = STEPS[language]
    return Row(name, f"7 B, {step.batch} x {step.tokens}, {step.title}", ask, peers=_LARGE_PEERS, language=language)


_LARGE_PEERS = ("eager", "default")
"""Of a large model: there is no memory for more at a time."""
_GRAPHS = ("reduce-overhead",)

ROWS = (
    _step("mobilenetv2-b64-full", "full", 0.55),
    _step("mobilenetv2-b64-last8", "last 8 blocks", 0.50),
    _step("mobilenetv2-b1-full", "full, against CUDA graphs", 0.60, *_GRAPHS),
    _step("mobilenetv2-b8-full", "full, against CUDA graphs", 0.60, *_GRAPHS),
    Row("bert-b32-full", "BERT-base, 32 x 128, full", "0.85", BERT, 32, FULL),
    Row("bert-b32-last4", "BERT-base, 32 x 128, attention and first FFN of the last 4", "0.80", BERT, 32, _BERT_LAST_4),
    _step("resnet50-b64-full", "full", 1.0),
    _step("resnet50-b64-last8", "first 1x1 of the last 8 blocks", 0.80),
    _of_7b("7b-last5", "0.92, memory 0.87", "sparse-bf16"),
    _of_7b("7b-last5-fp8", "0.75", "sparse-fp8"),
    _of_7b("7b-last5-512", "0.80", "sparse-short"),
    _of_7b("7b-norms", "0.95", "norms"),
    _of_7b("7b-lora", "0.90", "lora"),
    _of_7b("7b-lora-int4", "memory 0.55", "lora-int4"),
    _of_7b("7b-full", "0.95, memory 0.72", "full-bf16-50"),
)
KERNELS = {"products": "each 85 %, geometric mean 90 %", "attention": "forward 60 %, backward 55 %"}
"""Kernels of NVIDIA's libraries, and which part of their speed is wanted."""

_SMALL_BERT: Mapping[str, Any] = {
    "num_labels": 2, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
    "vocab_size": 64, "max_position_embeddings": 16,
}  # fmt: skip
_SMALL_RESNET: Mapping[str, Any] = {
    "num_labels": 4, "depths": [1], "hidden_sizes": [16], "embedding_size": 8, "layer_type": "basic",
}  # fmt: skip
DRY = (
    Row(
        "bert-small", "BERT of one small layer, 2 x 8, full", "0.85",
        replace(BERT, config=_SMALL_BERT, feed=partial(text, length=8, vocabulary=64, classes=2)), 2, FULL,
        ("eager",),
    ),
    Row(
        "resnet-small", "ResNet of one small block, 2 x 16, classifier", "0.80",
        replace(workload_named("resnet50-b64-full").model, config=_SMALL_RESNET,
                feed=partial(images, side=16, classes=4)), 2,
        ({"params": "classifier.*"},), ("eager",),
    ),
    Row(
        "llama-small", "a LLaMA of 2 layers, 2 x 16, sparse", "0.92", batch=2, peers=("eager",), language="sparse",
        model="small", tokens=16,
    ),
    Row("none", "nothing", "", missing="there is no such row"),
)  # fmt: skip
"""What the dry form runs in their place: its times mean nothing."""
