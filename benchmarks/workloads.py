"""The training steps under comparison, as data. Imports no framework: every peer's environment reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

LEARNING_RATE = 1e-5
MOMENTUM = 0.9

Array = npt.NDArray[Any]
Feed = dict[str, Array]


class MakeFeed(Protocol):
    """Inputs and labels of one batch."""

    def __call__(self, batch: int) -> Feed: ...


def images(batch: int, side: int, classes: int) -> Feed:
    """`pixel_values` f32[batch, 3, side, side], `labels` i64[batch]."""
    chance = np.random.default_rng(1)
    images = chance.standard_normal((batch, 3, side, side), dtype=np.float32)
    return {"pixel_values": images, "labels": chance.integers(0, classes, batch)}


def text(batch: int, length: int, vocabulary: int, classes: int | None = None) -> Feed:
    """`input_ids` i64[batch, length]; `labels` i64[batch], or the tokens themselves where there are no classes."""
    chance = np.random.default_rng(1)
    tokens = chance.integers(0, vocabulary, (batch, length))
    return {"input_ids": tokens, "labels": tokens if classes is None else chance.integers(0, classes, batch)}


@dataclass(frozen=True)
class Family:
    """A model. `config` is what the `transformers` configuration says differently; for mcunet, see peers/torch_models.

    loss        of the recipe: cross_entropy or causal_lm
    input_name  what the model calls its input"""

    name: str
    title: str
    feed: MakeFeed
    config: Mapping[str, Any] = field(default_factory=dict)
    loss: str = "cross_entropy"
    input_name: str = "pixel_values"


FAMILIES = {
    family.name: family
    for family in (
        Family(
            "mobilenetv2",
            "MobileNetV2 224",
            partial(images, side=224, classes=1000),
            {"image_size": 224, "num_labels": 1000},
        ),
        Family("mcunet", "MCUNet-5FPS-like 128", partial(images, side=128, classes=10), {"classes": 10}),
        Family("resnet50", "ResNet-50 224", partial(images, side=224, classes=1000), {"num_labels": 1000}),
        Family(
            "distilbert",
            "DistilBERT, 128 tokens",
            partial(text, length=128, vocabulary=30522, classes=2),
            {"num_labels": 2},
            input_name="input_ids",
        ),
        Family(
            "llama",
            "LLaMA-shaped 1.1 B, 512 tokens",
            partial(text, length=512, vocabulary=32000),
            {
                "hidden_size": 2048,
                "num_hidden_layers": 22,
                "num_attention_heads": 32,
                "num_key_value_heads": 4,
                "head_dim": 64,
                "intermediate_size": 5632,
                "vocab_size": 32000,
                "use_cache": False,
            },
            loss="causal_lm",
            input_name="input_ids",
        ),
    )
}

Update = tuple[Mapping[str, Any], ...]
FULL: Update = ({"params": "*"},)


_STATE8 = "-state8"
"""How names of workloads with 8-bit momentum end."""


@dataclass(frozen=True)
class Workload:
    """One row of the comparison: a model, samples per step, and what is trained.

    update   the recipe's update rules; peers train the same parameters
    ask      the ratio of our time to the best peer's that the project sets itself
    frozen   how our recipe keeps what is not trained; peers keep it in f32
    alone    too large for all peers to stay in memory at once: each turn is a process of its own
    compute  the format in which our contractions multiply; where it is not f32, peers compete in it and in f32
    memory   MiB that our whole process may take: our recipe for a step that keeps more for its backward part
    state    how our optimizer keeps its momentum; peers keep it in f32"""

    name: str
    family: str
    batch: int
    scheme: str
    update: Update
    ask: float
    frozen: Mapping[str, Any] | None = None
    alone: bool = False
    compute: str = "f32"
    memory: int | None = None
    state: str = "f32"

    @property
    def model(self) -> Family:
        return FAMILIES[self.family]

    @property
    def title(self) -> str:
        multiplied = "" if self.compute == "f32" else f", {self.compute} products"
        kept = "" if self.state == "f32" else ", 8-bit momentum"
        return f"{self.model.title}, batch {self.batch}, {self.scheme}{multiplied}{kept}"

    @property
    def training(self) -> str:
        """The name without the formats: what is trained, and on what."""
        return self.name.removesuffix(_STATE8).removesuffix(f"-{self.compute}")

    def feed(self) -> Feed:
        return self.model.feed(batch=self.batch)


def _params(*patterns: str) -> Update:
    return tuple({"params": pattern} for pattern in patterns)


_MOBILENET_LAST_8 = _params(
    "mobilenet_v2.layer.[89].*", "mobilenet_v2.layer.1[0-5].*", "mobilenet_v2.conv_1x1.*", "classifier.*"
)

# Biases of the last 7 blocks, the first convolution of four, one of them half (PockEngine's scheme for MCUNet).
_MCUNET_SPARSE: Update = (
    *_params("blocks.10.expand.convolution.weight", "blocks.11.expand.convolution.weight"),
    {"params": "blocks.12.expand.convolution.weight", "channels": 0.5},
    *_params(
        "blocks.13.expand.convolution.weight",
        "blocks.9.*.normalization.bias",
        "blocks.1[0-5].*.normalization.bias",
        "classifier.*",
    ),
)

# The last 8 of 16 blocks: two of the third stage's six are frozen.
_RESNET_LAST_8 = _params(
    "resnet.encoder.stages.2.layers.[1-5].layer.0.convolution.weight",
    "resnet.encoder.stages.3.layers.*.layer.0.convolution.weight",
    "classifier.*",
)
_DISTILBERT_LAST_2 = _params(
    "distilbert.transformer.layer.[45].attention.*", "distilbert.transformer.layer.[45].ffn.lin1.*",
    "pre_classifier.*", "classifier.*",
)  # fmt: skip
_INT4 = {"weights": "int4", "params": "*"}
_LLAMA_LAST_5 = _params("model.layers.1[789].*", "model.layers.2[01].*")

WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("mobilenetv2-b1-full", "mobilenetv2", 1, "full", FULL, 0.45),
        Workload("mobilenetv2-b1-last8", "mobilenetv2", 1, "last 8 blocks", _MOBILENET_LAST_8, 0.40),
        Workload("mobilenetv2-b8-full", "mobilenetv2", 8, "full", FULL, 0.60, memory=160),
        Workload("mobilenetv2-b8-last8", "mobilenetv2", 8, "last 8 blocks", _MOBILENET_LAST_8, 0.50),
        Workload("mcunet-b1-full", "mcunet", 1, "full", FULL, 0.30),
        Workload("mcunet-b1-sparse", "mcunet", 1, "sparse", _MCUNET_SPARSE, 0.25),
        Workload("resnet50-b4-full", "resnet50", 4, "full", FULL, 0.80),
        Workload("resnet50-b4-last8", "resnet50", 4, "first 1x1 of the last 8 blocks", _RESNET_LAST_8, 0.70),
        Workload("distilbert-b8-full", "distilbert", 8, "full", FULL, 0.85, memory=680),
        Workload(
            "distilbert-b8-last2", "distilbert", 8, "attention, first FFN of last 2", _DISTILBERT_LAST_2, 0.80,
            memory=240,
        ),
        Workload("distilbert-b8-full-bf16", "distilbert", 8, "full", FULL, 0.75, compute="bf16", memory=680),
        Workload(
            "distilbert-b8-last2-bf16", "distilbert", 8, "attention, first FFN of last 2", _DISTILBERT_LAST_2, 0.75,
            compute="bf16", memory=242,
        ),
        Workload("llama-b1-last5", "llama", 1, "last 5 layers", _LLAMA_LAST_5, 0.60, _INT4, alone=True, memory=2400),
        Workload("llama-b1-last5-bf16", "llama", 1, "last 5 layers", _LLAMA_LAST_5, 0.60, _INT4, True, "bf16"),
        Workload(f"distilbert-b8-full{_STATE8}", "distilbert", 8, "full", FULL, 0.85, memory=515, state="int8"),
        Workload(
            f"distilbert-b8-last2{_STATE8}", "distilbert", 8, "attention, first FFN of last 2", _DISTILBERT_LAST_2,
            0.80, memory=236, state="int8",
        ),
        Workload(
            f"llama-b1-last5{_STATE8}", "llama", 1, "last 5 layers", _LLAMA_LAST_5, 0.60, _INT4, alone=True,
            memory=1670, state="int8",
        ),
    )
}  # fmt: skip


def workload_named(name: str) -> Workload:
    """A workload of the table, or one of them at another batch: `resnet50-b16-full`. Raises KeyError."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    family, batch, scheme = name.split("-", 2)
    same = (w for w in WORKLOADS.values() if (w.family, w.name.split("-", 2)[2]) == (family, scheme))
    known = next(same, None)
    if known is None:
        raise KeyError(f"there is no workload '{name}'; there are {', '.join(WORKLOADS)}, at any batch")
    return replace(known, name=name, batch=int(batch.removeprefix("b")), memory=None)
